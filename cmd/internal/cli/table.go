package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

func newTable(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "table",
		Short: "Manage DynamoDB tables without a stack",
		Long: `Manage DynamoDB tables without a CloudFormation stack, for DynamoDB Local and
for accounts where another tool creates the infrastructure. Such a table has no
function that counts usage; "zae-limiter aggregate" does.`,
		Args: requireKnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	cmd.AddCommand(newTableCreate(c), newTableMigrate(c), newTableDelete(c))
	return cmd
}

// tableArg requires the name of a table, as the argument NAME or as --name. It
// must be a valid name of a stack.
func (s *stackConnection) tableArg() cobra.PositionalArgs {
	take := arguments(argument{"NAME", func(name string) error {
		if s.name != "" && s.name != name {
			return fmt.Errorf("NAME is %q and --name is %q; give one of them", clip(name), clip(s.name))
		}

		s.name = name
		// Names of functions and roles, which are longer than the name of the
		// table, do not matter without a stack.
		return infra.Stack{NoAggregator: true, NoProvisioner: true, NoIAM: true}.Validate(name)
	}})

	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && s.name != "" {
			args = []string{s.name}
		}
		return take(cmd, args)
	}
}

// addTable adds the flags of a table to a command.
func (s *stackConnection) addTable(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.name, "name", "n", "", "`name` of the table, in place of NAME")
	s.addPlace(cmd)
}

type tableCreateOptions struct {
	*stackConnection
	namespace       string
	leanIndex, json bool
}

func newTableCreate(c *console) *cobra.Command {
	o := &tableCreateOptions{stackConnection: &stackConnection{console: c}}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a table",
		Long: `Create a table with its indexes, stream and expiry, write the version record,
and register a namespace. Existing parts stay as they are, so the command can be
repeated. In an AWS account, "zae-limiter deploy" creates a table with backups,
alarms and a function that counts usage.`,
		Example: "  zae-limiter table create my-app --endpoint-url http://localhost:8000",
		Args:    o.tableArg(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runTableCreate(cmd.Context(), o) },
	}

	o.addTable(cmd)
	cmd.Flags().StringVarP(&o.namespace, "namespace", "N", "",
		"`namespace` to register (default $ZAEL_NAMESPACE, else default)")

	cmd.Flags().BoolVar(&o.leanIndex, "lean-index", false,
		"keep only keys in the index by resource of a new table: cheaper writes, but Python's queries of a "+
			"resource find nothing")

	addJSON[tableJSON](cmd, &o.json, anObject, nil)
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
	if err := o.checkPlace(); err != nil {
		return err
	}

	shape := tableJSON{Name: o.name, Namespace: dynamo.NamespaceName(o.namespace)}
	if err := (limiter.Namespace{Name: shape.Namespace}).Validate(); err != nil {
		return usagef("%v", err)
	}

	opts := &dynamo.Options{
		Namespace: registryNamespace, Region: o.region, Endpoint: o.endpoint, LeanIndex: o.leanIndex,
	}

	// The registry needs no registration, so ErrNotFound means that the table
	// is missing, and not its namespace.
	switch repo, err := dynamo.Connect(ctx, o.name, opts); {
	case errors.Is(err, limiter.ErrNotFound):
		shape.Created = true
	case err != nil:
		return stackError(err)
	default:
		// It was opened only to find out whether it exists.
		_ = repo.Close()
	}

	opts.Namespace = shape.Namespace
	if err := dynamo.CreateTable(ctx, o.name, opts); err != nil {
		return stackError(err)
	}

	// Only a connection to the namespace knows its ID.
	repo, err := dynamo.Connect(ctx, o.name, opts)
	if err != nil {
		return stackError(err)
	}
	defer func() { err = errors.Join(err, repo.Close()) }()

	shape.NamespaceID = repo.NamespaceID()
	return o.reportTable(shape)
}

func (o *tableCreateOptions) reportTable(shape tableJSON) error {
	if shape.Created {
		o.done("Created table %s with namespace %s", shape.Name, shape.Namespace)
	} else {
		o.done("Table %s already exists, with namespace %s", shape.Name, shape.Namespace)
	}

	err := printProperties(o.console, o.json, []property{
		{"name", text(shape.Name)},
		{"created", yesNo(shape.Created)},
		{"namespace", text(shape.Namespace)},
		{"namespace_id", text(shape.NamespaceID)},
	}, shape)
	if err == nil {
		o.suggestStore(shape.Name)
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
		Short:   "Delete a table without a stack",
		Long: `Delete a table and its data. A missing table counts as deleted. The command does
not delete a table of a stack (use "zae-limiter delete"), a protected table, or
a table of another program.`,
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

	r, err := infra.DeleteTable(ctx, o.name, &infra.DeleteTableOptions{
		Options: opts,
		Confirm: func(r infra.TableRemoval) error {
			if o.yes {
				return nil
			}
			return o.ask(ctx,
				fmt.Sprintf("Delete table %s (%s) with about %s?", r.Name, o.where(r.Region),
					count(int(r.Items), "item")))
		},
	})
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

// where returns the endpoint if there is one, else the region.
func (s *stackConnection) where(region string) string {
	if at := s.place(); at.Endpoint != "" {
		return at.Endpoint
	}
	return region
}
