package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
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
not used yet: the tokens available, the capacity, the debt, the refill rate and
the time until the bucket is full. A parent that is charged too is included.
With --resource, also show default limits that are still unused. A warning names
levels that are disabled and refuse its calls.

Used is what the usage counters say: of a quota since the start of its window,
of a rate since the start of the hour, or of the day or month if its period is
longer. It is empty if nothing was counted.`,
		Example:           "  zae-limiter entity status key-abc\n  zae-limiter entity status key-abc -r gpt-4 --json",
		Args:              arguments(entityArg(&o.id)),
		ValidArgsFunction: conn.completeEntity,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runEntityStatus(cmd.Context(), o) },
	}

	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "only this `resource`")
	_ = cmd.RegisterFlagCompletionFunc("resource", conn.completeResources)
	addJSON[jsonview.Owner](cmd, &o.json, anObject, statusColumns)
	documentFields[jsonview.Status](cmd, "Each of its limits")

	return cmd
}

func runEntityStatus(ctx context.Context, o entityStatusOptions) error {
	if o.resource != "" {
		if err := checkResource(o.resource); err != nil {
			return usagef("%v", err)
		}
	}

	return o.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		e, statuses, err := jsonview.ReadStatuses(ctx, lim, o.id, o.resource)
		if err != nil {
			return err
		}

		resources := []string{o.resource}
		for _, s := range statuses {
			resources = append(resources, s.Resource)
		}

		// An entity without a record has an empty one here, and its switches
		// are found by its ID.
		e.ID = o.id
		off, err := jsonview.ReadSwitches(ctx, lim, e, resources...)
		if err != nil {
			return err
		}

		used, err := jsonview.ReadUsed(ctx, lim, o.now(), statuses)
		if err != nil {
			return err
		}

		nothing := ""
		if len(statuses) == 0 {
			if nothing, err = o.nothing(ctx, lim, e); err != nil {
				return err
			}
		}

		return o.print(e, statuses, used, off, nothing)
	})
}

func (o entityStatusOptions) print(
	e limiter.Entity, statuses []limiter.Status, used []jsonview.Used, off []limiter.Switch, nothing string,
) error {
	if o.json {
		return o.printJSON(jsonview.NewOwner(o.id, e, statuses, used, off...))
	}

	defer o.warnSwitches(off)
	defer o.warnZones(statuses)

	if o.terminal && e.Parent != "" {
		relation := "whose parent is "
		if e.Cascade {
			relation = "charged together with its parent "
		}
		if _, err := fmt.Fprintf(
			o.out, "%s\n\n", tty.Wrap(o.style.Bold(o.id)+", "+relation+o.style.Bold(e.Parent), o.width),
		); err != nil {
			return err
		}
	}

	return statusListing(o.console, nothing).print(o.console, false, each(statusRows(statuses, used)))
}

// nothing returns the message for an entity without statuses: it has no buckets,
// and no limits of its own for a single resource.
func (o entityStatusOptions) nothing(ctx context.Context, lim *limiter.RateLimiter, e limiter.Entity) (string, error) {
	if o.resource != "" {
		return fmt.Sprintf("%s has no bucket for %s %s. %s shows its limits.",
			o.id, o.resource, o.location(), o.suggestion("explain", o.id, o.resource)), nil
	}

	stored, err := lim.Limits(ctx, o.id, "")
	switch {
	case err != nil:
		return "", err
	case len(stored) > 0:
		return fmt.Sprintf("%s used nothing lately. Its limits for all resources: %s", o.id,
			(&limitFlags{all: stored}).describe()), nil
	case !e.CreatedAt.IsZero():
		return "All limits of " + o.id + " are full: it used nothing lately.", nil
	}
	return fmt.Sprintf("Nothing is known of %s %s: it has no record, no limits of its own and no buckets. %s "+
		"lists the entities.",
		o.id, o.location(), o.suggestion("entity", "list")), nil
}

// fullIn returns the cell of the time until a limit is full. It is empty for a quota
// that never fills.
func fullIn(s limiter.Status) cell {
	if neverFills(s) {
		return text("")
	}
	return span(s.FullAfter)
}

// neverFills reports whether the zone of a quota is not known here.
func neverFills(s limiter.Status) bool { return s.Limit.Zone != "" && s.Limit.Validate() != nil }

// warnZones names quotas whose zones are not known here.
func (c *console) warnZones(statuses []limiter.Status) {
	for _, s := range statuses {
		if neverFills(s) {
			c.warn("%s of %s never fills, and its calls fail: the zone %q is not known here", s.Limit.Name,
				ofResource(s.Entity, s.Resource), s.Limit.Zone)
		}
	}
}

var statusColumns = append([]column{
	{title: "entity"},
	{title: "resource"},
	{title: "limit"},
	{title: "used", right: true},
	{title: "available", right: true},
	{title: "capacity", right: true},
	// The debt may be left out, since available is negative then.
	{title: "debt", right: true, spare: true},
	{title: "refill", right: true, spare: true},
	{title: "full in", right: true},
	{title: "source", spare: true},
}, kindColumns...)

// statusRow is one limit of a bucket, and what was used of it.
type statusRow struct {
	limiter.Status
	used jsonview.Used
}

// statusRows returns statuses with what was used, which may be nil.
func statusRows(statuses []limiter.Status, used []jsonview.Used) []statusRow {
	rows := make([]statusRow, len(statuses))
	for i, s := range statuses {
		if rows[i].Status = s; used != nil {
			rows[i].used = used[i]
		}
	}
	return rows
}

func statusListing(c *console, nothing string) listing[statusRow] {
	return listing[statusRow]{
		statusColumns,
		func(r statusRow) []cell {
			s, limit := r.Status, r.Limit.Name
			row := []cell{
				text(s.Entity), text(s.Resource), text(limit), r.usedCell(), available(c, s),
				amount(limit, s.Limit.Capacity),
				debtCell(c, s), rate(s.Limit), fullIn(s), source(s.Source),
			}
			return append(row, kindCells(s)...)
		},
		func(r statusRow) any { return jsonview.NewUsedStatus(r.Status, r.used) },
		nothing,
	}
}

// usedCell returns the cell of what was used, which is empty if nothing was counted.
func (r statusRow) usedCell() cell {
	if r.used.Since.IsZero() {
		return text("")
	}
	return amount(r.Limit.Name, r.used.Tokens)
}

// available returns the cell of the available tokens: yellow below a quarter of
// the capacity, red in debt.
func available(c *console, s limiter.Status) cell {
	shown := amount(s.Limit.Name, s.Available)

	switch {
	case s.Available < 0:
		return shown.withColour(c.style.Red)
	// A quarter is rounded up, so that a limit of 1 is yellow when 0 are left:
	// (1+3)/4 = 1.
	case s.Available < (s.Limit.Capacity+3)/4:
		return shown.withColour(c.style.Yellow)
	}
	return shown.withColour(c.style.Green)
}

func debtCell(c *console, s limiter.Status) cell {
	if jsonview.Debt(s) == 0 {
		return cell{display: none, plain: "0"}
	}
	return amount(s.Limit.Name, jsonview.Debt(s)).withColour(c.style.Red)
}

// source returns the cell of the level of a limit.
func source(level string) cell {
	return cell{display: strings.ReplaceAll(level, "_", " "), plain: level}
}
