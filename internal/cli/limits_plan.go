package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// changeShape is a change as JSON.
type changeShape struct {
	Action string       `json:"action" doc:"create, update, delete, or adopt: it is as declared, and managed from then on"`
	Level  string       `json:"level" doc:"system, resource or entity"`
	Target *string      `json:"target" doc:"a resource, or an entity and a resource with a slash between them; null for the system"`
	Fields []fieldShape `json:"fields" doc:"what differs: field, before, after"`
}

// fieldShape is a value that changes as JSON.
type fieldShape struct {
	Field  string  `json:"field" doc:"such as rpm.capacity, on_unavailable, or state: damaged, or unlisted by the store"`
	Before *string `json:"before" doc:"as stored"`
	After  *string `json:"after" doc:"as declared"`
}

func changeObject(c manifest.Change) changeShape {
	fields := []fieldShape{}
	for _, f := range c.Fields() {
		fields = append(fields, fieldShape{f.Name, orNull(f.Before), orNull(f.After)})
	}
	return changeShape{string(c.Action), manifest.Level(c.Scope), orNull(manifest.Target(c.Scope)), fields}
}

// changeColumns show a row for each field.
var changeColumns = []column{
	{title: "action", whole: true}, {title: "level", whole: true}, {title: "target"}, {title: "field"}, {title: "before", right: true}, {title: "after", right: true},
}

// fieldRow is a field of a change. People read what it is about once.
type fieldRow struct {
	manifest.Change
	field manifest.Field
	again bool
}

func fieldRows(changes []manifest.Change) (rows []fieldRow) {
	for _, c := range changes {
		fields := c.Fields()
		if len(fields) == 0 { // what is adopted
			fields = []manifest.Field{{}}
		}
		for i, f := range fields {
			rows = append(rows, fieldRow{c, f, i > 0})
		}
	}
	return rows
}

func (o *limitsOptions) cells(r fieldRow) []cell {
	signs := map[manifest.Action]string{manifest.Create: "+ ", manifest.Update: "~ ", manifest.Delete: "- ", manifest.Adopt: "= "}
	paint := map[manifest.Action]func(string) string{manifest.Create: o.style.Green, manifest.Update: o.style.Yellow, manifest.Delete: o.style.Red, manifest.Adopt: o.style.Green}
	action := cell{people: signs[r.Action] + string(r.Action), program: string(r.Action)}.in(paint[r.Action])
	about := []cell{action, text(manifest.Level(r.Scope)), text(manifest.Target(r.Scope))}
	if r.again {
		for i := range about {
			about[i] = cell{program: about[i].program}
		}
	}
	return append(about, text(r.field.Name), text(r.field.Before), text(r.field.After))
}

// printChanges writes changes: a row for each field, or an object for each
// change.
func (o *limitsOptions) printChanges(changes []manifest.Change) error {
	if o.json {
		list := listing[manifest.Change]{object: func(c manifest.Change) any { return changeObject(c) }}
		return list.print(o.console, true, each(changes))
	}
	return listing[fieldRow]{columns: changeColumns, row: o.cells}.print(o.console, false, each(fieldRows(changes)))
}

// addChanges gives a command the flag for JSON, and describes both.
func addChanges[T any](cmd *cobra.Command, asJSON *bool) {
	addJSON[T](cmd, asJSON, anArray, changeColumns)
	addShape[fieldShape](cmd, "Each of `fields` has")
}

func newLimitsPlan(conn *connection) *cobra.Command {
	o := limitsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what applying a manifest would change",
		Long: `Compares a manifest with what is stored, and shows what apply would create,
update and delete. It only reads.

` + manifestHelp,
		Example:           "  zae-limiter limits plan limits.yaml\n  zae-limiter limits plan limits.yaml --json",
		Args:              arguments(fileArg(&o.file)),
		ValidArgsFunction: completeManifest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runLimitsPlan(cmd.Context(), o) },
	}
	addChanges[changeShape](cmd, &o.json)
	return cmd
}

func runLimitsPlan(ctx context.Context, o limitsOptions) error {
	return o.planned(ctx, (*manifest.Plan).Steps, func(p *manifest.Plan) error {
		defer o.sayWhatElse(p)
		if len(p.Changes) == 0 {
			o.say("Nothing to change: %s as declared", count(p.Same, "level"))
			return nil
		}
		n := map[manifest.Action]int{}
		for _, c := range p.Changes {
			n[c.Action]++
		}
		o.say("%d to create, %d to update, %d to delete, %d as declared", n[manifest.Create], n[manifest.Update], n[manifest.Delete], p.Same)
		return nil
	})
}

// sayWhatElse tells what a plan does besides its changes.
func (o *limitsOptions) sayWhatElse(p *manifest.Plan) {
	if n := len(p.Adopted); n > 0 {
		o.say("Not managed yet: %s; apply takes over", count(n, "level"))
	}
	if stack := p.TakesFrom(); stack != "" {
		o.say("Managed by stack %s; apply takes the namespace over", stack)
	}
	if p.DeletesFirst {
		o.say("What was managed and what is declared are too much for one list; apply deletes first")
	}
}

// planned makes a plan, prints what of it is wanted, and goes on with it.
func (o *limitsOptions) planned(ctx context.Context, wanted func(*manifest.Plan) []manifest.Change, then func(*manifest.Plan) error) error {
	m, err := o.declared()
	if err != nil {
		return err
	}
	return o.with(ctx, reads, func(_ *limiter.RateLimiter, repo limiter.Repository) error {
		p, err := manifest.NewPlan(ctx, repo, m, o.planning())
		if err != nil {
			return err
		}
		if err := o.printChanges(wanted(p)); err != nil {
			return err
		}
		if p.Busy() {
			o.warn("another apply is at work, so this is changing")
		}
		return then(p)
	})
}

func newLimitsDiff(conn *connection) *cobra.Command {
	o := limitsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "diff FILE",
		Short: "Show where what is stored differs from a manifest",
		Long: `Compares what is stored with a manifest, field by field, as plan does. With
--exit-code the code is 4 if something differs, for jobs that watch for drift.
It only reads.

` + manifestHelp,
		Example:           "  zae-limiter limits diff limits.yaml\n  zae-limiter limits diff limits.yaml --exit-code",
		Args:              arguments(fileArg(&o.file)),
		ValidArgsFunction: completeManifest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runLimitsDiff(cmd.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.exit, "exit-code", false, "end with code 4 if something differs")
	addChanges[changeShape](cmd, &o.json)
	return cmd
}

func runLimitsDiff(ctx context.Context, o limitsOptions) error {
	changes := func(p *manifest.Plan) []manifest.Change { return p.Changes }
	return o.planned(ctx, changes, func(p *manifest.Plan) error {
		if len(p.Changes) == 0 {
			o.say("No drift: %s as declared", count(p.Same, "level"))
			return nil
		}
		drift := fmt.Errorf("%w in %s of %s", errDrift, count(len(p.Changes), "level"), o.file)
		if o.exit {
			return drift
		}
		o.say("%v", drift)
		return nil
	})
}
