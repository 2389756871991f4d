package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// resultShape is what came of a change as JSON.
type resultShape struct {
	changeShape
	Error *string `json:"error" doc:"why it was not made; null if it was"`
}

func newLimitsApply(conn *connection) *cobra.Command {
	o := limitsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Make what is stored what a manifest declares",
		Long: `Shows what is to change, asks, and makes it so, like the commands that set and
delete limits do: every change is in the audit trail and rules live buckets. It
waits for another apply that is at work in the namespace.

Where a change fails, the others are made all the same, the code is 1, and
applying again completes it. What is as declared, but was set by hand, is taken
over. Where a CloudFormation stack manages the namespace, that is taken over,
too.

` + manifestHelp,
		Example:           "  zae-limiter limits apply limits.yaml\n  zae-limiter limits apply limits.yaml --yes -N tenant-a",
		Args:              arguments(fileArg(&o.file)),
		ValidArgsFunction: completeManifest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runLimitsApply(cmd.Context(), o) },
	}
	addYes(cmd, &o.yes)
	cmd.Flags().BoolVar(&o.forget, "forget", false, "begin a new list of what is managed, if that is damaged; what it listed stays")
	conn.addPrincipal(cmd)
	addChanges[resultShape](cmd, &o.json)
	return cmd
}

func runLimitsApply(ctx context.Context, o limitsOptions) error {
	m, err := o.declared()
	if err != nil {
		return err
	}
	access, apply := changes, o.applyAsked
	if o.yes { // else something would be made before it was asked for
		access, apply = creates, o.applyUnasked
	}
	return o.with(ctx, access, func(_ *limiter.RateLimiter, repo limiter.Repository) error { return apply(ctx, repo, m) })
}

// applyAsked shows the plan and asks.
func (o *limitsOptions) applyAsked(ctx context.Context, repo limiter.Repository, m *manifest.Manifest) error {
	p, err := manifest.NewPlan(ctx, repo, m, o.planning())
	for err == nil && p.Busy() {
		if _, err = p.Apply(ctx); errors.Is(err, manifest.ErrStale) { // the other has ended
			p, err = manifest.NewPlan(ctx, repo, m, o.planning())
		}
	}
	if err != nil {
		return err
	}
	if deed := o.deed(p); deed != "" {
		if err := o.show(p); err != nil {
			return err
		}
		if err := o.confirm(ctx, false, deed); err != nil {
			return err
		}
	}
	stop := o.progress(func() string { return "applying " + count(len(p.Changes), "change") })
	report, err := p.Apply(ctx)
	stop()
	if o.json && report != nil {
		err = errors.Join(o.printResults(report), err)
	}
	return o.tell(p, report, err)
}

// deed is what is asked for, "" if nobody would mind.
func (o *limitsOptions) deed(p *manifest.Plan) string {
	var deeds []string
	if n := len(p.Changes); n > 0 {
		deeds = append(deeds, "Apply "+count(n, "change"))
	}
	if n := len(p.Adopted); n > 0 {
		deeds = append(deeds, "Take over "+count(n, "level"))
	}
	if len(deeds) > 0 {
		deeds[0] += " of " + o.file
	}
	if stack := p.TakesFrom(); stack != "" {
		deeds = append(deeds, "Take the namespace over from stack "+stack)
	}
	if len(deeds) == 0 {
		return ""
	}
	for i, d := range deeds[1:] {
		deeds[i+1] = strings.ToLower(d[:1]) + d[1:]
	}
	return strings.Join(deeds, ", ")
}

// show prints a plan for whoever is asked about it: with JSON, stdout is for
// what comes of it.
func (o *limitsOptions) show(p *manifest.Plan) error {
	shown := *o
	if o.json && !o.asks {
		return nil
	}
	if o.json {
		talk, conn := *o.console, *o.connection
		talk.out, talk.terminal, talk.width, talk.style = o.err, o.watched, o.talkWidth, o.talkStyle
		conn.console = &talk
		shown.connection, shown.json = &conn, false
	}
	return shown.printChanges(p.Steps())
}

// applyUnasked applies and then shows what was done.
func (o *limitsOptions) applyUnasked(ctx context.Context, repo limiter.Repository, m *manifest.Manifest) error {
	stop := o.progress(func() string { return "applying " + o.file })
	p, report, err := manifest.Apply(ctx, repo, m, o.planning())
	stop()
	switch {
	case report == nil:
	case o.json:
		err = errors.Join(o.printResults(report), err)
	default:
		err = errors.Join(o.printChanges(append(report.Made(), report.Adopted...)), err)
	}
	return o.tell(p, report, err)
}

func (o *limitsOptions) printResults(r *manifest.Report) error {
	results := slices.Clone(r.Results)
	for _, c := range r.Adopted {
		results = append(results, manifest.Result{Change: c})
	}
	list := listing[manifest.Result]{object: func(r manifest.Result) any {
		failure := ""
		if r.Err != nil {
			failure = sentence(r.Err)
		}
		return resultShape{changeObject(r.Change), orNull(failure)}
	}}
	return list.print(o.console, true, each(results))
}

// tell says what was done, and what failed.
func (o *limitsOptions) tell(p *manifest.Plan, r *manifest.Report, err error) error {
	if r == nil {
		return err
	}
	failed := r.Failed()
	o.tellFailures(failed, r, err)
	switch {
	case err != nil:
	case len(failed) > 0:
		err = fmt.Errorf("%d of %s failed; applying again completes it", len(failed), count(len(r.Results), "change"))
	case len(r.Results) == 0:
		o.done("Up to date %s: %s as declared", o.where(), count(r.Same, "level"))
	default:
		o.done("Applied %s %s: %d created, %d updated, %d deleted, %d as declared before",
			o.file, o.where(), r.Count(manifest.Create), r.Count(manifest.Update), r.Count(manifest.Delete), r.Same)
	}
	if n := len(r.Adopted); n > 0 {
		o.done("Took over %s that no manifest managed %s", count(n, "level"), o.where())
	}
	if stack := p.TakesFrom(); stack != "" && err == nil {
		o.done("Took the namespace over from stack %s %s", stack, o.where())
	}
	return err
}

// tellFailures says what failed. Why the rest was not begun is said once, if it
// is not what the whole failed of.
func (o *limitsOptions) tellFailures(failed []manifest.Result, r *manifest.Report, err error) {
	for _, f := range failed {
		if f.Begun() {
			o.warn("%s: %s", strings.TrimSpace(fmt.Sprint(f.Action, " ", manifest.Level(f.Scope), " ", manifest.Target(f.Scope))), sentence(f.Err))
		}
	}
	if n, why := r.Left(); n > 0 && err == nil {
		o.warn("%s not begun: %s", count(n, "change"), sentence(why))
	}
}
