package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

func newResource(c *console) *cobra.Command {
	conn := &connection{console: c}
	cmd := newGroup("resource", "Manage the default limits of resources",
		`Manage the default limits of resources, such as models, endpoints and queues.
They apply to every entity without limits of its own.`)

	conn.addNamespace(cmd)
	cmd.AddCommand(newResourceSet(conn), newResourceGet(conn), newResourceDelete(conn), newResourceList(conn),
		newResourceCapacity(conn), newResourceDisable(conn), newResourceEnable(conn))
	return cmd
}

type resourceOptions struct {
	*connection
	resource  string
	limits    limitFlags
	yes, json bool
}

func newResourceSet(conn *connection) *cobra.Command {
	o := resourceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "set-defaults RESOURCE",
		Short: "Set the default limits of a resource",
		Long: "Set the limits of a resource for entities without limits of their own. The " +
			"new\nlimits replace the stored ones.\n\n" + limitHelp,
		Example:           "  zae-limiter resource set-defaults gpt-4 -l rpm:100 -l tpm:10000/min:15000",
		Args:              arguments(resourceArg(&o.resource)),
		ValidArgsFunction: conn.completeResource,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runResourceSet(cmd.Context(), o) },
	}

	addLimits(cmd, &o.limits, "limit to set")
	conn.addPrincipal(cmd)
	return cmd
}

func runResourceSet(ctx context.Context, o resourceOptions) error {
	if len(o.limits.all) == 0 {
		return errNoLimitGiven
	}

	return o.withStore(ctx, accessCreate, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.SetResourceDefaults(ctx, o.resource, o.limits.all...); err != nil {
			return err
		}

		o.warnCents(o.limits.all)
		o.done("Set %s of resource %s %s: %s", count(len(o.limits.all), "default limit"), o.resource, o.location(),
			o.limits.describe())
		return nil
	})
}

func newResourceGet(conn *connection) *cobra.Command {
	o := resourceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:               "get-defaults RESOURCE",
		Aliases:           []string{"get"},
		Short:             "Show the default limits of a resource",
		Long:              "Show the limits of a resource for entities without limits of their own.",
		Example:           "  zae-limiter resource get-defaults gpt-4",
		Args:              arguments(resourceArg(&o.resource)),
		ValidArgsFunction: conn.completeResource,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withStore(cmd.Context(), accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
				stored, err := lim.ResourceDefaults(cmd.Context(), o.resource)
				if err != nil {
					return err
				}

				if err := o.warnSwitch(cmd.Context(), lim, limiter.Scope{Resource: o.resource}); err != nil {
					return err
				}

				return limitListing(
					"Resource "+o.resource+" has no default limits.",
				).print(o.console, o.json, each(stored))
			})
		},
	}

	addJSON[jsonview.Limit](cmd, &o.json, anArray, limitColumns)
	return cmd
}

func newResourceDelete(conn *connection) *cobra.Command {
	o := resourceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:               "delete-defaults RESOURCE",
		Aliases:           []string{"rm"},
		Short:             "Delete the default limits of a resource",
		Long:              "Delete the default limits of a resource. The defaults of the system apply then.",
		Example:           "  zae-limiter resource delete-defaults gpt-4 --yes",
		Args:              arguments(resourceArg(&o.resource)),
		ValidArgsFunction: conn.completeResource,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runResourceDelete(cmd.Context(), o) },
	}

	addYes(cmd, &o.yes)
	conn.addPrincipal(cmd)
	return cmd
}

func runResourceDelete(ctx context.Context, o resourceOptions) error {
	if err := o.confirm(ctx, o.yes, "Delete the default limits of resource "+o.resource); err != nil {
		return err
	}

	return o.withStore(ctx, accessChange, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.DeleteResourceDefaults(ctx, o.resource); err != nil {
			return err
		}
		o.done("Deleted the default limits of resource %s %s", o.resource, o.location())
		return nil
	})
}

func newResourceList(conn *connection) *cobra.Command {
	o := namesOptions{connection: conn}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the resources that have default limits",
		Long:    "List the resources that have default limits, sorted.",
		Example: "  zae-limiter resource list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withStore(cmd.Context(), accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
				names, err := lim.ResourcesWithDefaults(cmd.Context())
				if err != nil {
					return err
				}
				return o.printResources(cmd.Context(), lim, names, "No resource has default limits.")
			})
		},
	}

	addJSON[jsonview.Resource](cmd, &o.json, anArray, resourceColumns)
	return cmd
}
