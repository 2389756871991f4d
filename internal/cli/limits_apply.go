package cli

import (
	"context"
	"errors"
	"fmt"

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
applying again completes it.

` + manifestHelp,
		Example:           "  zae-limiter limits apply limits.yaml\n  zae-limiter limits apply limits.yaml --yes -N tenant-a",
		Args:              arguments(fileArg(&o.file)),
		ValidArgsFunction: completeManifest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runLimitsApply(cmd.Context(), o) },
	}
	addYes(cmd, &o.yes)
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
	if err != nil {
		return err
	}
	n := len(p.Changes)
	if n > 0 {
		if !o.json {
			if err := o.printChanges(p.Changes); err != nil {
				return err
			}
		}
		if err := o.confirm(ctx, false, fmt.Sprintf("Apply %s of %s", count(n, "change"), o.file)); err != nil {
			return err
		}
	}
	stop := o.progress(func() string { return "applying " + count(n, "change") })
	report, err := p.Apply(ctx)
	stop()
	if o.json && report != nil {
		err = errors.Join(o.printResults(report), err)
	}
	return o.tell(report, err)
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
		err = errors.Join(o.printChanges(p.Changes), err)
	}
	return o.tell(report, err)
}

func (o *limitsOptions) printResults(r *manifest.Report) error {
	list := listing[manifest.Result]{object: func(r manifest.Result) any {
		failure := ""
		if r.Err != nil {
			failure = sentence(r.Err)
		}
		return resultShape{changeObject(r.Change), orNull(failure)}
	}}
	return list.print(o.console, true, each(r.Results))
}

// tell says what was done, and what failed.
func (o *limitsOptions) tell(r *manifest.Report, err error) error {
	if r == nil {
		return err
	}
	failed := r.Failed()
	for _, f := range failed {
		o.warn("%s %s %s: %s", f.Action, manifest.Level(f.Scope), manifest.Target(f.Scope), sentence(f.Err))
	}
	switch {
	case len(failed) > 0:
		err = errors.Join(fmt.Errorf("%d of %s failed; applying again completes it", len(failed), count(len(r.Results), "change")), err)
	case err != nil:
	case len(r.Results) == 0:
		o.done("Up to date: %s as declared", count(r.Same, "level"))
	default:
		o.done("Applied %s: %d created, %d updated, %d deleted, %d as declared before",
			o.file, r.Count(manifest.Create), r.Count(manifest.Update), r.Count(manifest.Delete), r.Same)
	}
	return err
}
