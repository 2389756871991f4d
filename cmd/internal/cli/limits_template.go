package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// maxInline is the maximum size of a template that CloudFormation accepts inline.
const maxInline = 51_200

func newLimitsTemplate(conn *connection) *cobra.Command {
	o := limitsOptions{connection: conn}
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
		Args:              arguments(fileArg(&o.file)),
		ValidArgsFunction: completeManifest,
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

	name, err := o.stackName()
	if err != nil {
		return err
	}

	text, err := m.Template(name, o.json)
	if is[*limiter.InvalidError](err) {
		return usagef("%v", err)
	}
	if err != nil {
		return err
	}

	if len(text) > maxInline {
		o.warn("the template has %s bytes; above %s, CloudFormation reads it only from S3",
			tty.Number(int64(len(text))), tty.Number(maxInline))
	}

	_, err = o.out.Write(text)
	return err
}

// stackName returns the name of the stack that owns the selected table.
func (conn *connection) stackName() (string, error) {
	const missing = "no stack is named; give its name with --name"
	// selectStore would fall back to the embedded store, which belongs to no
	// stack.
	if conn.store == "" && conn.name == "" && os.Getenv(envStore) == "" && os.Getenv(envStack) == "" {
		return "", usagef(missing)
	}

	s, err := conn.selectStore()
	if err != nil {
		return "", err
	}

	if !s.dynamo {
		return "", usagef("%s, since %s belongs to no stack", missing, s.name)
	}

	return strings.TrimPrefix(s.name, tableScheme), nil
}
