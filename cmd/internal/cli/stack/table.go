package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

func newTable(c *kit.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "table",
		Short: "Manage DynamoDB tables without a stack",
		Long: `Manage DynamoDB tables without a CloudFormation stack, for DynamoDB Local and
for accounts where another tool creates the infrastructure. Such a table has no
function that counts usage; "zae-limiter aggregate" does.`,
		Args: kit.RequireKnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	cmd.AddCommand(newTableCreate(c), newTableMigrate(c), newTableDelete(c))
	return cmd
}

// tableArg requires the name of a table, as the argument NAME or as --name. It
// must be a valid name of a stack.
func tableArg(s *kit.Stack) cobra.PositionalArgs {
	take := kit.Arguments(kit.Argument{Name: "NAME", Set: func(name string) error {
		if s.Name != "" && s.Name != name {
			return fmt.Errorf("NAME is %q and --name is %q; give one of them", kit.Clip(name), kit.Clip(s.Name))
		}

		s.Name = name
		// Names of functions and roles, which are longer than the name of the
		// table, do not matter without a stack.
		return infra.Stack{NoAggregator: true, NoProvisioner: true, NoIAM: true}.Validate(name)
	}})

	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && s.Name != "" {
			args = []string{s.Name}
		}
		return take(cmd, args)
	}
}

// addTable adds the flags of a table to a command.
func addTable(s *kit.Stack, cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.Name, "name", "n", "", "`name` of the table, in place of NAME")
	s.AddPlace(cmd)
}

type tableCreateOptions struct {
	*kit.Stack
	namespace       string
	leanIndex, json bool
}

func newTableCreate(c *kit.Console) *cobra.Command {
	o := &tableCreateOptions{Stack: &kit.Stack{Console: c}}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a table",
		Long: `Create a table with its indexes, stream and expiry, write the version record,
and register a namespace. Existing parts stay as they are, so the command can be
repeated. In an AWS account, "zae-limiter deploy" creates a table with backups,
alarms and a function that counts usage.`,
		Example: "  zae-limiter table create my-app --endpoint-url http://localhost:8000",
		Args:    tableArg(o.Stack),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runTableCreate(cmd.Context(), o) },
	}

	addTable(o.Stack, cmd)
	cmd.Flags().StringVarP(&o.namespace, "namespace", "N", "",
		"`namespace` to register (default $ZAEL_NAMESPACE, else default)")

	cmd.Flags().BoolVar(&o.leanIndex, "lean-index", false,
		"keep only keys in the index by resource of a new table: cheaper writes, but Python's queries of a "+
			"resource find nothing")

	kit.AddJSON[tableJSON](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

// tableJSON is the output of table create as JSON.
type tableJSON struct {
	Name        string `json:"name" doc:"name of the table"`
	Created     bool   `json:"created" doc:"whether the table was created"`
	Namespace   string `json:"namespace" doc:"registered namespace"`
	NamespaceID string `json:"namespace_id" doc:"ID of the namespace"`
}

func runTableCreate(ctx context.Context, o *tableCreateOptions) (err error) {
	if err := o.CheckPlace(); err != nil {
		return err
	}

	shape := tableJSON{Name: o.Name, Namespace: dynamo.NamespaceName(o.namespace)}
	if err := (limiter.Namespace{Name: shape.Namespace}).Validate(); err != nil {
		return kit.Usagef("%v", err)
	}

	opts := &dynamo.Options{
		Namespace: kit.RegistryNamespace, Region: o.Region, Endpoint: o.Endpoint, LeanIndex: o.leanIndex,
	}

	// The registry needs no registration, so ErrNotFound means that the table
	// is missing, and not its namespace.
	switch repo, err := dynamo.Connect(ctx, o.Name, opts); {
	case errors.Is(err, limiter.ErrNotFound):
		shape.Created = true
	case err != nil:
		return kit.StackError(err)
	default:
		// It was opened only to find out whether it exists.
		_ = repo.Close()
	}

	opts.Namespace = shape.Namespace
	if err := dynamo.CreateTable(ctx, o.Name, opts); err != nil {
		return kit.StackError(err)
	}

	// Only a connection to the namespace knows its ID.
	repo, err := dynamo.Connect(ctx, o.Name, opts)
	if err != nil {
		return kit.StackError(err)
	}
	defer func() { err = errors.Join(err, repo.Close()) }()

	shape.NamespaceID = repo.NamespaceID()
	return o.reportTable(shape)
}

func (o *tableCreateOptions) reportTable(shape tableJSON) error {
	if shape.Created {
		o.Done("Created table %s with namespace %s", shape.Name, shape.Namespace)
	} else {
		o.Done("Table %s already exists, with namespace %s", shape.Name, shape.Namespace)
	}

	err := kit.PrintProperties(o.Console, o.json, []kit.Property{
		{Name: "name", Value: kit.Text(shape.Name)},
		{Name: "created", Value: kit.YesNo(shape.Created)},
		{Name: "namespace", Value: kit.Text(shape.Namespace)},
		{Name: "namespace_id", Value: kit.Text(shape.NamespaceID)},
	}, shape)
	if err == nil {
		o.SuggestStore(shape.Name)
	}
	return err
}

type tableDeleteOptions struct {
	*kit.Stack
	yes, json bool
}

func newTableDelete(c *kit.Console) *cobra.Command {
	o := &tableDeleteOptions{Stack: &kit.Stack{Console: c}}
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Aliases: []string{"rm"},
		Short:   "Delete a table without a stack",
		Long: `Delete a table and its data. A missing table counts as deleted. The command does
not delete a table of a stack (use "zae-limiter delete"), a protected table, or
a table of another program.`,
		Example: "  zae-limiter table delete my-app --endpoint-url http://localhost:8000 --yes",
		Args:    tableArg(o.Stack),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runTableDelete(cmd.Context(), o) },
	}

	addTable(o.Stack, cmd)
	kit.AddYes(cmd, &o.yes)
	kit.AddJSON[infra.TableRemoval](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

func runTableDelete(ctx context.Context, o *tableDeleteOptions) error {
	opts, err := o.Options()
	if err != nil {
		return err
	}

	r, err := infra.DeleteTable(ctx, o.Name, &infra.DeleteTableOptions{
		Options: opts,
		Confirm: func(r infra.TableRemoval) error {
			if o.yes {
				return nil
			}
			return o.Ask(ctx,
				fmt.Sprintf("Delete table %s (%s) with about %s?", r.Name, where(o.Stack, r.Region),
					kit.Count(int(r.Items), "item")))
		},
	})
	if err != nil {
		return kit.StackError(err)
	}

	if r.Existed {
		o.Done("Deleted table %s", o.Name)
	} else {
		o.Done("There is no table %s", o.Name)
	}

	if o.json {
		return o.PrintJSON(r)
	}
	return nil
}

// where returns the endpoint if there is one, else the region.
func where(s *kit.Stack, region string) string {
	if at := s.Place(); at.Endpoint != "" {
		return at.Endpoint
	}
	return region
}

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

	properties = append(properties, kit.Property{Name: "kept", Value: kit.Number(o.kept)})
	return kit.PrintProperties(o.Console, o.json, properties, shape)
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
