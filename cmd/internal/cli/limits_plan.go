package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
)

// changeJSON is a change as JSON.
type changeJSON struct {
	Action  string      `json:"action" doc:"create, update, delete, or adopt: it is as declared and becomes managed"`
	Level   string      `json:"level" doc:"system, resource or entity"`
	Target  *string     `json:"target" doc:"a resource, or an entity/resource pair; null for the system"`
	Changes []lineJSON  `json:"changes" doc:"what differs, in a line for each limit; see below"`
	Fields  []fieldJSON `json:"fields" doc:"fields that differ; see below"`
}

// lineJSON is a changed limit as JSON.
type lineJSON struct {
	Name   string  `json:"name" doc:"name of a limit, on_unavailable, or state"`
	Before *string `json:"before" doc:"stored value, such as 100/min, 10000/min:15000 or $50.00@month"`
	After  *string `json:"after" doc:"declared value"`
}

// fieldJSON is a changed field as JSON.
type fieldJSON struct {
	Field  string  `json:"field" doc:"such as rpm.capacity, on_unavailable or state: damaged, or unlisted by the store"`
	Before *string `json:"before" doc:"stored value"`
	After  *string `json:"after" doc:"declared value"`
}

func newChangeJSON(c manifest.Change) changeJSON {
	changes, fields := []lineJSON{}, []fieldJSON{}
	for _, f := range c.Summary() {
		changes = append(changes, lineJSON{f.Name, jsonview.OrNull(f.Before), jsonview.OrNull(f.After)})
	}

	for _, f := range c.Fields() {
		fields = append(fields, fieldJSON{f.Name, jsonview.OrNull(f.Before), jsonview.OrNull(f.After)})
	}

	return changeJSON{
		string(c.Action), manifest.Level(c.Scope), jsonview.OrNull(manifest.Target(c.Scope)), changes, fields,
	}
}

// changeColumns are the columns of changes, a row for each limit.
var changeColumns = []column{
	{title: "action", whole: true},
	{title: "level", whole: true},
	{title: "target"},
	{title: "limit"},
	{title: "before", right: true},
	{title: "after", whole: true},
}

// fieldRow is a line of a change.
type fieldRow struct {
	manifest.Change
	field manifest.Field
	// again marks a line after the first one, for which a table does not repeat the
	// change.
	again bool
}

func fieldRows(changes []manifest.Change) (rows []fieldRow) {
	for _, c := range changes {
		fields := c.Summary()

		// An adopted level differs in nothing, but needs a row of its own.
		if len(fields) == 0 {
			fields = []manifest.Field{{}}
		}

		for i, f := range fields {
			rows = append(rows, fieldRow{c, f, i > 0})
		}
	}
	return rows
}

func (o *limitsOptions) cells(r fieldRow) []cell {
	signs := map[manifest.Action]string{
		manifest.Create: "+ ", manifest.Update: "~ ", manifest.Delete: "- ", manifest.Adopt: "= ",
	}

	paint := map[manifest.Action]func(string) string{
		manifest.Create: o.style.Green, manifest.Update: o.style.Yellow, manifest.Delete: o.style.Red,
		manifest.Adopt: o.style.Green,
	}

	action := cell{display: signs[r.Action] + string(r.Action), plain: string(r.Action)}.withColour(paint[r.Action])
	about := []cell{action, text(manifest.Level(r.Scope)), text(manifest.Target(r.Scope))}
	// In a table the change is shown once. Lines repeat it, so that each can be
	// read alone.
	if r.again {
		for i := range about {
			about[i] = cell{plain: about[i].plain}
		}
	}

	before, after := changeCell(r.Before, r.field.Name,
		r.field.Before), changeCell(r.After, r.field.Name, r.field.After)

	if r.field.Before != "" && r.field.After != "" {
		after.display = "-> " + after.display
	}

	return append(about, text(r.field.Name), before, after)
}

// changeCell returns the cell of a value of a level. In a table, the numbers of a
// limit have grouped digits.
func changeCell(level limiter.Config, name, value string) cell {
	c := text(value)
	if i := slices.IndexFunc(level.Limits, func(l limiter.Limit) bool {
		return l.Name == name
	}); i >= 0 && value != "" {
		c.display = rateAndBurst(&level.Limits[i]).display
	}

	return c
}

// printChanges prints a row for each limit, or a JSON object for each change.
func (o *limitsOptions) printChanges(changes []manifest.Change) error {
	if o.json {
		list := listing[manifest.Change]{object: func(c manifest.Change) any { return newChangeJSON(c) }}
		return list.print(o.console, true, each(changes))
	}

	return listing[fieldRow]{columns: changeColumns, row: o.cells}.print(o.console, false, each(fieldRows(changes)))
}

// addChanges adds the output flags to a command that prints changes.
func addChanges[T any](cmd *cobra.Command, asJSON *bool) {
	addJSON[T](cmd, asJSON, anArray, changeColumns)
	documentFields[lineJSON](cmd, "Each of `changes` has")
	documentFields[fieldJSON](cmd, "Each of `fields` has")
}

func newLimitsPlan(conn *connection) *cobra.Command {
	o := limitsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what apply would change",
		Long: `Compare a manifest with the stored limits, and show what apply would create,
update and delete. The command only reads. A store file that does not exist yet
counts as empty.

` + manifestHelp,
		Example:           "  zae-limiter limits plan limits.yaml\n  zae-limiter limits plan limits.yaml --json",
		Args:              arguments(fileArg(&o.file)),
		ValidArgsFunction: completeManifest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runLimitsPlan(cmd.Context(), o) },
	}
	addChanges[changeJSON](cmd, &o.json)
	return cmd
}

func runLimitsPlan(ctx context.Context, o limitsOptions) error {
	return o.withPlan(ctx, o.openForPlan, (*manifest.Plan).Steps, func(p *manifest.Plan) error {
		defer o.reportExtras(p)

		if len(p.Changes) == 0 {
			o.say("Nothing to change: %s as declared", count(p.Same, "level"))
			return nil
		}

		n := map[manifest.Action]int{}
		for _, c := range p.Changes {
			n[c.Action]++
		}

		o.say("%d to create, %d to update, %d to delete, %d as declared", n[manifest.Create], n[manifest.Update],
			n[manifest.Delete], p.Same)
		return nil
	})
}

// reportExtras reports what a plan does besides its changes.
func (o *limitsOptions) reportExtras(p *manifest.Plan) {
	if n := len(p.Adopted); n > 0 {
		o.say("Not managed yet: %s; apply takes over", count(n, "level"))
	}
	if stack := p.TakesFrom(); stack != "" {
		o.say("Managed by stack %s; apply takes the namespace over", stack)
	}
	if p.DeletesFirst {
		o.say("The managed and the declared limits do not fit into one list; apply deletes first")
	}
}

// storeOpener opens a store. The caller closes it.
type storeOpener = func(context.Context, access) (limiter.Repository, error)

// withPlan makes a plan, prints the wanted changes and calls then.
func (o *limitsOptions) withPlan(
	ctx context.Context, open storeOpener, wanted func(*manifest.Plan) []manifest.Change,
	then func(*manifest.Plan) error,
) error {
	m, err := o.loadManifest()
	if err != nil {
		return err
	}

	repo, err := open(ctx, accessRead)
	if err != nil {
		return err
	}

	return o.withLimiter(repo, func(_ *limiter.RateLimiter, repo limiter.Repository) error {
		p, err := manifest.NewPlan(ctx, repo, m, o.planOptions())
		if err != nil {
			return err
		}

		if err := o.printChanges(wanted(p)); err != nil {
			return err
		}

		if p.Busy() {
			o.warn("another apply is running, so this is changing")
		}

		o.warnPython(m)
		return then(p)
	})
}

// openForPlan opens the store, or an empty one in place of a file that does not
// exist yet.
func (o *limitsOptions) openForPlan(ctx context.Context, access access) (limiter.Repository, error) {
	repo, err := o.open(ctx, access)
	// Another namespace must be registered first, so for it the missing file
	// stays an error.
	missing, ok := errors.AsType[*noFileError](err)
	if !ok || o.namespaceName() != defaultNamespace {
		return repo, err
	}

	o.say("There is no store in file %s yet, so everything is new", missing.path)
	return memory.New(nil), nil
}

// warnPython says what services with the Python library do with declared quotas and
// shadow limits, which they do not know. Such services share only tables.
func (o *limitsOptions) warnPython(m *manifest.Manifest) {
	if s, err := o.selectStore(); err != nil || !s.dynamo {
		return
	}

	quota, shadow := false, false
	for _, level := range m.Levels {
		quota = quota || slices.ContainsFunc(level.Limits, limiter.Limit.IsQuota)
		shadow = shadow || slices.ContainsFunc(level.Limits, func(l limiter.Limit) bool { return l.IsShadow })
	}

	if shadow {
		o.warn("services that use the Python library enforce shadow limits")
	}

	if quota {
		o.warn(
			"services that use the Python library charge quotas but never begin a window, which the next " +
				"call of another service or the aggregator does, and their changes of limits turn quotas into rates",
		)
	}
}

func newLimitsDiff(conn *connection) *cobra.Command {
	o := limitsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "diff FILE",
		Short: "Show how the stored limits differ from a manifest",
		Long: `Compare the stored limits with a manifest, limit by limit, as plan does. With
--exit-code the exit code is 4 if something differs, for jobs that watch for
drift. The command only reads.

` + manifestHelp,
		Example:           "  zae-limiter limits diff limits.yaml\n  zae-limiter limits diff limits.yaml --exit-code",
		Args:              arguments(fileArg(&o.file)),
		ValidArgsFunction: completeManifest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runLimitsDiff(cmd.Context(), o) },
	}

	cmd.Flags().BoolVar(&o.exit, "exit-code", false, "exit with code 4 if something differs")
	addChanges[changeJSON](cmd, &o.json)
	return cmd
}

func runLimitsDiff(ctx context.Context, o limitsOptions) error {
	changes := func(p *manifest.Plan) []manifest.Change { return p.Changes }
	return o.withPlan(ctx, o.open, changes, func(p *manifest.Plan) error {
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
