package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/memory"
)

// switchOptions holds the options of disable and enable.
type switchOptions struct {
	*connection
	of     limiter.Scope
	reason string
	yes    bool
}

const switchHelp = `Calls that a level concerns fail until it is enabled again: the exit code of
acquire is 5. No limit overrides this. Leases that are open can still settle.
This process and the buckets of an entity see it at once, others when their
caches expire, by default within a minute. If a busy table keeps buckets from
being marked, the exit code is 1 and the message names them: the level is
disabled, and the same command marks the rest. Services that use the Python
library do not know it.`

// addDisable completes a command that disables the scope of its arguments.
func (o *switchOptions) addDisable(cmd *cobra.Command) *cobra.Command {
	cmd.Long += "\n\n" + switchHelp
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runDisable(cmd.Context(), *o) }
	addFlag(cmd, &o.reason, "reason", "text", "", "why, for people and the audit trail", parseReason)
	addYes(cmd, &o.yes)
	o.addPrincipal(cmd)
	return cmd
}

// addEnable completes a command that enables the scope of its arguments.
func (o *switchOptions) addEnable(cmd *cobra.Command) *cobra.Command {
	cmd.Long += "\nOther disabled levels stay so. The exit code is 1 if it is not disabled."
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runEnable(cmd.Context(), *o) }
	o.addPrincipal(cmd)
	return cmd
}

// parseReason checks a reason as the limiter does.
func parseReason(reason string) (string, error) {
	// Only a limiter checks a reason, and disabling a level of an empty store
	// has no other effect.
	lim, err := limiter.New(memory.New(nil), nil)
	if err == nil {
		err = lim.Disable(context.Background(), limiter.Scope{}, reason)
	}
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return "", errors.New(bad.Reason)
	}
	return reason, err
}

// checkScope checks the resource of a flag.
func (o *switchOptions) checkScope() error {
	if o.of.Resource != "" {
		if err := checkResource(o.of.Resource); err != nil {
			return usagef("%v", err)
		}
	}
	return nil
}

func runDisable(ctx context.Context, o switchOptions) error {
	if err := o.checkScope(); err != nil {
		return err
	}

	if err := o.confirm(ctx, o.yes, "Disable "+o.of.String()+", so that its calls fail"); err != nil {
		return err
	}

	return o.withStore(ctx, accessChange, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.Disable(ctx, o.of, o.reason); err != nil {
			return err
		}

		o.done("Disabled %s %s", o.of, o.location())

		// The buckets of an entity carry a mark, so other processes see its
		// switch at once.
		if s, err := o.selectStore(); err == nil && s.dynamo && o.of.Entity == "" {
			o.say("Other processes follow within a minute.")
		}

		return nil
	})
}

func runEnable(ctx context.Context, o switchOptions) error {
	if err := o.checkScope(); err != nil {
		return err
	}

	return o.withStore(ctx, accessChange, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		err := lim.Enable(ctx, o.of)
		if errors.Is(err, limiter.ErrNotFound) {
			return fmt.Errorf("%s is not disabled; %s lists what is", o.of, o.suggestion("switches"))
		}
		if err != nil {
			return err
		}

		o.done("Enabled %s %s", o.of, o.location())
		return o.warnStillOff(ctx, lim)
	})
}

// warnStillOff warns about other levels that still refuse calls of the scope.
func (o *switchOptions) warnStillOff(ctx context.Context, lim *limiter.RateLimiter) error {
	for s, err := range lim.Switches(ctx) {
		if err != nil {
			return err
		}

		// A scope without an entity or a resource concerns all of them.
		wider := (s.Scope.Entity == "" || s.Scope.Entity == o.of.Entity) && (s.Scope.Resource == "" ||
			s.Scope.Resource == o.of.Resource)
		if wider {
			o.warn("%s is still disabled, and refuses the same calls", s.Scope)
		}
	}
	return nil
}

func newSwitches(c *console) *cobra.Command {
	o := namesOptions{connection: &connection{console: c}}
	cmd := &cobra.Command{
		Use:   "switches",
		Short: "List what is disabled",
		Long: `List the levels that are disabled, by entity, then resource, with the reason and
the time. A level is an entity, a resource, both together, or everything. The
commands disable and enable of entity, resource and system change them.

` + storeHelp,
		Example: "  zae-limiter switches\n  zae-limiter switches --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withStore(cmd.Context(), accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
				return switchListing("Nothing is disabled.").print(o.console, o.json, lim.Switches(cmd.Context()))
			})
		},
	}

	o.addNamespace(cmd)
	addJSON[jsonview.Switch](cmd, &o.json, anArray, switchColumns)
	return cmd
}

var switchColumns = []column{
	{title: "level", whole: true},
	{title: "entity"},
	{title: "resource"},
	{title: "since", whole: true},
	{title: "reason"},
}

// switchLevel returns the cell of a level that is off. In a table, the columns of
// entity and resource tell the levels of an entity apart.
func switchLevel(of limiter.Scope) cell {
	shown := source(of.Level())
	if of.Entity != "" {
		shown.display = "entity"
	}
	return shown
}

func switchListing(nothing string) listing[limiter.Switch] {
	return listing[limiter.Switch]{
		switchColumns,
		func(s limiter.Switch) []cell {
			return []cell{
				switchLevel(s.Scope), text(s.Scope.Entity), text(s.Scope.Resource), moment(s.Since),
				text(s.Reason),
			}
		},
		func(s limiter.Switch) any { return jsonview.NewSwitch(s) },
		nothing,
	}
}

// warnSwitch reports on stderr that a level is off.
func (conn *connection) warnSwitch(ctx context.Context, lim *limiter.RateLimiter, of limiter.Scope) error {
	off, err := jsonview.ReadSwitch(ctx, lim, of)
	if off != nil {
		conn.warnSwitches([]limiter.Switch{*off})
	}
	return err
}

// offColumn marks buckets whose calls a disabled level refuses.
var offColumn = column{title: "disabled", whole: true, keep: true, extra: true}

// offCell returns the cell of offColumn.
func offCell(off *limiter.Switch) cell {
	if off == nil {
		return text("")
	}
	return yesNo(true)
}

// warnSwitches reports levels that are off on stderr.
func (c *console) warnSwitches(off []limiter.Switch) {
	for _, s := range off {
		c.warn("%v", s.Refuse("", ""))
	}
}
