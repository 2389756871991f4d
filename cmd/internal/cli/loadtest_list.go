package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type loadListOptions struct {
	*kit.Stack
	json bool
}

func newLoadtestList(c *kit.Console) *cobra.Command {
	o := &loadListOptions{Stack: &kit.Stack{Console: c}}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the stacks for load tests in an AWS account",
		Long:    "List the stacks for load tests in an AWS account and region, by name.",
		Example: "  zae-limiter loadtest list\n  zae-limiter loadtest list --region eu-west-1 --json",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLoadtestList(cmd.Context(), o) },
	}

	o.AddPlace(cmd)
	kit.AddJSON[infra.LoadSummary](cmd, &o.json, kit.AnArray, loadColumns)
	return cmd
}

var loadColumns = []kit.Column{
	{Title: "name"}, {Title: "target"}, {Title: "status", Whole: true}, {Title: "created", Whole: true},
}

func runLoadtestList(ctx context.Context, o *loadListOptions) error {
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
