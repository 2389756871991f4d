package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/infra"
)

func newTable(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "table",
		Short: "Make, migrate and delete a DynamoDB table that has no stack",
		Long: `A table without a stack is for DynamoDB Local, and for accounts where something
else than CloudFormation makes what belongs to it. It limits like any other; no
function counts its usage, which "zae-limiter aggregate" does.`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTableCreate(c), newTableMigrate(c), newTableDelete(c))
	return cmd
}

// tableArg takes the name of a table, which has to be one that a stack could
// have: as the argument NAME, or as --name like the commands about stacks.
func (s *stackConnection) tableArg() cobra.PositionalArgs {
	take := arguments(argument{"NAME", func(name string) error {
		if s.name != "" && s.name != name {
			return fmt.Errorf("NAME is %q and --name is %q; give one of them", clip(name), clip(s.name))
		}
		s.name = name
		return infra.Stack{NoAggregator: true, NoProvisioner: true, NoIAM: true}.Validate(name)
	}})
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && s.name != "" {
			args = []string{s.name}
		}
		return take(cmd, args)
	}
}

// addTable gives a command about one table its flags.
func (s *stackConnection) addTable(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.name, "name", "n", "", "`name` of the table, in place of NAME")
	s.addPlace(cmd)
}

type tableCreateOptions struct {
	*stackConnection
	namespace string
	json      bool
}

func newTableCreate(c *console) *cobra.Command {
	o := &tableCreateOptions{stackConnection: &stackConnection{console: c}}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a table",
		Long: `Makes a table with its indexes, its stream and its expiry, notes the version in
it, and registers a namespace. What is there already stays as it is, so it may
be called again at any time. In an AWS account, "zae-limiter deploy" makes a
table with backups, alarms and the function that counts usage.`,
		Example: "  zae-limiter table create my-app --endpoint-url http://localhost:8000",
		Args:    o.tableArg(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runTableCreate(cmd.Context(), o) },
	}
	o.addTable(cmd)
	cmd.Flags().StringVarP(&o.namespace, "namespace", "N", "", "`namespace` to register (default $ZAEL_NAMESPACE, else default)")
	addJSON[tableShape](cmd, &o.json, anObject, nil)
	return cmd
}

// tableShape is what table create prints.
type tableShape struct {
	Name        string `json:"name" doc:"of the table"`
	Created     bool   `json:"created" doc:"false where it was there already"`
	Namespace   string `json:"namespace" doc:"that is registered"`
	NamespaceID string `json:"namespace_id" doc:"its id"`
}

func runTableCreate(ctx context.Context, o *tableCreateOptions) (err error) {
	if err := o.checkPlace(); err != nil {
		return err
	}
	shape := tableShape{Name: o.name, Namespace: dynamo.NamespaceName(o.namespace)}
	if err := (limiter.Namespace{Name: shape.Namespace}).Validate(); err != nil {
		return usagef("%v", err)
	}
	opts := &dynamo.Options{Namespace: tableItself, Region: o.region, Endpoint: o.endpoint}
	switch repo, err := dynamo.Connect(ctx, o.name, opts); {
	case errors.Is(err, limiter.ErrNotFound):
		shape.Created = true
	case err != nil:
		return stackError(err)
	default:
		_ = repo.Close() // it was only looked at
	}
	opts.Namespace = shape.Namespace
	if err := dynamo.CreateTable(ctx, o.name, opts); err != nil {
		return stackError(err)
	}
	repo, err := dynamo.Connect(ctx, o.name, opts)
	if err != nil {
		return stackError(err)
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	shape.NamespaceID = repo.NamespaceID()
	return o.tellTable(shape)
}

func (o *tableCreateOptions) tellTable(shape tableShape) error {
	if shape.Created {
		o.done("Created table %s with namespace %s", shape.Name, shape.Namespace)
	} else {
		o.done("Table %s is there already, with namespace %s", shape.Name, shape.Namespace)
	}
	err := printFacts(o.console, o.json, []fact{
		{"name", text(shape.Name)}, {"created", yesNo(shape.Created)}, {"namespace", text(shape.Namespace)}, {"namespace_id", text(shape.NamespaceID)},
	}, shape)
	if err == nil {
		o.sayStore(shape.Name)
	}
	return err
}

type tableDeleteOptions struct {
	*stackConnection
	yes, json bool
}

func newTableDelete(c *console) *cobra.Command {
	o := &tableDeleteOptions{stackConnection: &stackConnection{console: c}}
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Aliases: []string{"rm"},
		Short:   "Delete a table that belongs to no stack",
		Long: `Deletes a table with everything in it. A table that is not there counts as
deleted. One that a stack owns stays: "zae-limiter delete" deletes both. So does
one that is protected, and one of another program.`,
		Example: "  zae-limiter table delete my-app --endpoint-url http://localhost:8000 --yes",
		Args:    o.tableArg(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runTableDelete(cmd.Context(), o) },
	}
	o.addTable(cmd)
	addYes(cmd, &o.yes)
	addJSON[infra.TableRemoval](cmd, &o.json, anObject, nil)
	return cmd
}

func runTableDelete(ctx context.Context, o *tableDeleteOptions) error {
	opts, err := o.options()
	if err != nil {
		return err
	}
	r, err := infra.DeleteTable(ctx, o.name, &infra.DeleteTableOptions{Options: opts, Confirm: func(r infra.TableRemoval) error {
		if o.yes {
			return nil
		}
		return o.ask(ctx, fmt.Sprintf("Delete table %s (%s) with about %s?", r.Name, o.where(r.Region), count(int(r.Items), "item")))
	}})
	if err != nil {
		return stackError(err)
	}
	if r.Existed {
		o.done("Deleted table %s", o.name)
	} else {
		o.done("There is no table %s", o.name)
	}
	if o.json {
		return o.printJSON(r)
	}
	return nil
}

// where is a region, or the endpoint in its place.
func (s *stackConnection) where(region string) string {
	if at := s.place(); at.Endpoint != "" {
		return at.Endpoint
	}
	return region
}
