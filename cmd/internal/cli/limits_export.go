package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/manifest"
)

type limitsExportOptions struct {
	limitsOptions
	from              string
	partial, entities bool
}

func newLimitsExport(conn *kit.Connection) *cobra.Command {
	o := limitsExportOptions{limitsOptions: limitsOptions{Connection: conn}}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the stored limits as a manifest",
		Long: `Print all limits of a namespace as a manifest. Applying that manifest changes no
limits, but makes them managed. The command only reads.

With --from, read a DynamoDB table that the other commands refuse: one of
Python's zae-limiter 0.10.1 to 0.17.0. Quotas that start with an hour, a day, a
week, a month or a year and soft limits become quotas and shadow limits. If a
manifest cannot express something, the command says what and fails; --partial
prints the rest. --entities prints the commands that create the entities and
disable what is disabled, in place of the manifest.

With --json, print the manifest as JSON, which apply also accepts.`,
		Example: "  zae-limiter limits export > limits.yaml\n  zae-limiter limits export -N tenant-a --json\n" +
			"  zae-limiter limits export --from dynamodb:old-app --partial > limits.yaml\n" +
			"  zae-limiter limits export --from dynamodb:old-app --entities > entities.sh",
		Args: kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLimitsExport(cmd.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	cmd.Flags().StringVar(&o.from, "from", "",
		"read a table that may belong to a newer release of Python's library: dynamodb:NAME, a `URL` as of --store")
	cmd.Flags().BoolVar(&o.partial, "partial", false, "with --from, leave out what a manifest cannot express")
	cmd.Flags().BoolVar(&o.entities, "entities", false, "with --from, print commands that create the entities")

	return cmd
}

func runLimitsExport(ctx context.Context, o limitsExportOptions) error {
	// The table of --from may be one that OpenStore refuses.
	if o.from != "" {
		return runSettingsExport(ctx, o)
	}
	if o.partial || o.entities {
		return kit.Usagef("--partial and --entities belong to --from; name a table with --from dynamodb:NAME")
	}

	return o.WithStore(ctx, kit.AccessRead, func(_ *limiter.RateLimiter, repo limiter.Repository) error {
		m, err := manifest.Export(ctx, repo, o.NamespaceName())
		if err != nil {
			return err
		}
		return o.printManifest(m)
	})
}

func (o *limitsOptions) printManifest(m *manifest.Manifest) error {
	write := m.YAML
	if o.json {
		write = m.JSON
	}

	text, err := write()
	if err != nil {
		return err
	}

	_, err = o.Out.Write(text)
	return err
}

func newLimitsSchema(conn *kit.Connection) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of manifests",
		Long: `Print the JSON Schema of manifests, with which editors check and complete them.
The validate command checks the same rules and a few more, such as duplicate
keys.`,
		Example: "  zae-limiter limits schema > limits.schema.json",
		Args:    kit.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := conn.Out.Write([]byte(manifest.Schema()))
			return err
		},
	}
}
