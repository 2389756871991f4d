package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/answer"
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
--resource, also show default limits that are still unused. A warning names
levels that are disabled and refuse its calls.`,
		Example:           "  zae-limiter entity status key-abc\n  zae-limiter entity status key-abc -r gpt-4 --json",
		Args:              arguments(entityArg(&o.id)),
		ValidArgsFunction: conn.completeEntity,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runEntityStatus(cmd.Context(), o) },
	}
	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "only this `resource`")
	_ = cmd.RegisterFlagCompletionFunc("resource", conn.completeResources)
	addJSON[answer.Owner](cmd, &o.json, anObject, statusColumns)
	documentFields[answer.Status](cmd, "Each of its limits")
	return cmd
}

func runEntityStatus(ctx context.Context, o entityStatusOptions) error {
	if o.resource != "" {
		if err := checkResource(o.resource); err != nil {
			return usagef("%v", err)
		}
	}
	return o.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		e, statuses, err := answer.ReadStatuses(ctx, lim, o.id, o.resource)
		if err != nil {
			return err
		}
		resources := []string{o.resource}
		for _, s := range statuses {
			resources = append(resources, s.Resource)
		}
		e.ID = o.id // also without a record
		off, err := answer.ReadSwitches(ctx, lim, e, resources...)
		if err != nil {
			return err
		}
		return o.print(e, statuses, off)
	})
}

func (o entityStatusOptions) print(e limiter.Entity, statuses []limiter.Status, off []limiter.Switch) error {
	if o.json {
		return o.printJSON(answer.NewOwner(o.id, e, statuses, off...))
	}
	defer o.warnSwitches(off)
	defer o.warnZones(statuses)
	if o.terminal && e.Parent != "" {
		relation := "whose parent is "
		if e.Cascade {
			relation = "charged together with its parent "
		}
		if _, err := fmt.Fprintf(o.out, "%s\n\n", tty.Wrap(o.style.Bold(o.id)+", "+relation+o.style.Bold(e.Parent), o.width)); err != nil {
			return err
		}
	}
	return statusListing(o.console, "All limits of "+o.id+" are full: it used nothing lately.").print(o.console, false, each(statuses))
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
			c.warn("%s of %s never fills, and its calls fail: the zone %q is not known here", s.Limit.Name, ofResource(s.Entity, s.Resource), s.Limit.Zone)
		}
	}
}

var statusColumns = append([]column{
	{title: "entity"},
	{title: "resource"},
	{title: "limit"},
	{title: "used", right: true},
	{title: "available", right: true},
	{title: "debt", right: true, spare: true}, // available is negative then
	{title: "refill", right: true, spare: true},
	{title: "full in", right: true},
	{title: "source", spare: true},
}, kindColumns...)

func statusListing(c *console, nothing string) listing[limiter.Status] {
	return listing[limiter.Status]{
		statusColumns,
		func(s limiter.Status) []cell {
			row := []cell{
				text(s.Entity), text(s.Resource), text(s.Limit.Name), number(answer.Used(s)), available(c, s),
				debtCell(c, s), rate(s.Limit), fullIn(s), source(s.Source),
			}
			return append(row, kindCells(s)...)
		},
		func(s limiter.Status) any { return answer.NewStatus(s) },
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
	if answer.Debt(s) == 0 {
		return cell{display: none, plain: "0"}
	}
	return number(answer.Debt(s)).withColour(c.style.Red)
}

// source returns the cell of the level of a limit.
func source(level string) cell {
	return cell{display: strings.ReplaceAll(level, "_", " "), plain: level}
}
