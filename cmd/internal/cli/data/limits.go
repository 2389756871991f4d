package data

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

// kindColumns are the columns of limits that are not plain rates.
//
// A shadow limit must not look like an enforced one, so its mark is kept. A narrow
// terminal leaves out the end of a window, since the time until the bucket is full
// says roughly the same.
var kindColumns = []kit.Column{{Title: "mode", Whole: true, Keep: true, Extra: true}, {
	Title: "window end", Whole: true, Spare: true, Extra: true,
}}

// kindCells returns the cells of kindColumns.
func kindCells(s limiter.Status) []kit.Cell {
	return []kit.Cell{mode(s.Limit), kit.Moment(s.WindowEnd)}
}

// mode returns the cell that marks a shadow limit.
func mode(l limiter.Limit) kit.Cell {
	if l.IsShadow {
		return kit.Text("shadow")
	}
	return kit.Text("")
}

// limitColumns are the columns of stored limits.
var limitColumns = []kit.Column{
	{Title: "limit"}, {Title: "rate", Right: true}, {Title: "burst", Right: true}, kindColumns[0],
}

func limitRow(l limiter.Limit) []kit.Cell {
	return []kit.Cell{kit.Text(l.Name), kit.Rate(l), kit.Amount(l.Name, l.Capacity), mode(l)}
}

// limitListing describes how to print stored limits.
func limitListing(nothing string) kit.Listing[limiter.Limit] {
	return kit.Listing[limiter.Limit]{Columns: limitColumns, Row: limitRow, Object: func(l limiter.Limit) any {
		return jsonview.NewLimit(l)
	}, Nothing: nothing}
}

type entityLimitsOptions struct {
	*kit.Connection
	id, resource string
	limits       kit.LimitFlags
	yes, json    bool
}

// addResource adds the flag --resource to a command about limits of an entity.
func (o *entityLimitsOptions) addResource(cmd *cobra.Command) {
	cmd.ValidArgsFunction = o.CompleteEntity
	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "`resource` of the limits (default: all resources)")
	_ = cmd.RegisterFlagCompletionFunc("resource", o.CompleteResources)
}

const limitHelp = `A limit is NAME:RATE[/[COUNT]UNIT][:BURST], where UNIT is sec, min, hour or day:
rpm:100 refills 100 per minute, tpm:10000/hour:15000 refills 10,000 per hour and
holds up to 15,000, images:50/12hour refills 50 every twelve hours. Any period
admits at most BURST + RATE.

With within in place of BURST, any period admits at most RATE:
tpm:10000/min:within holds 1,000, a tenth, and refills 9,000 per minute;
tpm:10000/min:within=4000 holds 4,000. A request above the burst never fits.

A quota is NAME:CAPACITY@WINDOW[:ZONE], where WINDOW is hour, day, week, month
or year: tokens:1M@month gains 1,000,000 at the start of each month in UTC,
tokens:50k@day:Europe/Berlin gains 50,000 at midnight in Berlin. With :shadow at
the end, as in rpm:100:shadow, a limit is counted and shown, but never refuses.

Numbers may end in k, M, G or T: 10k, 1.5M. A limit named spend, or spend_daily
and so on, counts money: 'spend:$50@month', in quotes for a shell. Without the
sign, its numbers are millionths of a dollar.`

func newEntitySetLimits(conn *kit.Connection) *cobra.Command {
	o := entityLimitsOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "set-limits ENTITY",
		Short: "Set the limits of an entity",
		Long: `Set the limits of an entity for a resource, or for all resources without limits
of their own. The new limits replace the stored ones. Of the levels entity and
resource, entity, resource, and system, the first that has limits applies;
levels are not combined.

` + limitHelp,
		Example: `  zae-limiter entity set-limits key-abc -r gpt-4 -l rpm:50 -l tpm:2000/min:3000
  zae-limiter entity set-limits key-abc -l rpm:1000/hour
  zae-limiter entity set-limits key-abc -l 'spend:$50@month' -l tokens:10M@month`,
		Args: kit.Arguments(entityArg(&o.id)),
		RunE: func(cmd *cobra.Command, _ []string) error { return runEntitySetLimits(cmd.Context(), o) },
	}

	o.addResource(cmd)
	kit.AddLimits(cmd, &o.limits, "limit to set")
	conn.AddPrincipal(cmd)

	return cmd
}

func runEntitySetLimits(ctx context.Context, o entityLimitsOptions) error {
	resource, err := orAllResources(o.resource)
	if err != nil {
		return err
	}
	if len(o.limits.All) == 0 {
		return errNoLimitGiven
	}

	return o.WithStore(ctx, kit.Create, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.SetLimits(ctx, o.id, resource, o.limits.All...); err != nil {
			return err
		}

		o.WarnCents(o.limits.All)
		o.Done("Set %s of %s %s: %s", kit.Count(len(o.limits.All), "limit"), ofResource(o.id, resource), o.Location(),
			o.limits.Describe())

		return nil
	})
}

func newEntityGetLimits(conn *kit.Connection) *cobra.Command {
	o := entityLimitsOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "get-limits ENTITY",
		Short: "Show the limits of an entity",
		Long: `Show the limits that are stored for exactly this entity and resource, or for
the entity and all resources. "zae-limiter explain" shows the limits in force.`,
		Example: "  zae-limiter entity get-limits key-abc -r gpt-4",
		Args:    kit.Arguments(entityArg(&o.id)),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runEntityGetLimits(cmd.Context(), o) },
	}

	o.addResource(cmd)
	kit.AddJSON[jsonview.Limit](cmd, &o.json, kit.AnArray, limitColumns)

	return cmd
}

func runEntityGetLimits(ctx context.Context, o entityLimitsOptions) error {
	resource, err := orAllResources(o.resource)
	if err != nil {
		return err
	}

	return o.WithStore(ctx, kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		stored, err := lim.Limits(ctx, o.id, resource)
		if err != nil {
			return err
		}

		none := "No limits are stored for " + o.id + " and " + cmp.Or(resource, "all resources") + "."
		return limitListing(none).Print(o.Console, o.json, kit.Each(stored))
	})
}

func newEntityDeleteLimits(conn *kit.Connection) *cobra.Command {
	o := entityLimitsOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "delete-limits ENTITY",
		Short: "Delete the limits of an entity",
		Long: "Delete the limits of an entity for a resource, or for all resources. The limits\nof the " +
			"next level apply then.",
		Example: "  zae-limiter entity delete-limits key-abc -r gpt-4 --yes",
		Args:    kit.Arguments(entityArg(&o.id)),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runEntityDeleteLimits(cmd.Context(), o) },
	}

	o.addResource(cmd)
	kit.AddYes(cmd, &o.yes)
	conn.AddPrincipal(cmd)

	return cmd
}

func runEntityDeleteLimits(ctx context.Context, o entityLimitsOptions) error {
	resource, err := orAllResources(o.resource)
	if err != nil {
		return err
	}

	which := ofResource(o.id, resource)
	if err := o.Confirm(ctx, o.yes, "Delete the limits of "+which); err != nil {
		return err
	}

	return o.WithStore(ctx, kit.Change, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.DeleteLimits(ctx, o.id, resource); err != nil {
			return err
		}
		o.Done("Deleted the limits of %s %s", which, o.Location())
		return nil
	})
}

type namesOptions struct {
	*kit.Connection
	json bool
}

var resourceColumns = []kit.Column{{Title: "resource"}, disabledColumn}

// printResources prints names of resources, and which of them are off; "" stands
// for all resources.
func (o namesOptions) printResources(
	ctx context.Context, lim *limiter.RateLimiter, names []string, nothing string,
) error {
	off := map[string]*limiter.Switch{}
	for s, err := range lim.Switches(ctx) {
		if err != nil {
			return err
		}
		// A switch of one entity leaves the resource on for others.
		if s.Scope.Entity == "" && s.Scope.Resource != "" {
			off[s.Scope.Resource] = &s
		}
	}

	return kit.Listing[string]{
		Columns: resourceColumns,
		Row: func(name string) []kit.Cell {
			since := kit.Text("")
			if s := off[name]; s != nil {
				since = kit.Moment(s.Since)
			}
			return []kit.Cell{kit.Text(jsonview.OrAllResources(name)), since}
		},
		Object: func(name string) any {
			return jsonview.Resource{Name: jsonview.OrAllResources(name), Disabled: jsonview.SwitchOrNull(off[name])}
		},
		Nothing: nothing,
	}.Print(o.Console, o.json, kit.Each(names))
}

func newEntityListResources(conn *kit.Connection) *cobra.Command {
	o := namesOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "list-resources",
		Short: "List the resources for which entities have limits",
		Long: "List the resources for which entities have limits of their own, sorted.\n\"_default_\" " +
			"stands for limits for all resources.",
		Example: "  zae-limiter entity list-resources",
		Args:    kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.WithStore(cmd.Context(), kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
				names, err := lim.ResourcesWithLimits(cmd.Context())
				if err != nil {
					return err
				}
				return o.printResources(cmd.Context(), lim, names, "No entity has limits of its own.")
			})
		},
	}
	kit.AddJSON[jsonview.Resource](cmd, &o.json, kit.AnArray, resourceColumns)

	return cmd
}

var errNoLimitGiven = kit.Usagef("--limit is missing; %s", kit.LimitForms)
