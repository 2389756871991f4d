package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type loadDeleteOptions struct {
	*kit.Stack
	yes, json bool
}

func newLoadtestDelete(c *kit.Console) *cobra.Command {
	o := &loadDeleteOptions{Stack: &kit.Stack{Console: c}}
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
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLoadtestDelete(cmd.Context(), o) },
	}

	cmd.Flags().StringVarP(&o.Name, "name", "n", "", "`name` of the tested stack")
	o.AddPlace(cmd)
	kit.AddYes(cmd, &o.yes)
	kit.AddJSON[infra.LoadRemoval](cmd, &o.json, kit.AnObject, nil)

	return cmd
}

func runLoadtestDelete(ctx context.Context, o *loadDeleteOptions) error {
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
