package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

func newTemplate(c *kit.Console) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "cfn-template",
		Short: "Print the CloudFormation template of a stack",
		Long: `Print the CloudFormation template that deploy uses, to deploy it with other
tools. The code of its functions comes from lambda-export: upload it to an S3
bucket in the same region, and set the parameters CodeBucket and CodeKey.`,
		Example: "  zae-limiter cfn-template -o template.yaml",
		Args:    kit.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if output != "" {
				if err := os.WriteFile(output, infra.Template(), 0o644); err != nil { //nolint:gosec // it is no secret
					return err
				}
				c.Done("Wrote %s", output)
				return nil
			}
			_, err := c.Out.Write(infra.Template())
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`file` to write or overwrite (default: stdout)")
	return cmd
}
