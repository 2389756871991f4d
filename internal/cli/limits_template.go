package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// maxInline is how many bytes of a template CloudFormation takes as they are.
const maxInline = 51_200

func newLimitsTemplate(conn *connection) *cobra.Command {
	o := limitsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "cfn-template FILE",
		Short: "Print a CloudFormation template that applies a manifest",
		Long: `Prints a CloudFormation template of one custom resource, whose limits are those
of a manifest. The provisioner of the stack named by --name applies them to its
table, and deletes them with the template's own stack. No store is asked.

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
	m, err := o.declared()
	if err != nil {
		return err
	}
	name, err := o.stack()
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
		o.warn("the template has %s bytes; CloudFormation takes more than %s only from S3", tty.Number(int64(len(text))), tty.Number(maxInline))
	}
	_, err = o.out.Write(text)
	return err
}

// stack is the name of the stack that has the chosen table.
func (conn *connection) stack() (string, error) {
	const missing = "the stack is not named; give its name with --name"
	if conn.store == "" && conn.name == "" && os.Getenv(envStore) == "" && os.Getenv(envStack) == "" {
		return "", usagef(missing)
	}
	s, err := conn.chosen()
	if err != nil {
		return "", err
	}
	if !s.dynamo {
		return "", usagef("%s, since %s belongs to none", missing, s.name)
	}
	return strings.TrimPrefix(s.name, "dynamodb:"), nil
}
