package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/hint"
)

type checkOptions struct {
	*stackConnection
	json bool
}

func newCheck(c *console) *cobra.Command {
	o := &checkOptions{stackConnection: &stackConnection{console: c}}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether this program and a table fit together",
		Long: `Tells whether this program may use a table: whether the table is of a version
that it knows and that admits it, and whether its data have to be migrated.
It reads only, and ends with 1 if they do not fit.

` + stackHelp,
		Example: "  zae-limiter check --name my-app",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runCheck(cmd.Context(), o) },
	}
	o.addTo(cmd)
	addJSON[checkShape](cmd, &o.json, anObject, nil)
	return cmd
}

// checkShape is what check prints.
type checkShape struct {
	Program    string   `json:"program" doc:"version of this program"`
	Schema     string   `json:"schema" doc:"that it writes"`
	Table      *string  `json:"table_schema" doc:"that the table has"`
	ClientMin  *string  `json:"client_min" doc:"least version that the table admits"`
	Lambda     *string  `json:"lambda_version" doc:"that the table notes, which Python's tool does"`
	Pending    []string `json:"pending_migrations" doc:"that upgrade would run"`
	Compatible bool     `json:"compatible" doc:"whether this program may use the table"`
	Result     string   `json:"result" doc:"why, in a sentence"`
}

func runCheck(ctx context.Context, o *checkOptions) (err error) {
	if err := o.checkPlace(); err != nil {
		return err
	}
	name, err := o.chosen()
	if err != nil {
		return err
	}
	shape := checkShape{Program: thisBuild().Version, Schema: dynamo.SchemaVersion, Pending: []string{}}
	found := shape.look(ctx, name, o.place(), &dynamo.Options{Namespace: tableItself, Region: o.region, Endpoint: o.endpoint, Timeout: tableTimeout})
	if found != nil && !is[*limiter.VersionError](found) {
		return stackError(found)
	}
	err = printFacts(o.console, o.json, shape.facts(), shape)
	if !shape.Compatible {
		return errors.Join(err, errors.New(shape.Result))
	}
	o.done("%s", shape.Result)
	return err
}

// look reads what the table says of itself. A *limiter.VersionError is also in
// the result.
func (s *checkShape) look(ctx context.Context, name string, at hint.Place, opts *dynamo.Options) (err error) {
	repo, err := dynamo.Connect(ctx, name, opts)
	if refused, ok := errors.AsType[*limiter.VersionError](err); ok {
		s.Table = orNull(refused.Schema)
	}
	if err != nil {
		s.Result = err.Error()
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
	if at.Endpoint != "" { // where there may be no stacks
		finish, migrate = at.Command("table", "create", name), at.Command("table", "migrate", name)
	}
	v, err := repo.Version(ctx)
	s.Table, s.ClientMin, s.Lambda = orNull(v.Schema), orNull(v.ClientMin), orNull(v.Lambda)
	switch {
	case errors.Is(err, limiter.ErrNotFound):
		s.Result = fmt.Sprintf("table %s has no version record; %s finishes its creation, and %s migrates data from before there were any", name, finish, migrate)
	case err != nil:
		return err
	case len(pending) > 0:
		s.Result = "the data of table " + name + " have to be migrated first; " + migrate + " does so"
	default:
		s.Compatible, s.Result = true, "this program and table "+name+" fit together"
	}
	return nil
}

func (s *checkShape) facts() []fact {
	facts := []fact{{"program", text(s.Program)}, {"schema", text(s.Schema)}}
	for _, f := range []struct {
		name  string
		value *string
	}{{"table_schema", s.Table}, {"client_min", s.ClientMin}, {"lambda_version", s.Lambda}} {
		if f.value != nil {
			facts = append(facts, fact{f.name, text(*f.value)})
		}
	}
	for _, version := range s.Pending {
		facts = append(facts, fact{"pending_migration", text(version)})
	}
	return append(facts, fact{"compatible", yesNo(s.Compatible)})
}
