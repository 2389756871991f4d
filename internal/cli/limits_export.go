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
		Short: "Print what is stored as a manifest",
		Long: `Prints the limits of a namespace as a manifest, managed or not. Applying it
changes no limits; what it declares is managed from then on. It only reads.

With --json it is the same as JSON, which is a manifest, too.`,
		Example: "  zae-limiter limits export > limits.yaml\n  zae-limiter limits export -N tenant-a --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLimitsExport(cmd.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func runLimitsExport(ctx context.Context, o limitsOptions) error {
	return o.with(ctx, reads, func(_ *limiter.RateLimiter, repo limiter.Repository) error {
		m, err := manifest.Export(ctx, repo, o.space())
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
		Short: "Print the JSON Schema of manifests, for editors",
		Long: `Prints a JSON Schema, with which an editor checks and completes manifests. It is
the same that validate follows, which knows a little more: that a key is there
twice, say.`,
		Example: "  zae-limiter limits schema > limits.schema.json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := conn.out.Write([]byte(manifest.Schema()))
			return err
		},
	}
}
