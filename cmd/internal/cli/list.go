package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
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
		Short:   "List the stacks in an AWS account",
		Long:    "List the stacks of zae-limiter in an AWS account and region, by name.",
		Example: "  zae-limiter list\n  zae-limiter list --region eu-west-1 --json",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runList(cmd.Context(), o) },
	}
	o.AddPlace(cmd)
	kit.AddJSON[foundJSON](cmd, &o.json, kit.AnArray, foundColumns)
	return cmd
}

var foundColumns = []kit.Column{
	{Title: "name"},
	{Title: "status", Whole: true},
	{Title: "version"},
	{Title: "created", Whole: true},
	{Title: "region", Spare: true},
}

// foundJSON is a stack as JSON.
type foundJSON struct {
	Name          string     `json:"name" doc:"name without the prefix of older tools"`
	Stack         string     `json:"stack_name" doc:"name in CloudFormation"`
	Region        string     `json:"region" doc:"AWS region"`
	Status        string     `json:"stack_status" doc:"status in CloudFormation"`
	Version       *string    `json:"version" doc:"version that deployed the stack"`
	LambdaVersion *string    `json:"lambda_version" doc:"version of the functions"`
	SchemaVersion *string    `json:"schema_version" doc:"schema version of the table"`
	Created       *time.Time `json:"creation_time" doc:"time of creation"`
	Updated       *time.Time `json:"last_updated_time" doc:"time of the last update"`
}

func runList(ctx context.Context, o *listOptions) error {
	opts, err := o.Options()
	if err != nil {
		return err
	}

	found, err := infra.List(ctx, &opts)
	if err != nil {
		return kit.StackError(err)
	}

	l := kit.Listing[infra.StackSummary]{
		Columns: foundColumns,
		Row: func(f infra.StackSummary) []kit.Cell {
			return []kit.Cell{kit.Text(f.Name), o.StackState(f), kit.Text(f.Version), kit.Moment(f.Created), kit.Text(f.Region)}
		},
		Object: func(f infra.StackSummary) any {
			return foundJSON{
				f.Name, f.Stack, f.Region, f.Status, jsonview.OrNull(f.Version), jsonview.OrNull(f.LambdaVersion),
				jsonview.OrNull(f.SchemaVersion),
				jsonview.TimeOrNull(f.Created), jsonview.TimeOrNull(f.Updated),
			}
		},
		Nothing: "There are no stacks; " + o.Place().Command("deploy") + " creates one.",
	}

	return l.Print(o.Console, o.json, kit.Each(found))
}
