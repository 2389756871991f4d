package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/infra"
)

func newTemplate(c *console) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "cfn-template",
		Short: "Print the CloudFormation template",
		Long: `Prints the CloudFormation template that deploy uses, for those who deploy it by
other means. The code of its functions is what lambda-export writes; put it into
a bucket of the same region and name that with CodeBucket and CodeKey.`,
		Example: "  zae-limiter cfn-template -o template.yaml",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if output != "" {
				if err := os.WriteFile(output, infra.Template(), 0o644); err != nil { //nolint:gosec // it is no secret
					return err
				}
				c.done("Wrote %s", output)
				return nil
			}
			_, err := c.out.Write(infra.Template())
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`file` to write, which is overwritten (default: stdout)")
	return cmd
}
