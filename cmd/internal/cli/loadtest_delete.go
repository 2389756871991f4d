package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type loadDeleteOptions struct {
	*stackConnection
	yes, json bool
}

func newLoadtestDelete(c *console) *cobra.Command {
	o := &loadDeleteOptions{stackConnection: &stackConnection{console: c}}
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
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLoadtestDelete(cmd.Context(), o) },
	}

	cmd.Flags().StringVarP(&o.name, "name", "n", "", "`name` of the tested stack")
	o.addPlace(cmd)
	addYes(cmd, &o.yes)
	addJSON[infra.LoadRemoval](cmd, &o.json, anObject, nil)

	return cmd
}

func runLoadtestDelete(ctx context.Context, o *loadDeleteOptions) error {
	name, opts, err := o.target()
	// The default of target must not be deleted by accident.
	if err == nil {
		err = o.requireName(name)
	}
	if err != nil {
		return err
	}

	r, err := infra.DeleteLoad(ctx, name, &infra.LoadDeleteOptions{
		Options: opts, Step: step(o.console),
		Confirm: func(r infra.LoadRemoval) error {
			if o.yes {
				return nil
			}

			question := fmt.Sprintf("Delete stack %s (%s) for load tests", r.Name, r.Region)
			if r.Tasks > 0 {
				question += fmt.Sprintf(", and stop %s", count(r.Tasks, "running task"))
			}

			return o.ask(ctx, question+"?")
		},
	})
	if err != nil {
		return stackError(err)
	}

	if r.Existed {
		o.done("Deleted stack %s", r.Name)
	} else {
		o.done("There is no stack %s", r.Name)
	}

	if o.json {
		return o.printJSON(r)
	}

	return nil
}
