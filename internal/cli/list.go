package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/infra"
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
		Short:   "List the stacks of an account",
		Long:    "Lists the stacks of zae-limiter in an account and region, by name.",
		Example: "  zae-limiter list\n  zae-limiter list --region eu-west-1 --json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runList(cmd.Context(), o) },
	}
	o.addPlace(cmd)
	addJSON[foundShape](cmd, &o.json, anArray, foundColumns)
	return cmd
}

var foundColumns = []column{
	{title: "name"}, {title: "status", whole: true}, {title: "version"}, {title: "created", whole: true}, {title: "region", spare: true},
}

// foundShape is a stack as JSON.
type foundShape struct {
	Name          string     `json:"name" doc:"without the prefix of older tools"`
	Stack         string     `json:"stack_name" doc:"of CloudFormation"`
	Region        string     `json:"region" doc:"it is in"`
	Status        string     `json:"stack_status" doc:"as CloudFormation says"`
	Version       *string    `json:"version" doc:"that deployed it"`
	LambdaVersion *string    `json:"lambda_version" doc:"of its functions"`
	SchemaVersion *string    `json:"schema_version" doc:"of its table"`
	Created       *time.Time `json:"creation_time" doc:"when it was made"`
	Updated       *time.Time `json:"last_updated_time" doc:"when it was changed last"`
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
			return foundShape{
				f.Name, f.Stack, f.Region, f.Status, orNull(f.Version), orNull(f.LambdaVersion), orNull(f.SchemaVersion),
				timeOrNull(f.Created), timeOrNull(f.Updated),
			}
		},
		"There is no stack here; " + o.place().Command("deploy") + " makes one.",
	}
	return l.print(o.console, o.json, func(yield func(infra.StackSummary, error) bool) {
		for _, f := range found {
			if !yield(f, nil) {
				return
			}
		}
	})
}

// stackState is coloured by whether all is well.
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
