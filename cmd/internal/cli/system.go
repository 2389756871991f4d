package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

func newSystem(c *console) *cobra.Command {
	conn := &connection{console: c}
	cmd := newGroup("system", "Manage the default limits of the system",
		`Manage the defaults of the system: the limits of all entities and resources
without limits of their own, and whether to block or allow requests when the
store is unavailable.`)

	conn.addNamespace(cmd)
	cmd.AddCommand(newSystemSet(conn), newSystemGet(conn), newSystemDelete(conn), newSystemDisable(conn),
		newSystemEnable(conn))
	return cmd
}

type systemOptions struct {
	*connection
	limits    limitFlags
	mode      limiter.OnUnavailable
	yes, json bool
}

func newSystemSet(conn *connection) *cobra.Command {
	o := systemOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "set-defaults",
		Short: "Set the defaults of the system",
		Long: `Set the default limits of the system, or whether to block or allow requests when
the store is unavailable. What is not given stays as it is.

` + limitHelp,
		Example: `  zae-limiter system set-defaults -l rpm:60 -l tpm:5000
  zae-limiter system set-defaults --on-unavailable allow`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSystemSet(cmd.Context(), o) },
	}

	addLimits(cmd, &o.limits, "limit to set")
	addMode(cmd, &o.mode, "allow or block when the store is unavailable")
	conn.addPrincipal(cmd)
	return cmd
}

// addMode adds the flag --on-unavailable.
func addMode(cmd *cobra.Command, target *limiter.OnUnavailable, usage string) {
	const name = "on-unavailable"
	addFlag(cmd, target, name, "mode", "", usage, oneOf(limiter.Allow, limiter.Block))
	_ = cmd.RegisterFlagCompletionFunc(name, completeWords(limiter.Allow, limiter.Block))
}

func runSystemSet(ctx context.Context, o systemOptions) error {
	if len(o.limits.all) == 0 && o.mode == "" {
		return usagef("--limit and --on-unavailable are both missing; %s", limitForms)
	}

	return o.withStore(ctx, accessCreate, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.SetSystem(ctx, o.mode, o.limits.all...); err != nil {
			return err
		}

		if len(o.limits.all) > 0 {
			o.warnCents(o.limits.all)
			o.done("Set %s of the system %s: %s", count(len(o.limits.all), "default limit"), o.location(),
				o.limits.describe())
		}

		if o.mode != "" {
			o.done("Set on_unavailable of the system %s: %s", o.location(), o.mode)
		}
		return nil
	})
}

func newSystemGet(conn *connection) *cobra.Command {
	o := systemOptions{connection: conn}
	cmd := &cobra.Command{
		Use:     "get-defaults",
		Aliases: []string{"get"},
		Short:   "Show the defaults of the system",
		Long: "Show the default limits of the system, and whether requests are blocked or\nallowed when " +
			"the store is unavailable.",
		Example: "  zae-limiter system get-defaults",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runSystemGet(cmd.Context(), o) },
	}

	addJSON[jsonview.System](cmd, &o.json, anObject, nil)
	return cmd
}

func runSystemGet(ctx context.Context, o systemOptions) error {
	return o.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		stored, mode, err := lim.SystemDefaults(ctx)
		if err != nil {
			return err
		}

		var properties []property
		for _, l := range stored {
			properties = append(properties, property{"limit", cell{display: limitText(l), plain: limitWord(l)}})
		}

		if len(stored) == 0 && !o.json {
			o.say("The system has no default limits.")
		}

		off, err := jsonview.ReadSwitch(ctx, lim, limiter.Scope{})
		if err != nil {
			return err
		}

		properties = append(properties, property{"on_unavailable", text(string(mode))})
		object := jsonview.NewSystem(stored, mode)
		if off != nil {
			properties = append(properties, switchProperties([]limiter.Switch{*off})...)
			object.Disabled = jsonview.SwitchOrNull(off)
		}
		return printProperties(o.console, o.json, properties, object)
	})
}

func newSystemDelete(conn *connection) *cobra.Command {
	o := systemOptions{connection: conn}
	cmd := &cobra.Command{
		Use:     "delete-defaults",
		Aliases: []string{"rm"},
		Short:   "Delete the defaults of the system",
		Long:    "Delete the default limits of the system, and its setting for outages.",
		Example: "  zae-limiter system delete-defaults --yes",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runSystemDelete(cmd.Context(), o) },
	}

	addYes(cmd, &o.yes)
	conn.addPrincipal(cmd)
	return cmd
}

func runSystemDelete(ctx context.Context, o systemOptions) error {
	if err := o.confirm(ctx, o.yes, "Delete the defaults of the system"); err != nil {
		return err
	}

	return o.withStore(ctx, accessChange, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.DeleteSystemDefaults(ctx); err != nil {
			return err
		}

		o.done("Deleted the defaults of the system %s", o.location())
		return nil
	})
}
