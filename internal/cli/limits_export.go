package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
)

func newLimitsExport(conn *connection) *cobra.Command {
	o := limitsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the stored limits as a manifest",
		Long: `Print all limits of a namespace as a manifest. Applying that manifest changes no
limits, but makes them managed. The command only reads.

With --json, print the manifest as JSON, which apply also accepts.`,
		Example: "  zae-limiter limits export > limits.yaml\n  zae-limiter limits export -N tenant-a --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLimitsExport(cmd.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func runLimitsExport(ctx context.Context, o limitsOptions) error {
	return o.withStore(ctx, accessRead, func(_ *limiter.RateLimiter, repo limiter.Repository) error {
		m, err := manifest.Export(ctx, repo, o.namespaceName())
		if err != nil {
			return err
		}
		write := m.YAML
		if o.json {
			write = m.JSON
		}
		text, err := write()
		if err != nil {
			return err
		}
		_, err = o.out.Write(text)
		return err
	})
}

func newLimitsSchema(conn *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of manifests",
		Long: `Print the JSON Schema of manifests, with which editors check and complete them.
The validate command checks the same rules and a few more, such as duplicate
keys.`,
		Example: "  zae-limiter limits schema > limits.schema.json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := conn.out.Write([]byte(manifest.Schema()))
			return err
		},
	}
}
