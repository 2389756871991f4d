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
		Short: "Show what an entity has used and has left",
		Long: `Show each limit of an entity's buckets, and each limit of its own that it has
not used yet: the tokens used and available, the debt, the refill rate and the
time until the bucket is full. A parent that is charged too is included. With
--resource, also show default limits that are still unused.`,
		Example:           "  zae-limiter entity status key-abc\n  zae-limiter entity status key-abc -r gpt-4 --json",
		Args:              arguments(entityArg(&o.id)),
		ValidArgsFunction: conn.completeEntity,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runEntityStatus(cmd.Context(), o) },
	}
	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "only this `resource`")
	_ = cmd.RegisterFlagCompletionFunc("resource", conn.completeResources)
	addJSON[ownerJSON](cmd, &o.json, anObject, statusColumns)
	documentFields[statusJSON](cmd, "Each of its limits")
	return cmd
}

func runEntityStatus(ctx context.Context, o entityStatusOptions) error {
	if o.resource != "" {
		if err := checkResource(o.resource); err != nil {
			return usagef("%v", err)
		}
	}
	return o.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
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

// ownerJSON is the status of an entity as JSON.
type ownerJSON struct {
	Entity  string       `json:"entity_id" doc:"ID of the entity"`
	Parent  *string      `json:"parent_id" doc:"ID of the parent"`
	Cascade bool         `json:"cascade" doc:"whether the parent is charged too"`
	Limits  []statusJSON `json:"limits" doc:"limits of the entity, then of its parent; see below"`
}

func (o entityStatusOptions) print(e limiter.Entity, statuses []limiter.Status) error {
	if o.json {
		return o.printJSON(ownerJSON{o.id, orNull(e.Parent), e.Cascade, newStatusesJSON(statuses)})
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

// statuses returns the statuses of the entity, then those of a parent that is
// charged too.
func (o entityStatusOptions) statuses(ctx context.Context, lim *limiter.RateLimiter, e limiter.Entity) ([]limiter.Status, error) {
	if o.resource != "" {
		d, err := lim.Explain(ctx, limiter.Request{Entity: o.id, Resource: o.resource})
		if !errors.Is(err, limiter.ErrNoLimits) {
			return d.Statuses, err
		} // but a bucket of limits from a request may exist
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

// addUnused adds statuses for resources that have limits of the entity but no
// bucket yet.
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

// statusJSON is one limit of one bucket as JSON.
type statusJSON struct {
	Entity     string  `json:"entity_id" doc:"entity of the bucket"`
	Resource   string  `json:"resource" doc:"resource of the bucket"`
	Limit      string  `json:"limit_name" doc:"name of the limit"`
	Source     string  `json:"source" doc:"level at which the limit is stored: entity, entity_default, resource or system; override if a request carried it"`
	Capacity   int64   `json:"capacity" doc:"maximum number of tokens"`
	Refill     int64   `json:"refill_amount" doc:"tokens refilled every period"`
	Seconds    int64   `json:"refill_period_seconds" doc:"length of the period"`
	Available  int64   `json:"available" doc:"whole tokens left; negative is debt"`
	Used       int64   `json:"used" doc:"tokens of the capacity that are in use"`
	Debt       int64   `json:"debt" doc:"tokens taken beyond the capacity"`
	Requested  int64   `json:"requested" doc:"requested tokens"`
	Exceeded   bool    `json:"exceeded" doc:"whether the limit does not cover the request"`
	NeverFits  bool    `json:"never_fits" doc:"whether the request is above the capacity"`
	RetryAfter float64 `json:"retry_after_seconds" doc:"wait until the request is covered; 0 if it is, or never fits"`
	FullAfter  float64 `json:"full_after_seconds" doc:"time until the bucket is full, if nothing more is taken"`
}

func newStatusJSON(s limiter.Status) statusJSON {
	limit := newLimitJSON(s.Limit)
	return statusJSON{
		s.Entity, s.Resource, limit.Name, s.Source, limit.Capacity, limit.Refill, limit.Seconds,
		s.Available, used(s), debt(s), s.Requested, s.Exceeded, s.NeverFits, retryAfter(s.RetryAfter, s.NeverFits), seconds(s.FullAfter),
	}
}

func newStatusesJSON(all []limiter.Status) []statusJSON {
	objects := make([]statusJSON, len(all))
	for i, s := range all {
		objects[i] = newStatusJSON(s)
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
		func(s limiter.Status) any { return newStatusJSON(s) },
		nothing,
	}
}

// available returns the cell of the available tokens: yellow below a quarter of
// the capacity, red in debt.
func available(c *console, s limiter.Status) cell {
	shown := number(s.Available)
	switch {
	case s.Available < 0:
		return shown.withColour(c.style.Red)
	case s.Available < (s.Limit.Capacity+3)/4:
		return shown.withColour(c.style.Yellow)
	}
	return shown.withColour(c.style.Green)
}

func debtCell(c *console, s limiter.Status) cell {
	if debt(s) == 0 {
		return cell{display: none, plain: "0"}
	}
	return number(debt(s)).withColour(c.style.Red)
}

// source returns the cell of the level of a limit.
func source(level string) cell {
	return cell{display: strings.ReplaceAll(level, "_", " "), plain: level}
}
