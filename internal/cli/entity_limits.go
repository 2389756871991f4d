package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
)

type entityLimitsOptions struct {
	*connection
	id, resource string
	limits       limits
	yes, json    bool
}

// addResource gives a command about limits of an entity the flag for which.
func (o *entityLimitsOptions) addResource(cmd *cobra.Command) {
	cmd.ValidArgsFunction = o.completeEntity
	cmd.Flags().StringVarP(&o.resource, "resource", "r", "", "`resource` that the limits are for (default: all that have none of their own)")
	_ = cmd.RegisterFlagCompletionFunc("resource", o.completeResources)
}

// addLimits gives a command the repeatable flag of a limit.
func addLimits(cmd *cobra.Command, target *limits, usage string) {
	cmd.Flags().VarP(target, "limit", "l", usage+"; may be repeated")
}

const limitHelp = `A limit is NAME:RATE[/[COUNT]UNIT][:BURST], where UNIT is sec, min, hour or day:
rpm:100 refills 100 a minute, tpm:10000/hour:15000 refills 10,000 an hour and
holds 15,000 that can be taken at once, and images:50/12hour refills 50 every
twelve hours. A period admits up to BURST + RATE.

With within in place of a burst, no period admits more than RATE, whenever it
begins: tpm:10000/min:within holds 1,000, a tenth, and refills 9,000 a minute;
tpm:10000/min:within=4000 holds 4,000. A request above that never fits.`

func newEntitySetLimits(conn *connection) *cobra.Command {
	o := entityLimitsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "set-limits ENTITY",
		Short: "Replace the limits of an entity",
		Long: `Replaces the limits that an entity has for a resource, or for all resources for
which it has none. The most specific level that holds limits gives all of them:
entity and resource, entity, resource, system.

` + limitHelp,
		Example: `  zae-limiter entity set-limits key-abc -r gpt-4 -l rpm:50 -l tpm:2000/min:3000
  zae-limiter entity set-limits key-abc -l rpm:1000/hour`,
		Args: arguments(entityArg(&o.id)),
		RunE: func(cmd *cobra.Command, _ []string) error { return runEntitySetLimits(cmd.Context(), o) },
	}
	o.addResource(cmd)
	addLimits(cmd, &o.limits, "a limit to set")
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
	return o.with(ctx, creates, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.SetLimits(ctx, o.id, resource, o.limits.all...); err != nil {
			return err
		}
		o.done("Set %s of %s %s: %s", count(len(o.limits.all), "limit"), ofResource(o.id, resource), o.where(), o.limits.text())
		return nil
	})
}

func newEntityGetLimits(conn *connection) *cobra.Command {
	o := entityLimitsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "get-limits ENTITY",
		Short: "Show the limits stored for an entity",
		Long: `Shows the limits that are stored for exactly this entity and resource, or for
the entity and all resources. "zae-limiter explain" shows those in force.`,
		Example: "  zae-limiter entity get-limits key-abc -r gpt-4",
		Args:    arguments(entityArg(&o.id)),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runEntityGetLimits(cmd.Context(), o) },
	}
	o.addResource(cmd)
	addJSON[limitShape](cmd, &o.json, anArray, limitColumns)
	return cmd
}

func runEntityGetLimits(ctx context.Context, o entityLimitsOptions) error {
	resource, err := orAllResources(o.resource)
	if err != nil {
		return err
	}
	return o.with(ctx, reads, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		stored, err := lim.Limits(ctx, o.id, resource)
		if err != nil {
			return err
		}
		return limitListing("No limits are stored of "+ofResource(o.id, resource)+".").print(o.console, o.json, each(stored))
	})
}

func newEntityDeleteLimits(conn *connection) *cobra.Command {
	o := entityLimitsOptions{connection: conn}
	cmd := &cobra.Command{
		Use:     "delete-limits ENTITY",
		Short:   "Delete the limits of an entity, so that the next level rules",
		Long:    "Deletes the limits that an entity has for a resource, or for all resources, so\nthat those of the next level rule.",
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
	return o.with(ctx, changes, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.DeleteLimits(ctx, o.id, resource); err != nil {
			return err
		}
		o.done("Deleted the limits of %s %s", which, o.where())
		return nil
	})
}

type namesOptions struct {
	*connection
	json bool
}

// resourceShape is a resource as JSON.
type resourceShape struct {
	Name string `json:"resource" doc:"its name; _default_ stands for all resources"`
}

var resourceColumns = []column{{title: "resource"}}

// orDefault names all resources.
func orDefault(resource string) string { return cmp.Or(resource, allResources) }

// printResources lists names, "" being all resources.
func (o namesOptions) printResources(names []string, nothing string) error {
	return listing[string]{
		resourceColumns,
		func(name string) []cell { return []cell{text(orDefault(name))} },
		func(name string) any { return resourceShape{orDefault(name)} },
		nothing,
	}.print(o.console, o.json, each(names))
}

func newEntityListResources(conn *connection) *cobra.Command {
	o := namesOptions{connection: conn}
	cmd := &cobra.Command{
		Use:     "list-resources",
		Short:   "List the resources for which some entity has limits of its own",
		Long:    "Lists the resources for which some entity has limits of its own, sorted;\n\"_default_\" stands for limits that an entity has for all resources.",
		Example: "  zae-limiter entity list-resources",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.with(cmd.Context(), reads, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
				names, err := lim.ResourcesWithLimits(cmd.Context())
				if err != nil {
					return err
				}
				return o.printResources(names, "No entity has limits of its own.")
			})
		},
	}
	addJSON[resourceShape](cmd, &o.json, anArray, resourceColumns)
	return cmd
}

var errNoLimitGiven = usagef("--limit is missing; %s", limitForms)
