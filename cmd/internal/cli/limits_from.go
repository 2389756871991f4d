package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/hint"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// runSettingsExport prints the settings of a table that may belong to a newer
// release.
func runSettingsExport(ctx context.Context, o limitsExportOptions) error {
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
func (o *limitsExportOptions) printSettings(found *dynamo.Settings) error {
	m := &manifest.Manifest{Namespace: found.Namespace, Levels: found.Levels}
	if err := m.Validate(); err != nil {
		return err
	}

	for _, what := range found.LeftOut {
		o.Warn("%s", what)
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
func (o *limitsExportOptions) printEntities(found *dynamo.Settings) error {
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
