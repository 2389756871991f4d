package cli

import (
	"context"
	"errors"
	"fmt"

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
