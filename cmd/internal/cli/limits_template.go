package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// maxInline is the maximum size of a template that CloudFormation accepts inline.
const maxInline = 51_200

func newLimitsTemplate(conn *kit.Connection) *cobra.Command {
	o := limitsOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "cfn-template FILE",
		Short: "Print a CloudFormation template for a manifest",
		Long: `Print a CloudFormation template with one custom resource that declares the
limits of a manifest. The provisioner of the stack --name applies them to its
table, and deletes them with the template's own stack. The command opens no
store.

` + manifestHelp,
		Example: `  zae-limiter limits cfn-template limits.yaml --name my-app > limits.cfn
  aws cloudformation deploy --template-file limits.cfn --stack-name my-limits`,
		Args:              kit.Arguments(fileArg(&o.file)),
		ValidArgsFunction: kit.CompleteManifest,
		RunE:              func(*cobra.Command, []string) error { return runLimitsTemplate(o) },
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func runLimitsTemplate(o limitsOptions) error {
	m, err := o.loadManifest()
	if err != nil {
		return err
	}

	name, err := stackName(o.Connection)
	if err != nil {
		return err
	}

	text, err := m.Template(name, o.json)
	if kit.Is[*limiter.InvalidError](err) {
		return kit.Usagef("%v", err)
	}
	if err != nil {
		return err
	}

	if len(text) > maxInline {
		o.Warn("the template has %s bytes; above %s, CloudFormation reads it only from S3",
			tty.Number(int64(len(text))), tty.Number(maxInline))
	}

	_, err = o.Out.Write(text)
	return err
}

// StackName returns the name of the stack that owns the selected table.
func stackName(conn *kit.Connection) (string, error) {
	const missing = "no stack is named; give its name with --name"
	// SelectStore would fall back to the embedded store, which belongs to no
	// stack.
	if conn.Store == "" && conn.Name == "" && os.Getenv(kit.EnvStore) == "" && os.Getenv(kit.EnvStack) == "" {
		return "", kit.Usagef(missing)
	}

	s, err := conn.SelectStore()
	if err != nil {
		return "", err
	}

	if !s.Dynamo {
		return "", kit.Usagef("%s, since %s belongs to no stack", missing, s.Name)
	}

	return strings.TrimPrefix(s.Name, kit.TableScheme), nil
}
