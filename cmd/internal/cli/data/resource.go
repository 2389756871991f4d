package data

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

func newResource(c *kit.Console) *cobra.Command {
	conn := &kit.Connection{Console: c}
	cmd := kit.NewGroup("resource", "Manage the default limits of resources",
		`Manage the default limits of resources, such as models, endpoints and queues.
They apply to every entity without limits of its own.`)

	conn.AddNamespace(cmd)
	cmd.AddCommand(newResourceSet(conn), newResourceGet(conn), newResourceDelete(conn), newResourceList(conn),
		newResourceCapacity(conn), newResourceDisable(conn), newResourceEnable(conn))
	return cmd
}

type resourceOptions struct {
	*kit.Connection
	resource  string
	limits    kit.LimitFlags
	yes, json bool
}

func newResourceSet(conn *kit.Connection) *cobra.Command {
	o := resourceOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "set-defaults RESOURCE",
		Short: "Set the default limits of a resource",
		Long: "Set the limits of a resource for entities without limits of their own. The " +
			"new\nlimits replace the stored ones.\n\n" + limitHelp,
		Example:           "  zae-limiter resource set-defaults gpt-4 -l rpm:100 -l tpm:10000/min:15000",
		Args:              kit.Arguments(resourceArg(&o.resource)),
		ValidArgsFunction: conn.CompleteResource,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runResourceSet(cmd.Context(), o) },
	}

	kit.AddLimits(cmd, &o.limits, "limit to set")
	conn.AddPrincipal(cmd)
	return cmd
}

func runResourceSet(ctx context.Context, o resourceOptions) error {
	if len(o.limits.All) == 0 {
		return errNoLimitGiven
	}

	return o.WithStore(ctx, kit.Create, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.SetResourceDefaults(ctx, o.resource, o.limits.All...); err != nil {
			return err
		}

		o.WarnCents(o.limits.All)
		o.Done("Set %s of resource %s %s: %s", kit.Count(len(o.limits.All), "default limit"), o.resource, o.Location(),
			o.limits.Describe())
		return nil
	})
}

func newResourceGet(conn *kit.Connection) *cobra.Command {
	o := resourceOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:               "get-defaults RESOURCE",
		Aliases:           []string{"get"},
		Short:             "Show the default limits of a resource",
		Long:              "Show the limits of a resource for entities without limits of their own.",
		Example:           "  zae-limiter resource get-defaults gpt-4",
		Args:              kit.Arguments(resourceArg(&o.resource)),
		ValidArgsFunction: conn.CompleteResource,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.WithStore(cmd.Context(), kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
				stored, err := lim.ResourceDefaults(cmd.Context(), o.resource)
				if err != nil {
					return err
				}

				off := limiter.Scope{Resource: o.resource}
				if err := warnSwitch(cmd.Context(), o.Connection, lim, off); err != nil {
					return err
				}

				return limitListing(
					"Resource "+o.resource+" has no default limits.",
				).Print(o.Console, o.json, kit.Each(stored))
			})
		},
	}

	kit.AddJSON[jsonview.Limit](cmd, &o.json, kit.AnArray, limitColumns)
	return cmd
}

func newResourceDelete(conn *kit.Connection) *cobra.Command {
	o := resourceOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:               "delete-defaults RESOURCE",
		Aliases:           []string{"rm"},
		Short:             "Delete the default limits of a resource",
		Long:              "Delete the default limits of a resource. The defaults of the system apply then.",
		Example:           "  zae-limiter resource delete-defaults gpt-4 --yes",
		Args:              kit.Arguments(resourceArg(&o.resource)),
		ValidArgsFunction: conn.CompleteResource,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runResourceDelete(cmd.Context(), o) },
	}

	kit.AddYes(cmd, &o.yes)
	conn.AddPrincipal(cmd)
	return cmd
}

func runResourceDelete(ctx context.Context, o resourceOptions) error {
	if err := o.Confirm(ctx, o.yes, "Delete the default limits of resource "+o.resource); err != nil {
		return err
	}

	return o.WithStore(ctx, kit.Change, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.DeleteResourceDefaults(ctx, o.resource); err != nil {
			return err
		}
		o.Done("Deleted the default limits of resource %s %s", o.resource, o.Location())
		return nil
	})
}

func newResourceList(conn *kit.Connection) *cobra.Command {
	o := namesOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the resources that have default limits",
		Long:    "List the resources that have default limits, sorted.",
		Example: "  zae-limiter resource list",
		Args:    kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.WithStore(cmd.Context(), kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
				names, err := lim.ResourcesWithDefaults(cmd.Context())
				if err != nil {
					return err
				}
				return o.printResources(cmd.Context(), lim, names, "No resource has default limits.")
			})
		},
	}

	kit.AddJSON[jsonview.Resource](cmd, &o.json, kit.AnArray, resourceColumns)
	return cmd
}

type capacityOptions struct {
	*kit.Connection
	query limiter.CapacityQuery
	json  bool
}

func newResourceCapacity(conn *kit.Connection) *cobra.Command {
	o := capacityOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "capacity RESOURCE LIMIT",
		Short: "Show one limit of a resource across all entities",
		Long: `Show what each entity with a bucket has used and has left of one limit of a
resource, and on stderr the totals.`,
		Example: "  zae-limiter resource capacity gpt-4 tpm\n  zae-limiter resource capacity gpt-4 " +
			"tpm --parents-only",
		Args:              kit.Arguments(resourceArg(&o.query.Resource), limitArg(&o.query.Limit)),
		ValidArgsFunction: conn.CompleteResource,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runResourceCapacity(cmd.Context(), o) },
	}

	cmd.Flags().BoolVar(&o.query.ParentsOnly, "parents-only", false, "omit children and entities without a record")
	kit.AddJSON[jsonview.Status](cmd, &o.json, kit.AnArray, capacityColumns)
	return cmd
}

func limitArg(target *string) kit.Argument {
	return kit.Argument{Name: "LIMIT", Set: func(s string) error {
		*target = s
		// Only a whole limit can be validated, so its capacity is a
		// placeholder.
		return limiter.PerMinute(s, 1).Validate()
	}}
}

func runResourceCapacity(ctx context.Context, o capacityOptions) error {
	return o.WithStore(ctx, kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		sum, err := lim.Capacity(ctx, o.query)
		if err != nil {
			return err
		}

		nothing := fmt.Sprintf("No entity has a bucket of %s with a limit %s.", o.query.Resource, o.query.Limit)
		if err := capacityListing(o.Console, nothing).Print(
			o.Console, o.json, kit.Each(statusRows(sum.Entities, nil)),
		); err != nil {
			return err
		}

		if len(sum.Entities) > 0 {
			o.Say("%s: %s of %s available, %.1f %% missing", kit.Count(len(sum.Entities), "bucket"),
				tty.Amount(sum.Limit, sum.Available), tty.Amount(sum.Limit, sum.Total), sum.Utilization())
		}
		return nil
	})
}

// capacityColumns are the columns of a capacity. What each entity used is left out,
// since it takes a read for each.
var capacityColumns = withoutUsed(statusColumns)

func capacityListing(c *kit.Console, nothing string) kit.Listing[statusRow] {
	list := statusListing(c, nothing)
	row := list.Row
	list.Columns, list.Row = capacityColumns, func(r statusRow) []kit.Cell { return withoutUsed(row(r)) }
	return list
}

// withoutUsed returns a copy of the columns or cells of a status without what was
// used.
func withoutUsed[T any](all []T) []T {
	// Cells have the order of the columns.
	at := slices.IndexFunc(statusColumns, func(c kit.Column) bool { return c.Title == "used" })
	return slices.Delete(slices.Clone(all), at, at+1)
}
