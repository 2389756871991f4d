package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/infra"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

type exportOptions struct {
	*console
	output, architecture string
	force, info, json    bool
}

func newLambdaExport(c *console) *cobra.Command {
	o := &exportOptions{console: c}
	cmd := &cobra.Command{
		Use:   "lambda-export",
		Short: "Write the code of the functions as a zip file",
		Long: `Writes the code of the functions, which is this program, as a zip file with one
executable, bootstrap, for the runtime provided.al2023. It serves the aggregator
and the provisioner. The same program gives the same bytes. Where this one is
not for Linux, or not linked statically, Go is needed to build it.`,
		Example: "  zae-limiter lambda-export -o lambda.zip --architecture x86_64\n  zae-limiter lambda-export --info",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLambdaExport(cmd.Context(), o) },
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "lambda.zip", "`file` to write")
	cmd.Flags().StringVar(&o.architecture, "architecture", "", "arm64 or x86_64 (default: that of this program if it can be packed, else arm64)")
	cmd.Flags().BoolVarP(&o.force, "force", "f", false, "overwrite the file")
	cmd.Flags().BoolVar(&o.info, "info", false, "only tell what would be written, and build nothing")
	addJSON[packageShape](cmd, &o.json, anObject, nil)
	return cmd
}

// packageShape is what is known of a package.
type packageShape struct {
	Path         *string `json:"path" doc:"of the file that was written"`
	Runtime      string  `json:"runtime" doc:"that the functions need"`
	Handler      string  `json:"handler" doc:"which the runtime ignores"`
	Architecture string  `json:"architecture" doc:"arm64 or x86_64"`
	Size         *int    `json:"size" doc:"in bytes"`
	SHA256       *string `json:"sha256" doc:"in hexadecimal digits"`
	Source       string  `json:"source" doc:"where the executable comes from"`
}

func runLambdaExport(ctx context.Context, o *exportOptions) error {
	if _, err := os.Stat(o.output); err == nil && !o.info && !o.force {
		return fmt.Errorf("%s is there already; --force overwrites it", o.output)
	}
	p, err := infra.NewPackage(ctx, &infra.PackageOptions{Architecture: o.architecture, Version: thisBuild().Version, NoBuild: o.info, Building: o.building})
	if err != nil {
		return stackError(err)
	}
	shape := packageShape{Runtime: "provided.al2023", Handler: "bootstrap", Architecture: p.Architecture, SHA256: orNull(p.SHA256), Source: p.Source}
	size := text("")
	if p.Zip != nil {
		shape.Size = new(len(p.Zip))
		size = cell{people: tty.Bytes(int64(len(p.Zip))), program: fmt.Sprint(len(p.Zip))}
	}
	if !o.info {
		if err := os.MkdirAll(filepath.Dir(o.output), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(o.output, p.Zip, 0o644); err != nil { //nolint:gosec // it is no secret
			return err
		}
		shape.Path = &o.output
		o.done("Wrote %s", o.output)
	}
	return printFacts(o.console, o.json, []fact{
		{"runtime", text(shape.Runtime)},
		{"handler", text(shape.Handler)},
		{"architecture", text(shape.Architecture)},
		{"size", size},
		{"sha256", text(p.SHA256)},
		{"source", text(shape.Source)},
	}, shape)
}
