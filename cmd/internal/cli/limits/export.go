package limits

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/hint"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/manifest"
)

type exportOptions struct {
	options
	from              string
	partial, entities bool
}

func newExport(conn *kit.Connection) *cobra.Command {
	o := exportOptions{options: options{Connection: conn}}
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

func runLimitsExport(ctx context.Context, o exportOptions) error {
	// The table of --from may be one that OpenStore refuses.
	if o.from != "" {
		return runSettingsExport(ctx, o)
	}
	if o.partial || o.entities {
		return kit.Usagef("--partial and --entities belong to --from; name a table with --from dynamodb:NAME")
	}

	return o.WithStore(ctx, kit.Read, func(_ *limiter.RateLimiter, repo limiter.Repository) error {
		m, err := manifest.Export(ctx, repo, o.NamespaceName())
		if err != nil {
			return err
		}
		return o.printManifest(m)
	})
}

func (o *options) printManifest(m *manifest.Manifest) error {
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

func newSchema(conn *kit.Connection) *cobra.Command {
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

// runSettingsExport prints the settings of a table that may belong to a newer
// release.
func runSettingsExport(ctx context.Context, o exportOptions) error {
	if o.Store != "" || o.Name != "" {
		return kit.Usagef("--from names the table to read; remove --store and --name")
	}

	if o.entities && o.json {
		return kit.Usagef("--entities prints commands; remove --json")
	}

	s, err := kit.StoreFrom("--from", o.from)
	if err != nil {
		return err
	}
	if !s.Dynamo {
		return kit.Usagef("invalid --from %q: must be dynamodb:NAME; --store reads other stores", kit.Clip(o.from))
	}

	if err := kit.CheckEndpoint(o.Endpoint); err != nil {
		return err
	}

	found, err := dynamo.ReadSettings(ctx, strings.TrimPrefix(s.Name, kit.TableScheme), &dynamo.Options{
		Namespace: o.NamespaceName(), Region: o.Region, Endpoint: o.Endpoint, Timeout: kit.TableTimeout,
	})

	// What is invalid here is a name from the command line or the environment.
	if kit.Is[*limiter.InvalidError](err) {
		return kit.Usagef("%v", err)
	}

	if err != nil {
		return err
	}

	if o.entities {
		return o.printEntities(found)
	}
	return o.printSettings(found)
}

// printSettings prints the limits as a manifest. Without --partial it prints
// nothing unless the manifest is complete.
func (o *exportOptions) printSettings(found *dynamo.Settings) error {
	m := &manifest.Manifest{Namespace: found.Namespace, Levels: found.Levels}
	if err := m.Validate(); err != nil {
		return err
	}

	for _, what := range found.LeftOut {
		o.Warn("%s", hint.LeftOut(what))
	}

	if n := len(found.LeftOut); n > 0 && !o.partial {
		return fmt.Errorf("a manifest cannot express %s of namespace %s; --partial prints the rest",
			kit.Count(n, "setting"), found.Namespace)
	}

	if n := len(found.Entities) + len(found.Disabled); n > 0 {
		o.Say("a manifest holds limits alone; --entities prints %s for %s", kit.Count(n, "command"),
			entityCount(len(found.Entities)))
	}

	return o.printManifest(m)
}

// printEntities prints a shell script that creates the entities, parents first,
// and disables what is disabled.
func (o *exportOptions) printEntities(found *dynamo.Settings) error {
	var lines []string
	add := func(words ...string) {
		if found.Namespace != kit.DefaultNamespace {
			words = append(words, "--namespace", found.Namespace)
		}
		lines = append(lines, hint.Place{}.Line(words...))
	}

	for _, e := range found.Entities {
		words := []string{"entity", "create", e.ID}
		// A new entity has its ID as name by default.
		if e.Name != "" && e.Name != e.ID {
			words = append(words, "--display-name", e.Name)
		}
		if e.Parent != "" {
			words = append(words, "--parent", e.Parent)
		}
		if e.Cascade {
			words = append(words, "--cascade")
		}
		for _, key := range slices.Sorted(maps.Keys(e.Metadata)) {
			words = append(words, "--metadata", key+"="+e.Metadata[key])
		}

		add(words...)
	}

	for _, s := range found.Disabled {
		switch {
		case s.Entity == "":
			add("resource", "disable", s.Resource, "--yes")
		case s.Resource == "":
			add("entity", "disable", s.Entity, "--yes")
		default:
			add("entity", "disable", s.Entity, "--resource", s.Resource, "--yes")
		}
	}

	if len(lines) > 0 {
		// A command that fails must end the script, since later ones depend on
		// it, such as children on their parent.
		lines = append([]string{"set -e # set ZAEL_STORE to the store that they go to"}, lines...)
	}

	for _, line := range lines {
		if _, err := fmt.Fprintln(o.Out, line); err != nil {
			return err
		}
	}

	return nil
}

// maxInline is the maximum size of a template that CloudFormation accepts inline.
const maxInline = 51_200

func newTemplate(conn *kit.Connection) *cobra.Command {
	o := options{Connection: conn}
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

func runLimitsTemplate(o options) error {
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

// stackName returns the name of the stack that owns the selected table.
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
