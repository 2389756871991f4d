package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// resultJSON is the result of a change as JSON.
type resultJSON struct {
	changeJSON
	Error *string `json:"error" doc:"why the change failed; null if it succeeded"`
}

func newApply(conn *kit.Connection) *cobra.Command {
	o := options{Connection: conn}
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Apply a manifest",
		Long: `Apply a manifest: show the changes, ask for confirmation, and make them as the
commands that set and delete limits do. Every change is in the audit trail and
affects live buckets. If another apply is running in the namespace, wait for it.

If a change fails, the others are still made, the exit code is 1, and another
apply completes the rest. Limits that match the manifest but were set by hand
become managed. If a CloudFormation stack manages the namespace, the manifest
takes it over.

` + manifestHelp,
		Example: "  zae-limiter limits apply limits.yaml\n  zae-limiter limits apply limits.yaml " +
			"--yes -N tenant-a",
		Args:              kit.Arguments(fileArg(&o.file)),
		ValidArgsFunction: kit.CompleteManifest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runLimitsApply(cmd.Context(), o) },
	}
	kit.AddYes(cmd, &o.yes)
	cmd.Flags().BoolVar(&o.forget, "forget", false,
		"replace a damaged list of managed limits; the limits in it stay stored")
	conn.AddPrincipal(cmd)
	addChanges[resultJSON](cmd, &o.json)

	return cmd
}

func runLimitsApply(ctx context.Context, o options) error {
	m, err := o.loadManifest()
	if err != nil {
		return err
	}

	access, apply := kit.Change, o.applyWithPrompt

	// Only --yes may create the file of the store, or it would exist before the
	// confirmation.
	if o.yes {
		access, apply = kit.Create, o.applyUnprompted
	}

	return o.WithStore(ctx, access, func(_ *limiter.RateLimiter, repo limiter.Repository) error {
		o.warnPython(m)
		return apply(ctx, repo, m)
	})
}

// applyWithPrompt shows the plan, asks for confirmation and applies it.
func (o *options) applyWithPrompt(ctx context.Context, repo limiter.Repository, m *manifest.Manifest) error {
	p, err := manifest.NewPlan(ctx, repo, m, o.planOptions())
	// A plan that is made while another apply runs is outdated when that ends.
	// Apply of such a plan waits for the end, changes nothing and returns
	// ErrStale.
	for err == nil && p.Busy() {
		if _, err = p.Apply(ctx); errors.Is(err, manifest.ErrStale) {
			p, err = manifest.NewPlan(ctx, repo, m, o.planOptions())
		}
	}

	if err != nil {
		return err
	}

	if action := o.action(p); action != "" {
		if err := o.show(p); err != nil {
			return err
		}
		if err := o.Confirm(ctx, false, action); err != nil {
			return err
		}
	}

	stop := o.Progress(func() string { return "applying " + kit.Count(len(p.Changes), "change") })
	report, err := p.Apply(ctx)
	stop()

	if o.json && report != nil {
		err = errors.Join(o.printResults(report), err)
	}

	return o.report(p, report, err)
}

// action returns what a plan does, for the confirmation, or "" if it does nothing.
func (o *options) action(p *manifest.Plan) string {
	var actions []string
	if n := len(p.Changes); n > 0 {
		actions = append(actions, "Apply "+kit.Count(n, "change"))
	}
	if n := len(p.Adopted); n > 0 {
		actions = append(actions, "Take over "+kit.Count(n, "level"))
	}

	if len(actions) > 0 {
		actions[0] += " of " + kit.FileName(o.file)
	}

	if stack := p.TakesFrom(); stack != "" {
		actions = append(actions, "Take the namespace over from stack "+stack)
	}

	if len(actions) == 0 {
		return ""
	}
	// The actions become one sentence, so only the first keeps its capital
	// letter.
	for i, a := range actions[1:] {
		actions[i+1] = strings.ToLower(a[:1]) + a[1:]
	}

	return strings.Join(actions, ", ")
}

// show prints a plan before the confirmation. With --json it prints to stderr,
// since stdout is for the results.
func (o *options) show(p *manifest.Plan) error {
	shown := *o
	// Without a terminal the confirmation fails in any case, and its error is
	// enough.
	if o.json && !o.CanAsk {
		return nil
	}

	if o.json {
		talk, conn := *o.Console, *o.Connection
		talk.Out, talk.Terminal, talk.Width, talk.Style = o.Err, o.ErrTerminal, o.ErrWidth, o.ErrStyle
		conn.Console = &talk
		shown.Connection, shown.json = &conn, false
	}

	return shown.printChanges(p.Steps())
}

// applyUnprompted applies the manifest and prints the changes made.
func (o *options) applyUnprompted(ctx context.Context, repo limiter.Repository, m *manifest.Manifest) error {
	stop := o.Progress(func() string { return "applying " + kit.FileName(o.file) })
	p, report, err := manifest.Apply(ctx, repo, m, o.planOptions())
	stop()

	switch {
	// A nil report means that no change was tried.
	case report == nil:
	case o.json:
		err = errors.Join(o.printResults(report), err)
	default:
		err = errors.Join(o.printChanges(append(report.Made(), report.Adopted...)), err)
	}

	return o.report(p, report, err)
}

func (o *options) printResults(r *manifest.Report) error {
	results := slices.Clone(r.Results)
	for _, c := range r.Adopted {
		results = append(results, manifest.Result{Change: c})
	}

	list := kit.Listing[manifest.Result]{Object: func(r manifest.Result) any {
		failure := ""
		if r.Err != nil {
			failure = kit.Message(r.Err)
		}
		return resultJSON{newChangeJSON(r.Change), jsonview.OrNull(failure)}
	}}

	return list.Print(o.Console, true, kit.Each(results))
}

// report reports what was done and what failed.
func (o *options) report(p *manifest.Plan, r *manifest.Report, err error) error {
	if r == nil {
		return err
	}

	failed := r.Failed()
	o.warnFailures(failed, r, err)

	switch {
	case err != nil:
	case len(failed) > 0:
		err = fmt.Errorf("%d of %s failed; apply again to complete them", len(failed),
			kit.Count(len(r.Results), "change"))
	case len(r.Results) == 0:
		o.Done("Up to date %s: %s as declared", o.Location(), kit.Count(r.Same, "level"))
	default:
		o.Done("Applied %s %s: %d created, %d updated, %d deleted, %d as declared before",
			kit.FileName(o.file), o.Location(),
			r.Count(manifest.Create), r.Count(manifest.Update), r.Count(manifest.Delete), r.Same)
	}
	// The report has adopted levels only if the list of managed levels was
	// stored, whatever became of the changes.
	if n := len(r.Adopted); n > 0 {
		o.Done("Took over %s that no manifest managed %s", kit.Count(n, "level"), o.Location())
	}

	if stack := p.TakesFrom(); stack != "" && err == nil {
		o.Done("Took the namespace over from stack %s %s", stack, o.Location())
	}

	return err
}

// warnFailures reports each change that failed. If the apply stopped before some
// changes, it reports their number and the reason once, unless err has the reason.
func (o *options) warnFailures(failed []manifest.Result, r *manifest.Report, err error) {
	for _, f := range failed {
		if f.Begun() {
			o.Warn("%s: %s",
				strings.TrimSpace(fmt.Sprint(f.Action, " ", manifest.Level(f.Scope), " ", manifest.Target(f.Scope))),
				kit.Message(f.Err))
		}
	}
	// A failure of the apply as a whole is in err, and would be reported twice.
	if n, why := r.Left(); n > 0 && err == nil {
		o.Warn("%s not started: %s", kit.Count(n, "change"), kit.Message(why))
	}
}
