package data

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

type entityStatusOptions struct {
	*kit.Connection
	id, resource string
	json         bool
}

func newEntityStatus(conn *kit.Connection) *cobra.Command {
	o := entityStatusOptions{Connection: conn}
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
		Args:              kit.Arguments(entityArg(&o.id)),
		ValidArgsFunction: conn.CompleteEntity,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runEntityStatus(cmd.Context(), o) },
	}

	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "only this `resource`")
	_ = cmd.RegisterFlagCompletionFunc("resource", conn.CompleteResources)
	kit.AddJSON[jsonview.Owner](cmd, &o.json, kit.AnObject, statusColumns)
	kit.DocumentFields[jsonview.Status](cmd, "Each of its limits")

	return cmd
}

func runEntityStatus(ctx context.Context, o entityStatusOptions) error {
	if o.resource != "" {
		if err := checkResource(o.resource); err != nil {
			return kit.Usagef("%v", err)
		}
	}

	return o.WithStore(ctx, kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		chain, statuses, err := jsonview.ReadStatuses(ctx, lim, o.id, o.resource)
		if err != nil {
			return err
		}

		resources := []string{o.resource}
		for _, s := range statuses {
			resources = append(resources, s.Resource)
		}

		off, err := jsonview.ReadSwitches(ctx, lim, chain, resources...)
		if err != nil {
			return err
		}

		used, err := jsonview.ReadUsed(ctx, lim, o.Now(), statuses)
		if err != nil {
			return err
		}

		nothing := ""
		if len(statuses) == 0 {
			if nothing, err = o.nothing(ctx, lim, chain[0]); err != nil {
				return err
			}
		}

		return o.print(chain, statuses, used, off, nothing)
	})
}

func (o entityStatusOptions) print(
	chain []limiter.Entity, statuses []limiter.Status, used []jsonview.Used, off []limiter.Switch, nothing string,
) error {
	e := chain[0]
	if o.json {
		return o.PrintJSON(jsonview.NewOwner(o.id, e, statuses, used, off...))
	}

	defer warnSwitches(o.Connection.Console, off)
	defer warnZones(o.Connection.Console, statuses)

	if o.Terminal && e.Parent != "" {
		relation := "whose parent is " + o.Style.Bold(e.Parent)
		if len(chain) > 1 {
			relation = "charged together with its parent " + o.Style.Bold(chain[1].ID)
		}
		for _, above := range chain[min(2, len(chain)):] {
			relation += ", then " + o.Style.Bold(above.ID)
		}
		if _, err := fmt.Fprintf(
			o.Out, "%s\n\n", tty.Wrap(o.Style.Bold(o.id)+", "+relation, o.Width),
		); err != nil {
			return err
		}
	}

	return statusListing(o.Console, nothing).Print(o.Console, false, kit.Each(statusRows(statuses, used)))
}

// nothing returns the message for an entity without statuses: it has no buckets,
// and no limits of its own for a single resource.
func (o entityStatusOptions) nothing(ctx context.Context, lim *limiter.RateLimiter, e limiter.Entity) (string, error) {
	if o.resource != "" {
		return fmt.Sprintf("%s has no bucket for %s %s. %s shows its limits.",
			o.id, o.resource, o.Location(), o.Suggestion("explain", o.id, o.resource)), nil
	}

	stored, err := lim.Limits(ctx, o.id, "")
	switch {
	case err != nil:
		return "", err
	case len(stored) > 0:
		return fmt.Sprintf("%s used nothing lately. Its limits for all resources: %s", o.id,
			(&kit.LimitFlags{All: stored}).Describe()), nil
	case !e.CreatedAt.IsZero():
		return "All limits of " + o.id + " are full: it used nothing lately.", nil
	}
	return fmt.Sprintf("Nothing is known of %s %s: it has no record, no limits of its own and no buckets. %s "+
		"lists the entities.",
		o.id, o.Location(), o.Suggestion("entity", "list")), nil
}

// fullIn returns the cell of the time until a limit is full. It is empty for a quota
// that never fills.
func fullIn(s limiter.Status) kit.Cell {
	if neverFills(s) {
		return kit.Text("")
	}
	return kit.Span(s.FullAfter)
}

// neverFills reports whether the zone of a quota is not known here.
func neverFills(s limiter.Status) bool { return s.Limit.Zone != "" && s.Limit.Validate() != nil }

// warnZones names quotas whose zones are not known here.
func warnZones(c *kit.Console, statuses []limiter.Status) {
	for _, s := range statuses {
		if neverFills(s) {
			c.Warn("%s of %s never fills, and its calls fail: the zone %q is not known here", s.Limit.Name,
				ofResource(s.Entity, s.Resource), s.Limit.Zone)
		}
	}
}

var statusColumns = append([]kit.Column{
	{Title: "entity"},
	{Title: "resource"},
	{Title: "limit"},
	{Title: "used", Right: true},
	{Title: "available", Right: true},
	{Title: "capacity", Right: true},
	// The debt may be left out, since available is negative then.
	{Title: "debt", Right: true, Spare: true},
	{Title: "refill", Right: true, Spare: true},
	{Title: "full in", Right: true},
	{Title: "source", Spare: true},
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

func statusListing(c *kit.Console, nothing string) kit.Listing[statusRow] {
	return kit.Listing[statusRow]{
		Columns: statusColumns,
		Row: func(r statusRow) []kit.Cell {
			s, limit := r.Status, r.Limit.Name
			row := []kit.Cell{
				kit.Text(s.Entity), kit.Text(s.Resource), kit.Text(limit), r.usedCell(), available(c, s),
				kit.Amount(limit, s.Limit.Capacity),
				debtCell(c, s), kit.Rate(s.Limit), fullIn(s), source(s.Source),
			}
			return append(row, kindCells(s)...)
		},
		Object:  func(r statusRow) any { return jsonview.NewUsedStatus(r.Status, r.used) },
		Nothing: nothing,
	}
}

// usedCell returns the cell of what was used, which is empty if nothing was counted.
func (r statusRow) usedCell() kit.Cell {
	if r.used.Since.IsZero() {
		return kit.Text("")
	}
	return kit.Amount(r.Limit.Name, r.used.Tokens)
}

// available returns the cell of the available tokens: yellow below a quarter of
// the capacity, red in debt.
func available(c *kit.Console, s limiter.Status) kit.Cell {
	shown := kit.Amount(s.Limit.Name, s.Available)

	switch {
	case s.Available < 0:
		return shown.WithColour(c.Style.Red)
	// A quarter is rounded up, so that a limit of 1 is yellow when 0 are left:
	// (1+3)/4 = 1.
	case s.Available < (s.Limit.Capacity+3)/4:
		return shown.WithColour(c.Style.Yellow)
	}
	return shown.WithColour(c.Style.Green)
}

func debtCell(c *kit.Console, s limiter.Status) kit.Cell {
	if jsonview.Debt(s) == 0 {
		return kit.Cell{Display: kit.None, Plain: "0"}
	}
	return kit.Amount(s.Limit.Name, jsonview.Debt(s)).WithColour(c.Style.Red)
}

// source returns the cell of the level of a limit.
func source(level string) kit.Cell {
	return kit.Cell{Display: strings.ReplaceAll(level, "_", " "), Plain: level}
}
