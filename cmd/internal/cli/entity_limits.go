package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

type entityLimitsOptions struct {
	*connection
	id, resource string
	limits       limitFlags
	yes, json    bool
}

// addResource adds the flag --resource to a command about limits of an entity.
func (o *entityLimitsOptions) addResource(cmd *cobra.Command) {
	cmd.ValidArgsFunction = o.completeEntity
	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "`resource` of the limits (default: all resources)")
	_ = cmd.RegisterFlagCompletionFunc("resource", o.completeResources)
}

// addLimits adds the repeatable flag --limit.
func addLimits(cmd *cobra.Command, target *limitFlags, usage string) {
	cmd.Flags().VarP(target, "limit", "l", usage+"; repeatable")
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

func newEntitySetLimits(conn *connection) *cobra.Command {
	o := entityLimitsOptions{connection: conn}
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
		Args: arguments(entityArg(&o.id)),
		RunE: func(cmd *cobra.Command, _ []string) error { return runEntitySetLimits(cmd.Context(), o) },
	}

	o.addResource(cmd)
	addLimits(cmd, &o.limits, "limit to set")
	conn.addPrincipal(cmd)

	return cmd
}

func runEntitySetLimits(ctx context.Context, o entityLimitsOptions) error {
	resource, err := orAllResources(o.resource)
	if err != nil {
		return err
	}
	if len(o.limits.all) == 0 {
		return errNoLimitGiven
	}

	return o.withStore(ctx, accessCreate, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.SetLimits(ctx, o.id, resource, o.limits.all...); err != nil {
			return err
		}

		o.warnCents(o.limits.all)
		o.done("Set %s of %s %s: %s", count(len(o.limits.all), "limit"), ofResource(o.id, resource), o.location(),
			o.limits.describe())

		return nil
	})
}

func newEntityGetLimits(conn *connection) *cobra.Command {
	o := entityLimitsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "get-limits ENTITY",
		Short: "Show the limits of an entity",
		Long: `Show the limits that are stored for exactly this entity and resource, or for
the entity and all resources. "zae-limiter explain" shows the limits in force.`,
		Example: "  zae-limiter entity get-limits key-abc -r gpt-4",
		Args:    arguments(entityArg(&o.id)),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runEntityGetLimits(cmd.Context(), o) },
	}

	o.addResource(cmd)
	addJSON[jsonview.Limit](cmd, &o.json, anArray, limitColumns)

	return cmd
}

func runEntityGetLimits(ctx context.Context, o entityLimitsOptions) error {
	resource, err := orAllResources(o.resource)
	if err != nil {
		return err
	}

	return o.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		stored, err := lim.Limits(ctx, o.id, resource)
		if err != nil {
			return err
		}

		return limitListing(
			"No limits are stored of "+ofResource(o.id, resource)+".",
		).print(o.console, o.json, each(stored))
	})
}

func newEntityDeleteLimits(conn *connection) *cobra.Command {
	o := entityLimitsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "delete-limits ENTITY",
		Short: "Delete the limits of an entity",
		Long: "Delete the limits of an entity for a resource, or for all resources. The limits\nof the " +
			"next level apply then.",
		Example: "  zae-limiter entity delete-limits key-abc -r gpt-4 --yes",
		Args:    arguments(entityArg(&o.id)),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runEntityDeleteLimits(cmd.Context(), o) },
	}

	o.addResource(cmd)
	addYes(cmd, &o.yes)
	conn.addPrincipal(cmd)

	return cmd
}

func runEntityDeleteLimits(ctx context.Context, o entityLimitsOptions) error {
	resource, err := orAllResources(o.resource)
	if err != nil {
		return err
	}

	which := ofResource(o.id, resource)
	if err := o.confirm(ctx, o.yes, "Delete the limits of "+which); err != nil {
		return err
	}

	return o.withStore(ctx, accessChange, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.DeleteLimits(ctx, o.id, resource); err != nil {
			return err
		}
		o.done("Deleted the limits of %s %s", which, o.location())
		return nil
	})
}

type namesOptions struct {
	*connection
	json bool
}

var resourceColumns = []column{{title: "resource"}, disabledColumn}

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

	return listing[string]{
		resourceColumns,
		func(name string) []cell {
			since := text("")
			if s := off[name]; s != nil {
				since = moment(s.Since)
			}
			return []cell{text(jsonview.OrAllResources(name)), since}
		},
		func(name string) any {
			return jsonview.Resource{Name: jsonview.OrAllResources(name), Disabled: jsonview.SwitchOrNull(off[name])}
		},
		nothing,
	}.print(o.console, o.json, each(names))
}

func newEntityListResources(conn *connection) *cobra.Command {
	o := namesOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "list-resources",
		Short: "List the resources for which entities have limits",
		Long: "List the resources for which entities have limits of their own, sorted.\n\"_default_\" " +
			"stands for limits for all resources.",
		Example: "  zae-limiter entity list-resources",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withStore(cmd.Context(), accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
				names, err := lim.ResourcesWithLimits(cmd.Context())
				if err != nil {
					return err
				}
				return o.printResources(cmd.Context(), lim, names, "No entity has limits of its own.")
			})
		},
	}
	addJSON[jsonview.Resource](cmd, &o.json, anArray, resourceColumns)

	return cmd
}

var errNoLimitGiven = usagef("--limit is missing; %s", limitForms)
