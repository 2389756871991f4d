package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

type listOptions struct {
	*stackConnection
	json bool
}

func newList(c *console) *cobra.Command {
	o := &listOptions{stackConnection: &stackConnection{console: c}}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the stacks in an AWS account",
		Long:    "List the stacks of zae-limiter in an AWS account and region, by name.",
		Example: "  zae-limiter list\n  zae-limiter list --region eu-west-1 --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runList(cmd.Context(), o) },
	}
	o.addPlace(cmd)
	addJSON[foundJSON](cmd, &o.json, anArray, foundColumns)
	return cmd
}

var foundColumns = []column{
	{title: "name"},
	{title: "status", whole: true},
	{title: "version"},
	{title: "created", whole: true},
	{title: "region", spare: true},
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
	opts, err := o.options()
	if err != nil {
		return err
	}

	found, err := infra.List(ctx, &opts)
	if err != nil {
		return stackError(err)
	}

	l := listing[infra.StackSummary]{
		foundColumns,
		func(f infra.StackSummary) []cell {
			return []cell{text(f.Name), o.stackState(f), text(f.Version), moment(f.Created), text(f.Region)}
		},
		func(f infra.StackSummary) any {
			return foundJSON{
				f.Name, f.Stack, f.Region, f.Status, jsonview.OrNull(f.Version), jsonview.OrNull(f.LambdaVersion),
				jsonview.OrNull(f.SchemaVersion),
				jsonview.TimeOrNull(f.Created), jsonview.TimeOrNull(f.Updated),
			}
		},
		"There are no stacks; " + o.place().Command("deploy") + " creates one.",
	}

	return l.print(o.console, o.json, each(found))
}

// stackState returns the status of a stack, coloured by its health.
func (c *console) stackState(f infra.StackSummary) cell {
	state := text(f.Status)
	switch {
	case f.Failed():
		state.paint = c.style.Red
	case f.InProgress():
		state.paint = c.style.Yellow
	case f.Healthy():
		state.paint = c.style.Green
	}
	return state
}
