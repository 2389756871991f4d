package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

type tableMigrateOptions struct {
	*stackConnection
	originals, all, yes, json bool
	items                     atomic.Int64 // changed by the migration under way
	kept                      int64
}

func newTableMigrate(c *console) *cobra.Command {
	o := &tableMigrateOptions{stackConnection: &stackConnection{console: c}}
	cmd := &cobra.Command{
		Use:   "migrate NAME",
		Short: "Bring the data of a table to the form of this version",
		Long: `Brings the data that releases before 0.10.0 stored to the form that this program
reads, and notes the version. It may be interrupted and called again at any
time. Services of those releases have to be stopped before: what they write
later is lost. "zae-limiter upgrade" does the same for the table of a stack.

The items of those releases stay beside their copies, so that going back is
possible, until --delete-originals removes them.`,
		Example: "  zae-limiter table migrate my-app\n  zae-limiter table migrate my-app --delete-originals --yes",
		Args:    o.tableArg(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runTableMigrate(cmd.Context(), o) },
	}
	o.addTable(cmd)
	cmd.Flags().BoolVar(&o.originals, "delete-originals", false, "delete the items of older releases that have been copied")
	cmd.Flags().BoolVar(&o.all, "all", false, "run every migration, whatever the version record says")
	addYes(cmd, &o.yes)
	addJSON[migrationShape](cmd, &o.json, anObject, nil)
	return cmd
}

// migrationShape is what table migrate prints.
type migrationShape struct {
	Name     string   `json:"name" doc:"of the table"`
	Migrated []string `json:"migrated" doc:"versions whose migrations were run"`
	Kept     int64    `json:"kept" doc:"originals that stay, since they have no copy"`
}

func runTableMigrate(ctx context.Context, o *tableMigrateOptions) error {
	if err := o.checkPlace(); err != nil {
		return err
	}
	opts := &dynamo.MigrateOptions{
		Options:         dynamo.Options{Region: o.region, Endpoint: o.endpoint},
		DeleteOriginals: o.originals, All: o.all, Progress: o.migrating,
	}
	if err := o.confirmOriginals(ctx, opts); err != nil {
		return stackError(err)
	}
	stop := o.progress(func() string { return "migrating: " + count(int(o.items.Load()), "item") })
	migrated, err := dynamo.Migrate(ctx, o.name, opts)
	stop()
	if err != nil {
		return stackError(err)
	}
	if len(migrated) == 0 {
		o.done("The data of table %s have the form of this version", o.name)
	} else {
		o.done("Migrated table %s to %s", o.name, strings.Join(migrated, ", "))
	}
	if o.kept > 0 {
		o.warn("%s stay, since they have no copy", count(int(o.kept), "original"))
	}
	shape := migrationShape{o.name, append([]string{}, migrated...), o.kept}
	facts := []fact{{"name", text(o.name)}}
	for _, version := range migrated {
		facts = append(facts, fact{"migrated", text(version)})
	}
	return printFacts(o.console, o.json, append(facts, fact{"kept", number(o.kept)}), shape)
}

// confirmOriginals asks before originals are deleted, if there is anything to do.
func (o *tableMigrateOptions) confirmOriginals(ctx context.Context, opts *dynamo.MigrateOptions) error {
	if !o.originals || o.yes {
		return nil
	}
	pending, err := dynamo.PendingMigrations(ctx, o.name, opts)
	if err != nil || len(pending) == 0 {
		return err
	}
	return o.ask(ctx, fmt.Sprintf("Delete the items of older releases in table %s (%s) once they are copied?", o.name, o.where(cmp.Or(o.region, "region of the environment"))))
}

// migrating notes how far it is, and says when a migration is complete.
func (o *tableMigrateOptions) migrating(p dynamo.Progress) {
	o.items.Store(p.Items)
	o.kept = p.Kept
	if p.Done {
		o.say("  migrated to %s: %s", p.Version, count(int(p.Items), "item"))
	}
}
