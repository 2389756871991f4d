package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

type tableMigrateOptions struct {
	*kit.Stack
	originals, all, yes, json bool
	newer                     bool
	items                     atomic.Int64 // changed by the running migration
	kept                      int64
}

func newTableMigrate(c *kit.Console) *cobra.Command {
	o := &tableMigrateOptions{Stack: &kit.Stack{Console: c}}
	cmd := &cobra.Command{
		Use:   "migrate NAME",
		Short: "Migrate the data of a table to this version",
		Long: `Migrate data of releases before 0.10.0 to the format of this program, and update
the version record. The command can be interrupted and repeated at any time.
Stop services of those releases first, since their later writes are lost.
"zae-limiter upgrade" does the same for the table of a stack.

Items of releases before 0.10.0 stay beside their copies, so that a rollback is
possible, until --delete-originals removes them. Limits of releases before 0.8.0
are converted in place, and the old items are deleted: back up first.

With --delete-newer-buckets, also delete the buckets that Python's zae-limiter
0.10.1 or newer left. Such a release admits the limits a second time: stop its
services first, since they would create their buckets again.`,
		Example: "  zae-limiter table migrate my-app\n  zae-limiter table migrate my-app --delete-originals --yes",
		Args:    tableArg(o.Stack),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runTableMigrate(cmd.Context(), o) },
	}

	addTable(o.Stack, cmd)
	cmd.Flags().BoolVar(&o.originals, "delete-originals", false, "delete items of older releases that were copied")
	cmd.Flags().BoolVar(&o.all, "all", false, "run every migration, regardless of the version record")
	cmd.Flags().BoolVar(&o.newer, "delete-newer-buckets", false,
		"delete buckets of Python's zae-limiter 0.10.1 or newer")

	kit.AddYes(cmd, &o.yes)
	kit.AddJSON[migrationJSON](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

// migrationJSON is the output of table migrate as JSON.
type migrationJSON struct {
	Name     string   `json:"name" doc:"name of the table"`
	Migrated []string `json:"migrated" doc:"versions whose migrations were run"`
	Kept     int64    `json:"kept" doc:"number of originals that stay, since they have no copy"`
	Deleted  int      `json:"deleted_buckets,omitempty" doc:"number of deleted buckets of newer releases"`
}

func runTableMigrate(ctx context.Context, o *tableMigrateOptions) error {
	if err := o.CheckPlace(); err != nil {
		return err
	}

	opts := &dynamo.MigrateOptions{
		Options:         dynamo.Options{Region: o.Region, Endpoint: o.Endpoint},
		DeleteOriginals: o.originals, All: o.all, Progress: o.migrating,
	}

	if err := o.confirmOriginals(ctx, opts); err != nil {
		return kit.StackError(err)
	}

	stop := o.Progress(func() string { return "migrating: " + kit.Count(int(o.items.Load()), "item") })
	migrated, err := dynamo.Migrate(ctx, o.Name, opts)
	stop()
	if err != nil {
		return kit.StackError(err)
	}

	if len(migrated) == 0 {
		o.Done("Table %s is up to date", o.Name)
	} else {
		o.Done("Migrated table %s to %s", o.Name, strings.Join(migrated, ", "))
	}
	if o.kept > 0 {
		o.Warn("%s stay, since they have no copy", kit.Count(int(o.kept), "original"))
	}

	deleted, err := o.deleteNewer(ctx, opts.Options)
	if err != nil {
		return kit.StackError(err)
	}

	// A list in JSON is never null, even if it is empty.
	shape := migrationJSON{o.Name, append([]string{}, migrated...), o.kept, deleted}
	properties := []kit.Property{{Name: "name", Value: kit.Text(o.Name)}}
	for _, version := range migrated {
		properties = append(properties, kit.Property{Name: "migrated", Value: kit.Text(version)})
	}

	return kit.PrintProperties(o.Console, o.json, append(properties, kit.Property{Name: "kept", Value: kit.Number(o.kept)}), shape)
}

// deleteNewer deletes the buckets of newer releases if the flag says so, and
// returns their number.
func (o *tableMigrateOptions) deleteNewer(ctx context.Context, opts dynamo.Options) (deleted int, err error) {
	if !o.newer {
		return 0, nil
	}

	// Connect refuses a namespace that has such buckets, but not the registry.
	opts.Namespace = kit.RegistryNamespace
	repo, err := dynamo.Connect(ctx, o.Name, &opts)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()

	if !o.yes {
		if err := o.Ask(
			ctx,
			fmt.Sprintf("Delete the buckets of newer releases in table %s (%s)?", o.Name,
				where(o.Stack, cmp.Or(o.Region, "region of the environment"))),
		); err != nil {
			return 0, err
		}
	}

	if deleted, err = repo.DeleteNewerBuckets(ctx); err == nil {
		o.Done("Deleted %s of newer releases", kit.Count(deleted, "bucket"))
	}
	return deleted, err
}

// confirmOriginals asks for confirmation before a pending migration deletes
// originals.
func (o *tableMigrateOptions) confirmOriginals(ctx context.Context, opts *dynamo.MigrateOptions) error {
	if !o.originals || o.yes {
		return nil
	}

	// Without a pending migration nothing is deleted, so there is nothing to
	// confirm.
	pending, err := dynamo.PendingMigrations(ctx, o.Name, opts)
	if err != nil || len(pending) == 0 {
		return err
	}

	return o.Ask(ctx,
		fmt.Sprintf("Delete the items of older releases in table %s (%s) once they are copied?", o.Name,
			where(o.Stack, cmp.Or(o.Region, "region of the environment"))))
}

// migrating records the progress, and reports each completed migration.
func (o *tableMigrateOptions) migrating(p dynamo.Progress) {
	o.items.Store(p.Items)
	o.kept = p.Kept
	if p.Done {
		o.Say("  migrated to %s: %s", p.Version, kit.Count(int(p.Items), "item"))
	}
}
