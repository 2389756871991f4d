package loadtest

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type listOptions struct {
	*kit.Stack
	json bool
}

func newList(c *kit.Console) *cobra.Command {
	o := &listOptions{Stack: &kit.Stack{Console: c}}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the stacks for load tests in an AWS account",
		Long:    "List the stacks for load tests in an AWS account and region, by name.",
		Example: "  zae-limiter loadtest list\n  zae-limiter loadtest list --region eu-west-1 --json",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runList(cmd.Context(), o) },
	}

	o.AddPlace(cmd)
	kit.AddJSON[infra.LoadSummary](cmd, &o.json, kit.AnArray, loadColumns)
	return cmd
}

var loadColumns = []kit.Column{
	{Title: "name"}, {Title: "target"}, {Title: "status", Whole: true}, {Title: "created", Whole: true},
}

func runList(ctx context.Context, o *listOptions) error {
	opts, err := o.Options()
	if err != nil {
		return err
	}

	found, err := infra.ListLoads(ctx, &opts)
	if err != nil {
		return kit.StackError(err)
	}

	l := kit.Listing[infra.LoadSummary]{
		Columns: loadColumns,
		Row: func(s infra.LoadSummary) []kit.Cell {
			return []kit.Cell{
				kit.Text(s.Name), kit.Text(s.Target), o.StackState(infra.StackSummary{Status: s.Status}),
				kit.Moment(s.Created),
			}
		},
		Object:  func(s infra.LoadSummary) any { return s },
		Nothing: "There are no load tests; " + o.Place().Command("loadtest", "deploy") + " creates one.",
	}

	return l.Print(o.Console, o.json, kit.Each(found))
}

type deleteOptions struct {
	*kit.Stack
	yes, json bool
}

func newDelete(c *kit.Console) *cobra.Command {
	o := &deleteOptions{Stack: &kit.Stack{Console: c}}
	cmd := &cobra.Command{
		Use:   "delete",
		Short: "Delete the stack for load tests",
		Long: `Stop all tasks of the stack for load tests, and delete it with its images, logs
and code. The tested stack stays. A missing stack counts as deleted. AWS may
take half an hour to release the network interfaces of the workers. Meanwhile
the command can be interrupted and repeated.

The tested stack is --name, else the table of $ZAEL_STORE (dynamodb:NAME), else
$ZAEL_STACK; there is no default.`,
		Example: "  zae-limiter loadtest delete --name my-app\n  zae-limiter loadtest delete -n my-app --yes",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDelete(cmd.Context(), o) },
	}

	cmd.Flags().StringVarP(&o.Name, "name", "n", "", "`name` of the tested stack")
	o.AddPlace(cmd)
	kit.AddYes(cmd, &o.yes)
	kit.AddJSON[infra.LoadRemoval](cmd, &o.json, kit.AnObject, nil)

	return cmd
}

func runDelete(ctx context.Context, o *deleteOptions) error {
	name, opts, err := o.Target()
	// The default of target must not be deleted by accident.
	if err == nil {
		err = o.RequireName(name)
	}
	if err != nil {
		return err
	}

	r, err := infra.DeleteLoad(ctx, name, &infra.LoadDeleteOptions{
		Options: opts, Step: step(o.Console),
		Confirm: func(r infra.LoadRemoval) error {
			if o.yes {
				return nil
			}

			question := fmt.Sprintf("Delete stack %s (%s) for load tests", r.Name, r.Region)
			if r.Tasks > 0 {
				question += fmt.Sprintf(", and stop %s", kit.Count(r.Tasks, "running task"))
			}

			return o.Ask(ctx, question+"?")
		},
	})
	if err != nil {
		return kit.StackError(err)
	}

	if r.Existed {
		o.Done("Deleted stack %s", r.Name)
	} else {
		o.Done("There is no stack %s", r.Name)
	}

	if o.json {
		return o.PrintJSON(r)
	}

	return nil
}
