package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

type explainOptions struct {
	*connection
	request        limiter.Request
	limits         limitFlags
	exitCode, json bool
}

func newExplain(c *console) *cobra.Command {
	o := explainOptions{connection: &connection{console: c}}
	cmd := &cobra.Command{
		Use:   "explain ENTITY RESOURCE [LIMIT=TOKENS...]",
		Short: "Explain whether a request would be admitted",
		Long: `Explain whether a request would be admitted now, and why, without taking tokens.
For each limit of the entity, and of a parent that is charged too, show what is
left and the level at which the limit is stored. A parent without limits of its
own is charged by the defaults of the resource, else of the system. Without
amounts, only show what is left. If a level is switched off, show which, why and
since when.

` + storeHelp,
		Example: `  zae-limiter explain key-abc gpt-4 rpm=1 tpm=500
  zae-limiter explain key-abc gpt-4
  zae-limiter explain key-abc gpt-4 rpm=1 --exit-code && echo there is room`,
		Args:              requestArgs(&o.request, 0),
		ValidArgsFunction: o.completeRequest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runExplain(cmd.Context(), o) },
	}

	o.addNamespace(cmd)
	addLimits(cmd, &o.limits, "limit to check in place of the stored limits")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false,
		"exit with code 3 if the request would be refused, or 5 if a level is disabled")

	addJSON[jsonview.Explanation](cmd, &o.json, anObject, decisionColumns)
	documentFields[jsonview.Status](cmd, "Each of its limits")
	documentFields[jsonview.Level](cmd, "Each of its levels")

	return cmd
}

// requestArgs requires ENTITY RESOURCE and at least minAmounts of LIMIT=TOKENS.
func requestArgs(req *limiter.Request, minAmounts int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		names := []string{"ENTITY", "RESOURCE", "LIMIT=TOKENS"}

		if len(args) < 2+minAmounts {
			return usagef("%s is missing; usage: %s", names[len(args)], cmd.UseLine())
		}

		if err := setArguments([]argument{entityArg(&req.Entity), resourceArg(&req.Resource)}, args); err != nil {
			return err
		}

		var err error
		req.Consume, err = parseAmounts(args[2:], 0)
		return err
	}
}

// setOverride sets the limits of a request that carries its own, if there are
// any. They must include every limit that the request names.
func setOverride(req *limiter.Request, limits []limiter.Limit) error {
	req.Limits = limits
	for limit := range req.Consume.All() {
		if limits != nil && !slices.ContainsFunc(limits, func(l limiter.Limit) bool { return l.Name == limit }) {
			return usagef("no --limit for %s, which is requested; with --limit, give every limit that is requested",
				limit)
		}
	}
	return nil
}

func runExplain(ctx context.Context, o explainOptions) error {
	if err := setOverride(&o.request, o.limits.all); err != nil {
		return err
	}

	now := o.now()
	// The time must be the same for all reads, or the decision could contradict
	// the list.
	frozen := *o.console

	frozen.now = func() time.Time { return now }
	o.console = &frozen

	return o.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, repo limiter.Repository) error {
		d, levels, err := jsonview.Explain(ctx, lim, repo, o.request)

		if off, ok := errors.AsType[*limiter.DisabledError](err); ok {
			if err := o.printDisabled(off, levels); err != nil || !o.exitCode {
				return err
			}
			return off
		}

		if err != nil {
			return o.suggestLimits(err, o.request)
		}

		if err := o.print(d, levels); err != nil {
			return err
		}

		if o.exitCode && !d.Admitted() {
			return &limiter.ExceededError{Decision: d}
		}

		return nil
	})
}

func (o explainOptions) print(d limiter.Decision, levels []jsonview.StoredLevel) error {
	if o.json {
		return o.printJSON(jsonview.NewExplanation(o.request, d, levels))
	}

	if o.terminal {
		answer := o.answer(d)
		if who := o.parentLevel(d); who != "" {
			answer += "\n" + who
		}
		if _, err := fmt.Fprintf(o.out, "%s\n\n", tty.Wrap(answer, o.width)); err != nil {
			return err
		}
	}

	err := decisionListing(o.console, o.request).print(o.console, false, each(d.Statuses))

	// Lines are for programs, which would take the levels for more limits.
	if !o.terminal || err != nil {
		return err
	}

	_, err = fmt.Fprintln(o.out)
	return errors.Join(err, o.levelListing().print(o.console, false, each(flattenLevels(levels))))
}

// printDisabled prints the explanation of a request that a switch refuses.
func (o explainOptions) printDisabled(off *limiter.DisabledError, levels []jsonview.StoredLevel) error {
	switch {
	case o.json:
		return o.printJSON(jsonview.NewDisabledExplanation(o.request, off, levels))

	// The exit code comes with an error, which says the same.
	case !o.terminal && o.exitCode:
		return nil
	case !o.terminal:
		o.say("refused: %v", off)
		return nil
	}

	verdict := o.style.Red("refused") + fmt.Sprintf(": %s may take nothing of %s\n  %s", o.request.Entity,
		o.request.Resource, tty.Visible(off.Error()))

	_, err := fmt.Fprintf(o.out, "%s\n\n", tty.Wrap(verdict, o.width))
	return errors.Join(err, o.levelListing().print(o.console, false, each(flattenLevels(levels))))
}

// answer returns the decision in words.
func (o explainOptions) answer(d limiter.Decision) string {
	who := o.request.Entity

	switch {
	case o.request.Consume.Len() == 0:
		return o.style.Bold(fmt.Sprintf("What %s has left of %s", who, o.request.Resource))
	case d.Admitted():
		return strings.Join(
			append(
				[]string{o.style.Green("admitted") + fmt.Sprintf(": %s may take %s now", who, requestText(o.request))},
				jsonview.Spared(d)...,
			),
			"\n  ",
		)
	}

	verdict := o.style.Red("refused") + fmt.Sprintf(": %s may not take %s now", who, requestText(o.request))
	for _, r := range jsonview.Reasons(d) {
		verdict += "\n  " + r
	}

	return verdict
}

// parentLevel returns a sentence with the level by which the parent is charged, or
// "" if the parent does not pay.
func (o explainOptions) parentLevel(d limiter.Decision) string {
	for _, s := range d.Statuses {
		if s.Entity != o.request.Entity {
			return s.Entity + " is charged too, by " + levelWords(s)
		}
	}
	return ""
}

// levelWords describes the level at which the limit of a status is stored.
func levelWords(s limiter.Status) string {
	switch s.Source {
	case limiter.Scope{Entity: s.Entity, Resource: s.Resource}.Level():
		return "its own limits for " + s.Resource
	case limiter.Scope{Entity: s.Entity}.Level():
		return "its own limits for all resources"
	case limiter.Scope{Resource: s.Resource}.Level():
		return "the default limits of " + s.Resource + ", since it has none of its own"
	case limiter.Scope{}.Level():
		return "the default limits of the system, since neither it nor " + s.Resource + " has any"
	}
	return "limits of source " + strings.ReplaceAll(s.Source, "_", " ")
}

// levelLimit is one limit of a level; nil stands for a level without limits.
type levelLimit struct {
	jsonview.StoredLevel
	limit *limiter.Limit
}

func (o explainOptions) levelListing() listing[levelLimit] {
	return listing[levelLimit]{
		columns: []column{
			{title: "entity"},
			{title: "level"},
			{title: "limit"},
			{title: "rate", right: true},
			{title: "burst", right: true},
			{title: "in force"},
			kindColumns[0],
			disabledColumn,
		},
		row: func(s levelLimit) []cell {
			who, where, off := text(s.Payer), source(s.Config.Scope.Level()), text("")

			if s.Off != nil {
				off = moment(s.Off.Since).withColour(o.style.Red)
			}

			if s.limit == nil {
				return []cell{who, where, text(""), text(""), text(""), text(""), text(""), off}
			}

			force := yesNo(s.InForce)
			if s.InForce {
				force = force.withColour(o.style.Green)
			}

			return []cell{
				who, where, text(s.limit.Name), rate(*s.limit), amount(s.limit.Name, s.limit.Capacity), force,
				mode(*s.limit), off,
			}
		},
	}
}

// flattenLevels returns a row for each limit, and one for a level without limits.
func flattenLevels(levels []jsonview.StoredLevel) []levelLimit {
	var all []levelLimit
	for _, l := range levels {
		if len(l.Config.Limits) == 0 {
			all = append(all, levelLimit{l, nil})
		}
		for i := range l.Config.Limits {
			all = append(all, levelLimit{l, &l.Config.Limits[i]})
		}
	}
	return all
}
