package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type loadListOptions struct {
	*stackConnection
	json bool
}

func newLoadtestList(c *console) *cobra.Command {
	o := &loadListOptions{stackConnection: &stackConnection{console: c}}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the stacks for load tests in an AWS account",
		Long:    "List the stacks for load tests in an AWS account and region, by name.",
		Example: "  zae-limiter loadtest list\n  zae-limiter loadtest list --region eu-west-1 --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLoadtestList(cmd.Context(), o) },
	}

	o.addPlace(cmd)
	addJSON[infra.LoadSummary](cmd, &o.json, anArray, loadColumns)
	return cmd
}

var loadColumns = []column{
	{title: "name"}, {title: "target"}, {title: "status", whole: true}, {title: "created", whole: true},
}

func runLoadtestList(ctx context.Context, o *loadListOptions) error {
	opts, err := o.options()
	if err != nil {
		return err
	}

	found, err := infra.ListLoads(ctx, &opts)
	if err != nil {
		return stackError(err)
	}

	l := listing[infra.LoadSummary]{
		loadColumns,
		func(s infra.LoadSummary) []cell {
			return []cell{
				text(s.Name), text(s.Target), o.stackState(infra.StackSummary{Status: s.Status}),
				moment(s.Created),
			}
		},
		func(s infra.LoadSummary) any { return s },
		"There are no load tests; " + o.place().Command("loadtest", "deploy") + " creates one.",
	}

	return l.print(o.console, o.json, each(found))
}
