package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
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
var changeColumns = []kit.Column{
	{Title: "action", Whole: true},
	{Title: "level", Whole: true},
	{Title: "target"},
	{Title: "limit"},
	{Title: "before", Right: true},
	{Title: "after", Whole: true},
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

func (o *options) cells(r fieldRow) []kit.Cell {
	signs := map[manifest.Action]string{
		manifest.Create: "+ ", manifest.Update: "~ ", manifest.Delete: "- ", manifest.Adopt: "= ",
	}

	paint := map[manifest.Action]func(string) string{
		manifest.Create: o.Style.Green, manifest.Update: o.Style.Yellow, manifest.Delete: o.Style.Red,
		manifest.Adopt: o.Style.Green,
	}

	action := kit.Cell{Display: signs[r.Action] + string(r.Action), Plain: string(r.Action)}.WithColour(paint[r.Action])
	about := []kit.Cell{action, kit.Text(manifest.Level(r.Scope)), kit.Text(manifest.Target(r.Scope))}
	// In a table the change is shown once. Lines repeat it, so that each can be
	// read alone.
	if r.again {
		for i := range about {
			about[i] = kit.Cell{Plain: about[i].Plain}
		}
	}

	before, after := changeCell(r.Before, r.field.Name,
		r.field.Before), changeCell(r.After, r.field.Name, r.field.After)

	if r.field.Before != "" && r.field.After != "" {
		after.Display = "-> " + after.Display
	}

	return append(about, kit.Text(r.field.Name), before, after)
}

// changeCell returns the cell of a value of a level. In a table, the numbers of a
// limit have grouped digits.
func changeCell(level limiter.Config, name, value string) kit.Cell {
	c := kit.Text(value)
	if i := slices.IndexFunc(level.Limits, func(l limiter.Limit) bool {
		return l.Name == name
	}); i >= 0 && value != "" {
		c.Display = rateAndBurst(&level.Limits[i]).Display
	}

	return c
}

// printChanges prints a row for each limit, or a JSON object for each change.
func (o *options) printChanges(changes []manifest.Change) error {
	if o.json {
		list := kit.Listing[manifest.Change]{Object: func(c manifest.Change) any { return newChangeJSON(c) }}
		return list.Print(o.Console, true, kit.Each(changes))
	}

	l := kit.Listing[fieldRow]{Columns: changeColumns, Row: o.cells}
	return l.Print(o.Console, false, kit.Each(fieldRows(changes)))
}

// addChanges adds the output flags to a command that prints changes.
func addChanges[T any](cmd *cobra.Command, asJSON *bool) {
	kit.AddJSON[T](cmd, asJSON, kit.AnArray, changeColumns)
	kit.DocumentFields[lineJSON](cmd, "Each of `changes` has")
	kit.DocumentFields[fieldJSON](cmd, "Each of `fields` has")
}

func newPlan(conn *kit.Connection) *cobra.Command {
	o := options{Connection: conn}
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what apply would change",
		Long: `Compare a manifest with the stored limits, and show what apply would create,
update and delete. The command only reads. A store file that does not exist yet
counts as empty.

` + manifestHelp,
		Example:           "  zae-limiter limits plan limits.yaml\n  zae-limiter limits plan limits.yaml --json",
		Args:              kit.Arguments(fileArg(&o.file)),
		ValidArgsFunction: kit.CompleteManifest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runLimitsPlan(cmd.Context(), o) },
	}
	addChanges[changeJSON](cmd, &o.json)
	return cmd
}

func runLimitsPlan(ctx context.Context, o options) error {
	return o.withPlan(ctx, o.openForPlan, (*manifest.Plan).Steps, func(p *manifest.Plan) error {
		defer o.reportExtras(p)

		if len(p.Changes) == 0 {
			o.Say("Nothing to change: %s as declared", kit.Count(p.Same, "level"))
			return nil
		}

		n := map[manifest.Action]int{}
		for _, c := range p.Changes {
			n[c.Action]++
		}

		o.Say("%d to create, %d to update, %d to delete, %d as declared", n[manifest.Create], n[manifest.Update],
			n[manifest.Delete], p.Same)
		return nil
	})
}

// reportExtras reports what a plan does besides its changes.
func (o *options) reportExtras(p *manifest.Plan) {
	if n := len(p.Adopted); n > 0 {
		o.Say("Not managed yet: %s; apply takes over", kit.Count(n, "level"))
	}
	if stack := p.TakesFrom(); stack != "" {
		o.Say("Managed by stack %s; apply takes the namespace over", stack)
	}
	if p.DeletesFirst {
		o.Say("The managed and the declared limits do not fit into one list; apply deletes first")
	}
}

// storeOpener opens a store. The caller closes it.
type storeOpener = func(context.Context, kit.Access) (limiter.Repository, error)

// withPlan makes a plan, prints the wanted changes and calls then.
func (o *options) withPlan(
	ctx context.Context, open storeOpener, wanted func(*manifest.Plan) []manifest.Change,
	then func(*manifest.Plan) error,
) error {
	m, err := o.loadManifest()
	if err != nil {
		return err
	}

	repo, err := open(ctx, kit.Read)
	if err != nil {
		return err
	}

	return o.WithLimiter(repo, func(_ *limiter.RateLimiter, repo limiter.Repository) error {
		p, err := manifest.NewPlan(ctx, repo, m, o.planOptions())
		if err != nil {
			return err
		}

		if err := o.printChanges(wanted(p)); err != nil {
			return err
		}

		if p.Busy() {
			o.Warn("another apply is running, so this is changing")
		}

		o.warnPython(m)
		return then(p)
	})
}

// openForPlan opens the store, or an empty one in place of a file that does not
// exist yet.
func (o *options) openForPlan(ctx context.Context, access kit.Access) (limiter.Repository, error) {
	repo, err := o.Open(ctx, access)
	// Another namespace must be registered first, so for it the missing file
	// stays an error.
	missing, ok := errors.AsType[*kit.NoFileError](err)
	if !ok || o.NamespaceName() != kit.DefaultNamespace {
		return repo, err
	}

	o.Say("There is no store in file %s yet, so everything is new", missing.Path)
	return memory.New(nil), nil
}

// warnPython says what services with the Python library do with declared quotas and
// shadow limits, which they do not know. Such services share only tables.
func (o *options) warnPython(m *manifest.Manifest) {
	if s, err := o.SelectStore(); err != nil || !s.Dynamo {
		return
	}

	quota, shadow := false, false
	for _, level := range m.Levels {
		quota = quota || slices.ContainsFunc(level.Limits, limiter.Limit.IsQuota)
		shadow = shadow || slices.ContainsFunc(level.Limits, func(l limiter.Limit) bool { return l.IsShadow })
	}

	if shadow {
		o.Warn("services that use the Python library enforce shadow limits")
	}

	if quota {
		o.Warn(
			"services that use the Python library charge quotas but never begin a window, which the next " +
				"call of another service or the aggregator does, and their changes of limits turn quotas into rates",
		)
	}
}

func newDiff(conn *kit.Connection) *cobra.Command {
	o := options{Connection: conn}
	cmd := &cobra.Command{
		Use:   "diff FILE",
		Short: "Show how the stored limits differ from a manifest",
		Long: `Compare the stored limits with a manifest, limit by limit, as plan does. With
--exit-code the exit code is 4 if something differs, for jobs that watch for
drift. The command only reads.

` + manifestHelp,
		Example:           "  zae-limiter limits diff limits.yaml\n  zae-limiter limits diff limits.yaml --exit-code",
		Args:              kit.Arguments(fileArg(&o.file)),
		ValidArgsFunction: kit.CompleteManifest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runLimitsDiff(cmd.Context(), o) },
	}

	cmd.Flags().BoolVar(&o.exit, "exit-code", false, "exit with code 4 if something differs")
	addChanges[changeJSON](cmd, &o.json)
	return cmd
}

func runLimitsDiff(ctx context.Context, o options) error {
	changes := func(p *manifest.Plan) []manifest.Change { return p.Changes }
	return o.withPlan(ctx, o.Open, changes, func(p *manifest.Plan) error {
		if len(p.Changes) == 0 {
			o.Say("No drift: %s as declared", kit.Count(p.Same, "level"))
			return nil
		}

		drift := fmt.Errorf("%w in %s of %s", kit.ErrDrift, kit.Count(len(p.Changes), "level"), kit.FileName(o.file))
		if o.exit {
			return drift
		}

		o.Say("%v", drift)
		return nil
	})
}
