package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

type entityStatusOptions struct {
	*connection
	id, resource string
	json         bool
}

func newEntityStatus(conn *connection) *cobra.Command {
	o := entityStatusOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "status ENTITY",
		Short: "Show what an entity used and has left of every limit",
		Long: `Shows every limit of every bucket of an entity, and those it has of its own but
has not used: what is used and available, how fast it refills, the debt and when
it will be full; and the same of its parent, if that is charged too. With
--resource it also shows default limits of which nothing has been used yet.`,
		Example:           "  zae-limiter entity status key-abc\n  zae-limiter entity status key-abc -r gpt-4 --json",
		Args:              arguments(entityArg(&o.id)),
		ValidArgsFunction: conn.completeEntity,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runEntityStatus(cmd.Context(), o) },
	}
	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "only this `resource`")
	_ = cmd.RegisterFlagCompletionFunc("resource", conn.completeResources)
	addJSON[ownerShape](cmd, &o.json, anObject, statusColumns)
	addShape[statusShape](cmd, "Each of its limits")
	return cmd
}

func runEntityStatus(ctx context.Context, o entityStatusOptions) error {
	if o.resource != "" {
		if err := checkResource(o.resource); err != nil {
			return usagef("%v", err)
		}
	}
	return o.with(ctx, reads, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		e, err := lim.Entity(ctx, o.id)
		if err != nil && !errors.Is(err, limiter.ErrNotFound) {
			return err
		}
		statuses, err := o.statuses(ctx, lim, e)
		if err != nil {
			return err
		}
		return o.print(e, statuses)
	})
}

// ownerShape is an entity's status as JSON.
type ownerShape struct {
	Entity  string        `json:"entity_id" doc:"whose status it is"`
	Parent  *string       `json:"parent_id" doc:"id of its parent"`
	Cascade bool          `json:"cascade" doc:"whether the parent is charged with it"`
	Limits  []statusShape `json:"limits" doc:"every limit, the parent's last; see below"`
}

func (o entityStatusOptions) print(e limiter.Entity, statuses []limiter.Status) error {
	if o.json {
		return o.printJSON(ownerShape{o.id, orNull(e.Parent), e.Cascade, statusObjects(statuses)})
	}
	if o.terminal && e.Parent != "" {
		relation := "whose parent is "
		if e.Cascade {
			relation = "charged together with its parent "
		}
		if _, err := fmt.Fprintf(o.out, "%s\n\n", tty.Wrap(o.style.Bold(o.id)+", "+relation+o.style.Bold(e.Parent), o.width)); err != nil {
			return err
		}
	}
	return statusListing(o.console, o.id+" has used nothing.").print(o.console, false, each(statuses))
}

// statuses are those of the entity, then those of the parent that pays with it.
func (o entityStatusOptions) statuses(ctx context.Context, lim *limiter.RateLimiter, e limiter.Entity) ([]limiter.Status, error) {
	if o.resource != "" {
		d, err := lim.Explain(ctx, limiter.Request{Entity: o.id, Resource: o.resource})
		if !errors.Is(err, limiter.ErrNoLimits) {
			return d.Statuses, err
		} // but a request may have brought some
	}
	all, err := lim.Status(ctx, o.id)
	if err != nil {
		return nil, err
	}
	if all, err = o.addUnused(ctx, lim, all); err != nil {
		return nil, err
	}
	if e.Cascade {
		parents, err := lim.Status(ctx, e.Parent)
		if err != nil {
			return nil, err
		}
		all = append(all, parents...)
	}
	return slices.DeleteFunc(all, func(s limiter.Status) bool { return o.resource != "" && s.Resource != o.resource }), nil
}

// addUnused adds the resources for which the entity has limits of its own and
// has not used anything yet.
func (o entityStatusOptions) addUnused(ctx context.Context, lim *limiter.RateLimiter, all []limiter.Status) ([]limiter.Status, error) {
	names, err := lim.ResourcesWithLimits(ctx)
	for _, resource := range names {
		if resource == "" || slices.ContainsFunc(all, func(s limiter.Status) bool { return s.Resource == resource }) {
			continue
		}
		stored, err := lim.Limits(ctx, o.id, resource)
		if err != nil {
			return nil, err
		}
		for _, l := range stored {
			all = append(all, limiter.Status{Entity: o.id, Resource: resource, Source: "entity", Limit: l, Available: l.Capacity})
		}
	}
	return all, err
}

// statusShape is one limit of one bucket as JSON.
type statusShape struct {
	Entity     string  `json:"entity_id" doc:"whose bucket it is"`
	Resource   string  `json:"resource" doc:"what it limits the use of"`
	Limit      string  `json:"limit_name" doc:"which limit"`
	Source     string  `json:"source" doc:"where the limit is stored: entity, entity_default, resource or system; override if a request or a program brought it"`
	Capacity   int64   `json:"capacity" doc:"tokens that can be taken at once"`
	Refill     int64   `json:"refill_amount" doc:"tokens that come back every period"`
	Seconds    int64   `json:"refill_period_seconds" doc:"length of the period"`
	Available  int64   `json:"available" doc:"whole tokens that are left; negative is debt"`
	Used       int64   `json:"used" doc:"tokens of the capacity that are taken"`
	Debt       int64   `json:"debt" doc:"tokens taken beyond the capacity"`
	Requested  int64   `json:"requested" doc:"tokens asked for"`
	Exceeded   bool    `json:"exceeded" doc:"whether they are not covered"`
	NeverFits  bool    `json:"never_fits" doc:"whether they are above the capacity"`
	RetryAfter float64 `json:"retry_after_seconds" doc:"until they are covered; 0 if they are, or never fit"`
	FullAfter  float64 `json:"full_after_seconds" doc:"until the bucket is full, if nothing more is taken"`
}

func statusObject(s limiter.Status) statusShape {
	limit := limitObject(s.Limit)
	return statusShape{
		s.Entity, s.Resource, limit.Name, s.Source, limit.Capacity, limit.Refill, limit.Seconds,
		s.Available, used(s), debt(s), s.Requested, s.Exceeded, s.NeverFits, retryAfter(s.RetryAfter, s.NeverFits), seconds(s.FullAfter),
	}
}

func statusObjects(all []limiter.Status) []statusShape {
	objects := make([]statusShape, len(all))
	for i, s := range all {
		objects[i] = statusObject(s)
	}
	return objects
}

func debt(s limiter.Status) int64 { return max(0, -s.Available) }

func used(s limiter.Status) int64 { return s.Limit.Capacity - max(0, s.Available) }

var statusColumns = []column{
	{title: "entity"},
	{title: "resource"},
	{title: "limit"},
	{title: "used", right: true},
	{title: "available", right: true},
	{title: "debt", right: true},
	{title: "refill", right: true},
	{title: "full in", right: true},
	{title: "source", spare: true},
}

func statusListing(c *console, nothing string) listing[limiter.Status] {
	return listing[limiter.Status]{
		statusColumns,
		func(s limiter.Status) []cell {
			return []cell{
				text(s.Entity), text(s.Resource), text(s.Limit.Name), number(used(s)), available(c, s),
				debtCell(c, s), rate(s.Limit), span(s.FullAfter), source(s.Source),
			}
		},
		func(s limiter.Status) any { return statusObject(s) },
		nothing,
	}
}

// available is yellow where less than a quarter is left, red in debt.
func available(c *console, s limiter.Status) cell {
	shown := number(s.Available)
	switch {
	case s.Available < 0:
		return shown.in(c.style.Red)
	case s.Available < (s.Limit.Capacity+3)/4:
		return shown.in(c.style.Yellow)
	}
	return shown.in(c.style.Green)
}

func debtCell(c *console, s limiter.Status) cell {
	if debt(s) == 0 {
		return cell{people: none, program: "0"}
	}
	return number(debt(s)).in(c.style.Red)
}

// source is the level of a limit, in words for people.
func source(level string) cell {
	return cell{people: strings.ReplaceAll(level, "_", " "), program: level}
}
