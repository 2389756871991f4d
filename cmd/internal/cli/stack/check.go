package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/hint"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

type checkOptions struct {
	*kit.Stack
	json bool
}

func newCheck(c *kit.Console) *cobra.Command {
	o := &checkOptions{Stack: &kit.Stack{Console: c}}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that this program can use a table",
		Long: `Check that this program can use a table: that it knows the table's version, that
the table admits the program's version, that no migration is pending, and that
no namespace has buckets of Python's zae-limiter 0.10.1 or newer, which admits
the limits a second time. It also lists entities from before there were deep
trees whose charges would go further if you created them again. The command only
reads. The exit code is 1 if the
program cannot use the table.

` + kit.StackHelp,
		Example: "  zae-limiter check --name my-app",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runCheck(cmd.Context(), o) },
	}

	o.AddTo(cmd)

	kit.AddJSON[checkJSON](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

// checkJSON is the output of check as JSON.
type checkJSON struct {
	Program    string   `json:"program" doc:"version of this program"`
	Schema     string   `json:"schema" doc:"schema version that it writes"`
	Table      *string  `json:"table_schema" doc:"schema version of the table"`
	ClientMin  *string  `json:"client_min" doc:"minimum client version that the table admits"`
	Lambda     *string  `json:"lambda_version" doc:"version of the functions, if Python's tool recorded it"`
	Pending    []string `json:"pending_migrations" doc:"migrations that upgrade would run"`
	Compatible bool     `json:"compatible" doc:"whether this program can use the table"`
	Result     string   `json:"result" doc:"the reason, in a sentence"`
	// Both are empty unless the program can use the table.
	OldTrees []oldTree `json:"old_trees" doc:"entities whose charges would go further if they were created again"`
	AllTrees bool      `json:"all_trees" doc:"whether every entity was looked at"`
}

func runCheck(ctx context.Context, o *checkOptions) (err error) {
	if err := o.CheckPlace(); err != nil {
		return err
	}
	name, err := o.StackName()
	if err != nil {
		return err
	}

	shape := checkJSON{Program: o.Version, Schema: dynamo.SchemaVersion, Pending: []string{}, OldTrees: []oldTree{}}
	found := shape.inspect(ctx, name, o.Place(), &dynamo.Options{
		Namespace: kit.RegistryNamespace, Region: o.Region, Endpoint: o.Endpoint, Timeout: kit.TableTimeout,
	})

	// A refused version is what the command is for, so it is reported as a
	// result.
	if found != nil && !kit.Is[*limiter.VersionError](found) {
		return kit.StackError(found)
	}

	err = kit.PrintProperties(o.Console, o.json, shape.properties(), shape)
	if !shape.Compatible {
		return errors.Join(err, errors.New(shape.Result))
	}

	o.Done("%s", shape.Result)
	return err
}

// inspect reads the version and the pending migrations of a table. It also stores
// a *limiter.VersionError in Result.
func (s *checkJSON) inspect(ctx context.Context, name string, at hint.Place, opts *dynamo.Options) (err error) {
	repo, err := dynamo.Connect(ctx, name, opts)
	if refused, ok := errors.AsType[*limiter.VersionError](err); ok {
		s.Table = jsonview.OrNull(refused.Schema)
	}

	if err != nil {
		s.Result = hint.Text(err)
		return err
	}

	defer func() { err = errors.Join(err, repo.Close()) }()

	pending, err := dynamo.PendingMigrations(ctx, name, &dynamo.MigrateOptions{Options: *opts})
	if err != nil {
		return err
	}

	for _, m := range pending {
		s.Pending = append(s.Pending, m.Version)
	}

	finish, migrate := at.Command("deploy", "--name", name), at.Command("upgrade", "--name", name)

	// An emulator may have no stacks, so the commands for tables are suggested.
	if at.Endpoint != "" {
		finish, migrate = at.Command("table", "create", name), at.Command("table", "migrate", name)
	}

	newer := repo.CheckBuckets(ctx)

	v, err := repo.Version(ctx)
	s.Table, s.ClientMin, s.Lambda = jsonview.OrNull(v.Schema), jsonview.OrNull(v.ClientMin), jsonview.OrNull(v.Lambda)
	switch {
	// Connect accepts a table without a version record, which is incomplete, or
	// holds data of a release that wrote no such record.
	case errors.Is(err, limiter.ErrNotFound):
		s.Result = fmt.Sprintf(
			"table %s has no version record; %s completes a new table, and %s migrates data of releases "+
				"without version records",
			name, finish, migrate,
		)
	case err != nil:
		return err
	// The version record admits this program, but buckets of a newer layout do
	// not.
	case kit.Is[*limiter.VersionError](newer):
		s.Result = hint.Text(newer)
	case newer != nil:
		return newer
	case len(pending) > 0:
		s.Result = "the data of table " + name + " must be migrated first; run " + migrate
	default:
		s.Compatible, s.Result = true, "this program can use table "+name
		trees, whole, err := findOldTrees(ctx, repo)
		if err != nil {
			return err
		}
		s.OldTrees, s.AllTrees = append(s.OldTrees, trees...), whole
	}

	return nil
}

func (s *checkJSON) properties() []kit.Property {
	properties := []kit.Property{
		{Name: "program", Value: kit.Text(s.Program)}, {Name: "schema", Value: kit.Text(s.Schema)},
	}

	for _, f := range []struct {
		name  string
		value *string
	}{{"table_schema", s.Table}, {"client_min", s.ClientMin}, {"lambda_version", s.Lambda}} {
		if f.value != nil {
			properties = append(properties, kit.Property{Name: f.name, Value: kit.Text(*f.value)})
		}
	}

	for _, version := range s.Pending {
		properties = append(properties, kit.Property{Name: "pending_migration", Value: kit.Text(version)})
	}

	properties = append(properties, kit.Property{Name: "compatible", Value: kit.YesNo(s.Compatible)})
	if !s.Compatible {
		return properties
	}
	return append(properties, treeProperties(s.OldTrees, s.AllTrees)...)
}
