package data

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

func newSystem(c *kit.Console) *cobra.Command {
	conn := &kit.Connection{Console: c}
	cmd := kit.NewGroup("system", "Manage the default limits of the system",
		`Manage the defaults of the system: the limits of all entities and resources
without limits of their own, and whether to block or allow requests when the
store is unavailable.`)

	conn.AddNamespace(cmd)
	cmd.AddCommand(newSystemSet(conn), newSystemGet(conn), newSystemDelete(conn), newSystemDisable(conn),
		newSystemEnable(conn))
	return cmd
}

type systemOptions struct {
	*kit.Connection
	limits    kit.LimitFlags
	mode      limiter.OnUnavailable
	yes, json bool
}

func newSystemSet(conn *kit.Connection) *cobra.Command {
	o := systemOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "set-defaults",
		Short: "Set the defaults of the system",
		Long: `Set the default limits of the system, or whether to block or allow requests when
the store is unavailable. What is not given stays as it is.

` + limitHelp,
		Example: `  zae-limiter system set-defaults -l rpm:60 -l tpm:5000
  zae-limiter system set-defaults --on-unavailable allow`,
		Args: kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSystemSet(cmd.Context(), o) },
	}

	kit.AddLimits(cmd, &o.limits, "limit to set")
	kit.AddMode(cmd, &o.mode, "allow or block when the store is unavailable")
	conn.AddPrincipal(cmd)
	return cmd
}

func runSystemSet(ctx context.Context, o systemOptions) error {
	if len(o.limits.All) == 0 && o.mode == "" {
		return kit.Usagef("--limit and --on-unavailable are both missing; %s", kit.LimitForms)
	}

	return o.WithStore(ctx, kit.Create, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.SetSystem(ctx, o.mode, o.limits.All...); err != nil {
			return err
		}

		if len(o.limits.All) > 0 {
			o.WarnCents(o.limits.All)
			o.Done("Set %s of the system %s: %s", kit.Count(len(o.limits.All), "default limit"), o.Location(),
				o.limits.Describe())
		}

		if o.mode != "" {
			o.Done("Set on_unavailable of the system %s: %s", o.Location(), o.mode)
		}
		return nil
	})
}

func newSystemGet(conn *kit.Connection) *cobra.Command {
	o := systemOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:     "get-defaults",
		Aliases: []string{"get"},
		Short:   "Show the defaults of the system",
		Long: "Show the default limits of the system, and whether requests are blocked or\nallowed when " +
			"the store is unavailable.",
		Example: "  zae-limiter system get-defaults",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runSystemGet(cmd.Context(), o) },
	}

	kit.AddJSON[jsonview.System](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

func runSystemGet(ctx context.Context, o systemOptions) error {
	return o.WithStore(ctx, kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		stored, mode, err := lim.SystemDefaults(ctx)
		if err != nil {
			return err
		}

		var properties []kit.Property
		for _, l := range stored {
			limit := kit.Cell{Display: kit.LimitText(l), Plain: kit.LimitWord(l)}
			properties = append(properties, kit.Property{Name: "limit", Value: limit})
		}

		if len(stored) == 0 && !o.json {
			o.Say("The system has no default limits.")
		}

		off, err := jsonview.ReadSwitch(ctx, lim, limiter.Scope{})
		if err != nil {
			return err
		}

		properties = append(properties, kit.Property{Name: "on_unavailable", Value: kit.Text(string(mode))})
		object := jsonview.NewSystem(stored, mode)
		if off != nil {
			properties = append(properties, switchProperties([]limiter.Switch{*off})...)
			object.Disabled = jsonview.SwitchOrNull(off)
		}
		return kit.PrintProperties(o.Console, o.json, properties, object)
	})
}

func newSystemDelete(conn *kit.Connection) *cobra.Command {
	o := systemOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:     "delete-defaults",
		Aliases: []string{"rm"},
		Short:   "Delete the defaults of the system",
		Long:    "Delete the default limits of the system, and its setting for outages.",
		Example: "  zae-limiter system delete-defaults --yes",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runSystemDelete(cmd.Context(), o) },
	}

	kit.AddYes(cmd, &o.yes)
	conn.AddPrincipal(cmd)
	return cmd
}

func runSystemDelete(ctx context.Context, o systemOptions) error {
	if err := o.Confirm(ctx, o.yes, "Delete the defaults of the system"); err != nil {
		return err
	}

	return o.WithStore(ctx, kit.Change, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.DeleteSystemDefaults(ctx); err != nil {
			return err
		}

		o.Done("Deleted the defaults of the system %s", o.Location())
		return nil
	})
}
