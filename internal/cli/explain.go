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
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

type explainOptions struct {
	*connection
	request        limiter.Request
	limits         limits
	exitCode, json bool
}

func newExplain(c *console) *cobra.Command {
	o := explainOptions{connection: &connection{console: c}}
	cmd := &cobra.Command{
		Use:   "explain ENTITY RESOURCE [LIMIT=TOKENS...]",
		Short: "Tell what a request would meet now, and why",
		Long: `Tells what would happen to a request now and why, without taking anything: what
each limit of the entity, and of the parent that pays with it, has left, and
which level each comes from. A parent without limits of its own is charged by
the defaults of the resource, else of the system. Without amounts it just looks.

` + storeHelp,
		Example: `  zae-limiter explain key-abc gpt-4 rpm=1 tpm=500
  zae-limiter explain key-abc gpt-4
  zae-limiter explain key-abc gpt-4 rpm=1 --exit-code && echo there is room`,
		Args:              requestArgs(&o.request, 0),
		ValidArgsFunction: o.completeRequest,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runExplain(cmd.Context(), o) },
	}
	o.addNamespace(cmd)
	addLimits(cmd, &o.limits, "judge by this limit instead of those stored")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "end with code 3 if the request would be refused")
	addJSON[explainShape](cmd, &o.json, anObject, decisionColumns)
	addShape[statusShape](cmd, "Each of its limits")
	addShape[levelShape](cmd, "Each of its levels")
	return cmd
}

// requestArgs takes ENTITY RESOURCE and at least so many LIMIT=TOKENS.
func requestArgs(req *limiter.Request, least int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		names := []string{"ENTITY", "RESOURCE", "LIMIT=TOKENS"}
		if len(args) < 2+least {
			return usagef("%s is missing; usage: %s", names[len(args)], cmd.UseLine())
		}
		if err := setAll([]argument{entityArg(&req.Entity), resourceArg(&req.Resource)}, args); err != nil {
			return err
		}
		var err error
		req.Consume, err = parseAmounts(args[2:])
		return err
	}
}

// override has a request judged by limits of its own, if there are any. They
// have to be about all that is asked for.
func override(req *limiter.Request, by []limiter.Limit) error {
	req.Limits = by
	for limit := range req.Consume.All() {
		if by != nil && !slices.ContainsFunc(by, func(l limiter.Limit) bool { return l.Name == limit }) {
			return usagef("%s is asked for, but no --limit is about it; with --limit all limits have to be given", limit)
		}
	}
	return nil
}

func runExplain(ctx context.Context, o explainOptions) error {
	if err := override(&o.request, o.limits.all); err != nil {
		return err
	}
	now := o.now()
	still := *o.console
	still.now = func() time.Time { return now } // for all that is asked
	o.console = &still
	return o.with(ctx, reads, func(lim *limiter.RateLimiter, repo limiter.Repository) error {
		d, err := o.explain(ctx, lim)
		if err != nil {
			return o.unlimited(err, o.request)
		}
		levels, err := readLevels(ctx, repo, d)
		if err != nil {
			return err
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

// explain is the decision, with what is there now: a lease would tell what it
// left, which nobody has taken yet.
func (o explainOptions) explain(ctx context.Context, lim *limiter.RateLimiter) (limiter.Decision, error) {
	d, err := lim.Explain(ctx, o.request)
	if err != nil || !d.Admitted() {
		return d, err
	}
	look := o.request
	look.Consume = limiter.Amounts{}
	there, err := lim.Explain(ctx, look)
	if err != nil || len(there.Statuses) != len(d.Statuses) { // somebody changed the limits meanwhile
		return d, err
	}
	for i := range there.Statuses {
		there.Statuses[i].Requested = d.Statuses[i].Requested
	}
	return there, nil
}

// explainShape is an explanation as JSON.
type explainShape struct {
	decisionShape
	Levels []levelShape `json:"levels" doc:"what is stored at each level, most specific first, for the entity and then for its parent; see below"`
}

// levelShape is a level as JSON.
type levelShape struct {
	Level    string       `json:"level" doc:"entity, entity_default, resource or system"`
	Entity   *string      `json:"entity_id" doc:"that it is about"`
	Resource *string      `json:"resource" doc:"that it is about"`
	Limits   []limitShape `json:"limits" doc:"that are stored, each with name, capacity, refill_amount and refill_period_seconds"`
	InForce  bool         `json:"in_force" doc:"whether they rule"`
}

// level is what is stored in one place, and whether it rules the payer.
type level struct {
	payer   string
	config  limiter.Config
	inForce bool
}

// readLevels are the four of everyone who pays.
func readLevels(ctx context.Context, repo limiter.Repository, d limiter.Decision) ([]level, error) {
	var levels []level
	payer := ""
	for _, s := range d.Statuses {
		if s.Entity == payer {
			continue
		}
		payer = s.Entity
		for _, scope := range limiter.Precedence(s.Entity, s.Resource) {
			cfg, err := repo.Config(ctx, scope)
			if err != nil {
				return nil, err
			}
			cfg.Scope = scope
			levels = append(levels, level{payer, cfg, len(cfg.Limits) > 0 && s.Source == scope.Level()})
		}
	}
	return levels, nil
}

func (l level) object() levelShape {
	s := l.config.Scope
	return levelShape{s.Level(), orNull(s.Entity), orNull(s.Resource), limitObjects(l.config.Limits), l.inForce}
}

func (o explainOptions) print(d limiter.Decision, levels []level) error {
	if o.json {
		shapes := make([]levelShape, len(levels))
		for i, l := range levels {
			shapes[i] = l.object()
		}
		return o.printJSON(explainShape{decisionObject(o.request, d), shapes})
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
	if !o.terminal || err != nil {
		return err
	}
	_, err = fmt.Fprintln(o.out)
	return errors.Join(err, o.levelListing().print(o.console, false, each(byLimit(levels))))
}

// answer is what would happen, in words.
func (o explainOptions) answer(d limiter.Decision) string {
	who := o.request.Entity
	switch {
	case o.request.Consume.Len() == 0:
		return o.style.Bold(fmt.Sprintf("What %s has left of %s", who, o.request.Resource))
	case d.Admitted():
		return o.style.Green("admitted") + fmt.Sprintf(": %s may take %s now", who, asked(o.request))
	}
	verdict := o.style.Red("refused") + fmt.Sprintf(": %s may not take %s now", who, asked(o.request))
	for _, r := range reasons(d) {
		verdict += "\n  " + r
	}
	return verdict
}

// parentLevel says by which limits the parent is charged, "" if it is not.
func (o explainOptions) parentLevel(d limiter.Decision) string {
	for _, s := range d.Statuses {
		if s.Entity != o.request.Entity {
			return s.Entity + " is charged too, by " + levelWords(s)
		}
	}
	return ""
}

// levelWords names the level that a status comes from.
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

// stored is one limit of a level, or none.
type stored struct {
	level
	limit *limiter.Limit
}

func (o explainOptions) levelListing() listing[stored] {
	return listing[stored]{
		columns: []column{{title: "entity"}, {title: "level"}, {title: "limit"}, {title: "rate", right: true}, {title: "burst", right: true}, {title: "in force"}},
		row: func(s stored) []cell {
			who, where := text(s.payer), source(s.config.Scope.Level())
			if s.limit == nil {
				return []cell{who, where, text(""), text(""), text(""), text("")}
			}
			force := yesNo(s.inForce)
			if s.inForce {
				force = force.in(o.style.Green)
			}
			return append(append([]cell{who, where}, limitRow(*s.limit)...), force)
		},
	}
}

// byLimit are the limits of all levels, a level without any once.
func byLimit(levels []level) []stored {
	var all []stored
	for _, l := range levels {
		if len(l.config.Limits) == 0 {
			all = append(all, stored{l, nil})
		}
		for i := range l.config.Limits {
			all = append(all, stored{l, &l.config.Limits[i]})
		}
	}
	return all
}
