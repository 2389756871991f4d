package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
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

type exportOptions struct {
	*kit.Console
	output, architecture string
	force, info, json    bool
}

func newLambdaExport(c *kit.Console) *cobra.Command {
	o := &exportOptions{Console: c}
	cmd := &cobra.Command{
		Use:   "lambda-export",
		Short: "Write the code of the functions to a zip file",
		Long: `Write the code of the aggregator and the provisioner to a zip file with one
executable, bootstrap, for the runtime provided.al2023. The same executable
gives the same bytes. It is zae-limiter-function from the folder of this
program, as in releases. If that is missing, the command builds it
with Go. Without Go it is this program, which is larger and must be linked
statically for Linux.`,
		Example: "  zae-limiter lambda-export -o lambda.zip --architecture x86_64\n  zae-limiter lambda-export --info",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLambdaExport(cmd.Context(), o) },
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "lambda.zip", "`file` to write")
	cmd.Flags().StringVar(&o.architecture, "architecture", "",
		"`arch` of the functions: arm64 or x86_64 (default: that of this program if it can be packaged, else arm64)")
	cmd.Flags().BoolVarP(&o.force, "force", "f", false, "overwrite an existing file")
	cmd.Flags().BoolVar(&o.info, "info", false, "only describe the zip file; build and write nothing")

	kit.AddJSON[packageJSON](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

// packageJSON is the output of lambda-export as JSON.
type packageJSON struct {
	Path         *string `json:"path" doc:"path of the file that was written"`
	Runtime      string  `json:"runtime" doc:"runtime of the functions"`
	Handler      string  `json:"handler" doc:"handler, which the runtime ignores"`
	Architecture string  `json:"architecture" doc:"arm64 or x86_64"`
	Size         *int    `json:"size" doc:"size in bytes"`
	SHA256       *string `json:"sha256" doc:"checksum in hexadecimal digits"`
	Source       string  `json:"source" doc:"origin of the executable"`
}

func runLambdaExport(ctx context.Context, o *exportOptions) error {
	// A build takes minutes, so an existing file is an error before it.
	if _, err := os.Stat(o.output); err == nil && !o.info && !o.force {
		return fmt.Errorf("%s already exists; overwrite it with --force", o.output)
	}

	p, err := infra.NewPackage(ctx, &infra.PackageOptions{
		Architecture: o.architecture, Version: o.Version, NoBuild: o.info, Building: o.Building,
	})
	if err != nil {
		return kit.StackError(err)
	}

	shape := packageJSON{
		Runtime: "provided.al2023", Handler: "bootstrap", Architecture: p.Architecture,
		SHA256: jsonview.OrNull(p.SHA256), Source: p.Source,
	}

	// With --info nothing is built, so the size may be unknown.
	size := kit.Text("")
	if p.Zip != nil {
		shape.Size = new(len(p.Zip))
		size = kit.Cell{Display: tty.Bytes(int64(len(p.Zip))), Plain: fmt.Sprint(len(p.Zip))}
	}

	if !o.info {
		if err := os.MkdirAll(filepath.Dir(o.output), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(o.output, p.Zip, 0o644); err != nil { //nolint:gosec // it is no secret
			return err
		}
		shape.Path = &o.output
		o.Done("Wrote %s", o.output)
	}

	return kit.PrintProperties(o.Console, o.json, []kit.Property{
		{Name: "runtime", Value: kit.Text(shape.Runtime)},
		{Name: "handler", Value: kit.Text(shape.Handler)},
		{Name: "architecture", Value: kit.Text(shape.Architecture)},
		{Name: "size", Value: size},
		{Name: "sha256", Value: kit.Text(p.SHA256)},
		{Name: "source", Value: kit.Text(shape.Source)},
	}, shape)
}
