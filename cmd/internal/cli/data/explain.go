package data

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

type explainOptions struct {
	*kit.Connection
	request        limiter.Request
	limits         kit.LimitFlags
	exitCode, json bool
}

func newExplain(c *kit.Console) *cobra.Command {
	o := explainOptions{Connection: &kit.Connection{Console: c}}
	cmd := &cobra.Command{
		Use:   "explain ENTITY RESOURCE [LIMIT=TOKENS...]",
		Short: "Explain whether a request would be admitted",
		Long: `Explain whether a request would be admitted now, and why, without taking tokens.
For each limit of the entity, and of a parent that is charged too, show what is
left and the level at which the limit is stored. A parent without limits of its
own is charged by the defaults of the resource, else of the system. Without
amounts, only show what is left. If a level is switched off, show which, why and
since when.

` + kit.StoreHelp,
		Example: `  zae-limiter explain key-abc gpt-4 rpm=1 tpm=500
  zae-limiter explain key-abc gpt-4
  zae-limiter explain key-abc gpt-4 rpm=1 --exit-code && echo there is room`,
		Args:              requestArgs(&o.request, 0),
		ValidArgsFunction: o.CompleteRequest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runExplain(cmd.Context(), o) },
	}

	o.AddNamespace(cmd)
	kit.AddLimits(cmd, &o.limits, "limit to check in place of the stored limits")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false,
		"exit with code 3 if the request would be refused, or 5 if a level is disabled")

	kit.AddJSON[jsonview.Explanation](cmd, &o.json, kit.AnObject, decisionColumns)
	kit.DocumentFields[jsonview.Status](cmd, "Each of its limits")
	kit.DocumentFields[jsonview.Level](cmd, "Each of its levels")

	return cmd
}

// requestArgs requires ENTITY RESOURCE and at least minAmounts of LIMIT=TOKENS.
func requestArgs(req *limiter.Request, minAmounts int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		names := []string{"ENTITY", "RESOURCE", "LIMIT=TOKENS"}

		if len(args) < 2+minAmounts {
			return kit.Usagef("%s is missing; usage: %s", names[len(args)], cmd.UseLine())
		}

		words := []kit.Argument{entityArg(&req.Entity), resourceArg(&req.Resource)}
		if err := kit.SetArguments(words, args); err != nil {
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
			return kit.Usagef("no --limit for %s, which is requested; with --limit, give every limit that is requested",
				limit)
		}
	}
	return nil
}

func runExplain(ctx context.Context, o explainOptions) error {
	if err := setOverride(&o.request, o.limits.All); err != nil {
		return err
	}

	now := o.Now()
	// The time must be the same for all reads, or the decision could contradict
	// the list.
	frozen := *o.Console

	frozen.Now = func() time.Time { return now }
	o.Console = &frozen

	return o.WithStore(ctx, kit.Read, func(lim *limiter.RateLimiter, repo limiter.Repository) error {
		d, levels, err := jsonview.Explain(ctx, lim, repo, o.request)

		if off, ok := errors.AsType[*limiter.DisabledError](err); ok {
			if err := o.printDisabled(off, levels); err != nil || !o.exitCode {
				return err
			}
			return off
		}

		if err != nil {
			return o.SuggestLimits(err, o.request)
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
		return o.PrintJSON(jsonview.NewExplanation(o.request, d, levels))
	}

	if o.Terminal {
		answer := o.answer(d)
		for _, s := range ancestors(d) {
			answer += "\n" + s.Entity + " is charged too, by " + levelWords(s)
		}
		if _, err := fmt.Fprintf(o.Out, "%s\n\n", tty.Wrap(answer, o.Width)); err != nil {
			return err
		}
	}

	err := decisionListing(o.Console, o.request).Print(o.Console, false, kit.Each(d.Statuses))

	// Lines are for programs, which would take the levels for more limits.
	if !o.Terminal || err != nil {
		return err
	}

	_, err = fmt.Fprintln(o.Out)
	return errors.Join(err, o.levelListing().Print(o.Console, false, kit.Each(flattenLevels(levels))))
}

// printDisabled prints the explanation of a request that a switch refuses.
func (o explainOptions) printDisabled(off *limiter.DisabledError, levels []jsonview.StoredLevel) error {
	switch {
	case o.json:
		return o.PrintJSON(jsonview.NewDisabledExplanation(o.request, off, levels))

	// The exit code comes with an error, which says the same.
	case !o.Terminal && o.exitCode:
		return nil
	case !o.Terminal:
		o.Say("refused: %v", off)
		return nil
	}

	verdict := o.Style.Red("refused") + fmt.Sprintf(": %s may take nothing of %s\n  %s", o.request.Entity,
		o.request.Resource, tty.Visible(off.Error()))

	_, err := fmt.Fprintf(o.Out, "%s\n\n", tty.Wrap(verdict, o.Width))
	return errors.Join(err, o.levelListing().Print(o.Console, false, kit.Each(flattenLevels(levels))))
}

// answer returns the decision in words.
func (o explainOptions) answer(d limiter.Decision) string {
	who := o.request.Entity

	switch {
	case o.request.Consume.Len() == 0:
		return o.Style.Bold(fmt.Sprintf("What %s has left of %s", who, o.request.Resource))
	case d.Admitted():
		return strings.Join(
			append(
				[]string{o.Style.Green("admitted") + fmt.Sprintf(": %s may take %s now", who, requestText(o.request))},
				jsonview.Spared(d)...,
			),
			"\n  ",
		)
	}

	verdict := o.Style.Red("refused") + fmt.Sprintf(": %s may not take %s now", who, requestText(o.request))
	for _, r := range jsonview.Reasons(d) {
		verdict += "\n  " + r
	}

	return verdict
}

// ancestors returns the first status of each payer but the entity.
func ancestors(d limiter.Decision) (first []limiter.Status) {
	for i, s := range d.Statuses {
		if i > 0 && s.Entity != d.Statuses[i-1].Entity {
			first = append(first, s)
		}
	}
	return first
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

func (o explainOptions) levelListing() kit.Listing[levelLimit] {
	return kit.Listing[levelLimit]{
		Columns: []kit.Column{
			{Title: "entity"},
			{Title: "level"},
			{Title: "limit"},
			{Title: "rate", Right: true},
			{Title: "burst", Right: true},
			{Title: "in force"},
			kindColumns[0],
			disabledColumn,
		},
		Row: func(s levelLimit) []kit.Cell {
			who, where, off := kit.Text(s.Payer), source(s.Config.Scope.Level()), kit.Text("")

			if s.Off != nil {
				off = kit.Moment(s.Off.Since).WithColour(o.Style.Red)
			}

			if s.limit == nil {
				return []kit.Cell{who, where, kit.Text(""), kit.Text(""), kit.Text(""), kit.Text(""), kit.Text(""), off}
			}

			force := kit.YesNo(s.InForce)
			if s.InForce {
				force = force.WithColour(o.Style.Green)
			}

			return []kit.Cell{
				who, where, kit.Text(s.limit.Name), kit.Rate(*s.limit),
				kit.Amount(s.limit.Name, s.limit.Capacity), force,
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

// decisionColumns are the columns of acquire and explain, a row for each limit.
var decisionColumns = append([]kit.Column{
	{Title: "entity"},
	{Title: "limit"},
	{Title: "asked", Right: true},
	{Title: "available", Right: true},
	{Title: "capacity", Right: true},
	{Title: "refill", Right: true, Spare: true},
	{Title: "verdict", Whole: true},
	{Title: "source"},
}, kindColumns...)

func decisionListing(c *kit.Console, req limiter.Request) kit.Listing[limiter.Status] {
	return kit.Listing[limiter.Status]{
		Columns: decisionColumns,
		Row: func(s limiter.Status) []kit.Cell {
			asked, says := kit.Amount(s.Limit.Name, s.Requested), verdict(c, s)
			// The row of a limit that the request does not name informs, and
			// judges nothing.
			if !requestsLimit(req, s.Limit.Name) {
				asked, says = kit.Text(""), kit.Text("")
			}

			row := []kit.Cell{
				kit.Text(s.Entity), kit.Text(s.Limit.Name), asked, available(c, s),
				kit.Amount(s.Limit.Name, s.Limit.Capacity), kit.Rate(s.Limit), says, source(s.Source),
			}
			return append(row, kindCells(s)...)
		},
	}
}

// requestsLimit reports whether a request names a limit.
func requestsLimit(req limiter.Request, limit string) bool {
	for name := range req.Consume.All() {
		if name == limit {
			return true
		}
	}
	return false
}

func verdict(c *kit.Console, s limiter.Status) kit.Cell {
	switch {
	case s.NeverFits:
		return kit.Cell{Display: "never fits", Plain: "never_fits"}.WithColour(c.Style.Red)
	case s.WouldRefuse:
		return kit.Cell{Display: "would refuse", Plain: "would_refuse"}.WithColour(c.Style.Yellow)
	case s.Exceeded:
		return kit.Cell{Display: "in " + tty.Wait(s.RetryAfter), Plain: "exceeded"}.WithColour(c.Style.Yellow)
	}
	return kit.Cell{Display: "ok", Plain: "ok"}.WithColour(c.Style.Green)
}

// requestText returns a request in words: "rpm=1 tpm=500 of gpt-4".
func requestText(req limiter.Request) string {
	var words []string

	for limit, n := range req.Consume.All() {
		words = append(words, limit+"="+figure.Amount(limit, n))
	}

	if words == nil {
		return req.Resource
	}

	return strings.Join(words, " ") + " of " + req.Resource
}
