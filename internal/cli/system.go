package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
)

func newSystem(c *console) *cobra.Command {
	conn := &connection{console: c}
	cmd := group("system", "Look at and change the limits of everything that has no others",
		`The defaults of the system hold for every entity and resource without others,
and say what an outage of the store means: to block, or to allow.`)
	conn.addNamespace(cmd)
	cmd.AddCommand(newSystemSet(conn), newSystemGet(conn), newSystemDelete(conn))
	return cmd
}

type systemOptions struct {
	*connection
	limits    limits
	mode      limiter.OnUnavailable
	yes, json bool
}

func newSystemSet(conn *connection) *cobra.Command {
	o := systemOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "set-defaults",
		Short: "Replace the defaults of the system, or what an outage means",
		Long: `Replaces the limits of everything that has no others, and what an outage of the
store means. What is not given stays as it is stored.

` + limitHelp,
		Example: `  zae-limiter system set-defaults -l rpm:60 -l tpm:5000
  zae-limiter system set-defaults --on-unavailable allow`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSystemSet(cmd.Context(), o) },
	}
	addLimits(cmd, &o.limits, "a limit to set")
	addMode(cmd, &o.mode, "what an outage of the store means: allow or block")
	conn.addPrincipal(cmd)
	return cmd
}

// addMode gives a command the flag for what an outage means.
func addMode(cmd *cobra.Command, target *limiter.OnUnavailable, usage string) {
	const name = "on-unavailable"
	addFlag(cmd, target, name, "mode", "", usage, choice(limiter.Allow, limiter.Block))
	_ = cmd.RegisterFlagCompletionFunc(name, complete(limiter.Allow, limiter.Block))
}

func runSystemSet(ctx context.Context, o systemOptions) error {
	if len(o.limits.all) == 0 && o.mode == "" {
		return usagef("--limit and --on-unavailable are both missing; %s", limitForms)
	}
	return o.with(ctx, creates, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.SetSystem(ctx, o.mode, o.limits.all...); err != nil {
			return err
		}
		if len(o.limits.all) > 0 {
			o.done("Set %s of the system %s: %s", count(len(o.limits.all), "default limit"), o.where(), o.limits.text())
		}
		if o.mode != "" {
			o.done("Set on_unavailable of the system %s: %s", o.where(), o.mode)
		}
		return nil
	})
}

// systemShape are the defaults of the system as JSON.
type systemShape struct {
	Limits        []limitShape `json:"limits" doc:"each with name, capacity, refill_amount and refill_period_seconds"`
	OnUnavailable *string      `json:"on_unavailable" doc:"what an outage means: block or allow"`
}

func newSystemGet(conn *connection) *cobra.Command {
	o := systemOptions{connection: conn}
	cmd := &cobra.Command{
		Use:     "get-defaults",
		Aliases: []string{"get"},
		Short:   "Show the defaults of the system",
		Long:    "Shows the limits of everything that has no others, and what an outage of the\nstore means.",
		Example: "  zae-limiter system get-defaults",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runSystemGet(cmd.Context(), o) },
	}
	addJSON[systemShape](cmd, &o.json, anObject, nil)
	return cmd
}

func runSystemGet(ctx context.Context, o systemOptions) error {
	return o.with(ctx, reads, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		stored, mode, err := lim.SystemDefaults(ctx)
		if err != nil {
			return err
		}
		var facts []fact
		for _, l := range stored {
			facts = append(facts, fact{"limit", cell{people: limitText(l), program: limitWord(l)}})
		}
		if len(stored) == 0 && !o.json {
			o.say("The system has no default limits.")
		}
		facts = append(facts, fact{"on_unavailable", text(string(mode))})
		return printFacts(o.console, o.json, facts, systemShape{limitObjects(stored), orNull(string(mode))})
	})
}

func newSystemDelete(conn *connection) *cobra.Command {
	o := systemOptions{connection: conn}
	cmd := &cobra.Command{
		Use:     "delete-defaults",
		Aliases: []string{"rm"},
		Short:   "Delete the defaults of the system",
		Long:    "Deletes the default limits of the system, and what an outage means.",
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
	return o.with(ctx, changes, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.DeleteSystemDefaults(ctx); err != nil {
			return err
		}
		o.done("Deleted the defaults of the system %s", o.where())
		return nil
	})
}
