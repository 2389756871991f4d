package data

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/memory"
)

// switchOptions holds the options of disable and enable.
type switchOptions struct {
	*kit.Connection
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
	kit.AddFlag(cmd, &o.reason, "reason", "text", "", "why, for people and the audit trail", parseReason)
	kit.AddYes(cmd, &o.yes)
	o.AddPrincipal(cmd)
	return cmd
}

// addEnable completes a command that enables the scope of its arguments.
func (o *switchOptions) addEnable(cmd *cobra.Command) *cobra.Command {
	cmd.Long += "\nOther disabled levels stay so. The exit code is 1 if it is not disabled."
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runEnable(cmd.Context(), *o) }
	o.AddPrincipal(cmd)
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
			return kit.Usagef("%v", err)
		}
	}
	return nil
}

func runDisable(ctx context.Context, o switchOptions) error {
	if err := o.checkScope(); err != nil {
		return err
	}

	if err := o.Confirm(ctx, o.yes, "Disable "+o.of.String()+", so that its calls fail"); err != nil {
		return err
	}

	return o.WithStore(ctx, kit.Change, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		if err := lim.Disable(ctx, o.of, o.reason); err != nil {
			return err
		}

		o.Done("Disabled %s %s", o.of, o.Location())

		// The buckets of an entity carry a mark, so other processes see its
		// switch at once.
		if s, err := o.SelectStore(); err == nil && s.Dynamo && o.of.Entity == "" {
			o.Say("Other processes follow within a minute.")
		}

		return nil
	})
}

func runEnable(ctx context.Context, o switchOptions) error {
	if err := o.checkScope(); err != nil {
		return err
	}

	return o.WithStore(ctx, kit.Change, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		err := lim.Enable(ctx, o.of)
		if errors.Is(err, limiter.ErrNotFound) {
			return fmt.Errorf("%s is not disabled; %s lists what is", o.of, o.Suggestion("switches"))
		}
		if err != nil {
			return err
		}

		o.Done("Enabled %s %s", o.of, o.Location())
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
			o.Warn("%s is still disabled, and refuses the same calls", s.Scope)
		}
	}
	return nil
}

func newSwitches(c *kit.Console) *cobra.Command {
	o := namesOptions{Connection: &kit.Connection{Console: c}}
	cmd := &cobra.Command{
		Use:   "switches",
		Short: "List what is disabled",
		Long: `List the levels that are disabled, by entity, then resource, with the reason and
the time. A level is an entity, a resource, both together, or everything. The
commands disable and enable of entity, resource and system change them.

` + kit.StoreHelp,
		Example: "  zae-limiter switches\n  zae-limiter switches --json",
		Args:    kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.WithStore(cmd.Context(), kit.Read, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
				return switchListing("Nothing is disabled.").Print(o.Console, o.json, lim.Switches(cmd.Context()))
			})
		},
	}

	o.AddNamespace(cmd)
	kit.AddJSON[jsonview.Switch](cmd, &o.json, kit.AnArray, switchColumns)
	return cmd
}

var switchColumns = []kit.Column{
	{Title: "level", Whole: true},
	{Title: "entity"},
	{Title: "resource"},
	{Title: "since", Whole: true},
	{Title: "reason"},
}

// switchLevel returns the cell of a level that is off. In a table, the columns of
// entity and resource tell the levels of an entity apart.
func switchLevel(of limiter.Scope) kit.Cell {
	shown := source(of.Level())
	if of.Entity != "" {
		shown.Display = "entity"
	}
	return shown
}

func switchListing(nothing string) kit.Listing[limiter.Switch] {
	return kit.Listing[limiter.Switch]{
		Columns: switchColumns,
		Row: func(s limiter.Switch) []kit.Cell {
			return []kit.Cell{
				switchLevel(s.Scope), kit.Text(s.Scope.Entity), kit.Text(s.Scope.Resource), kit.Moment(s.Since),
				kit.Text(s.Reason),
			}
		},
		Object:  func(s limiter.Switch) any { return jsonview.NewSwitch(s) },
		Nothing: nothing,
	}
}

// warnSwitch reports on stderr that a level is off.
func warnSwitch(ctx context.Context, conn *kit.Connection, lim *limiter.RateLimiter, of limiter.Scope) error {
	off, err := jsonview.ReadSwitch(ctx, lim, of)
	if off != nil {
		warnSwitches(conn.Console, []limiter.Switch{*off})
	}
	return err
}

// offColumn marks buckets whose calls a disabled level refuses.
var offColumn = kit.Column{Title: "disabled", Whole: true, Keep: true, Extra: true}

// offCell returns the cell of offColumn.
func offCell(off *limiter.Switch) kit.Cell {
	if off == nil {
		return kit.Text("")
	}
	return kit.YesNo(true)
}

// warnSwitches reports levels that are off on stderr.
func warnSwitches(c *kit.Console, off []limiter.Switch) {
	for _, s := range off {
		c.Warn("%v", s.Refuse("", ""))
	}
}

// addEntityScope adds the flag --resource to a command that disables or enables an
// entity.
func (o *switchOptions) addEntityScope(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = kit.Arguments(entityArg(&o.of.Entity)), o.CompleteEntity
	cmd.Flags().StringVarP(&o.of.Resource, "resource", "r", "", "only this `resource` (default: all resources)")
	_ = cmd.RegisterFlagCompletionFunc("resource", o.CompleteResources)
	return cmd
}

func newEntityDisable(conn *kit.Connection) *cobra.Command {
	o := &switchOptions{Connection: conn}
	return o.addDisable(o.addEntityScope(&cobra.Command{
		Use:   "disable ENTITY",
		Short: "Refuse all calls of an entity",
		Long: `Disable an entity for all resources, or for one with --resource. Its children
that cascade to it are refused too. If it is disabled already, the reason is
replaced. Deleting the entity does not enable it.`,
		Example: `  zae-limiter entity disable key-abc --reason "leaked on 31 January"
  zae-limiter entity disable key-abc -r gpt-4 --yes`,
	}))
}

func newEntityEnable(conn *kit.Connection) *cobra.Command {
	o := &switchOptions{Connection: conn}
	return o.addEnable(o.addEntityScope(&cobra.Command{
		Use:     "enable ENTITY",
		Short:   "Admit calls of an entity again",
		Long:    `Enable an entity, or with --resource an entity and a resource.`,
		Example: "  zae-limiter entity enable key-abc\n  zae-limiter entity enable key-abc -r gpt-4",
	}))
}

func newResourceDisable(conn *kit.Connection) *cobra.Command {
	o := &switchOptions{Connection: conn}
	return o.addDisable(&cobra.Command{
		Use:               "disable RESOURCE",
		Short:             "Refuse all calls for a resource",
		Long:              "Disable a resource for all entities. If it is disabled already, the reason is\nreplaced.",
		Example:           `  zae-limiter resource disable gpt-4 --reason "outage of the provider"`,
		Args:              kit.Arguments(resourceArg(&o.of.Resource)),
		ValidArgsFunction: conn.CompleteResource,
	})
}

func newResourceEnable(conn *kit.Connection) *cobra.Command {
	o := &switchOptions{Connection: conn}
	return o.addEnable(&cobra.Command{
		Use:               "enable RESOURCE",
		Short:             "Admit calls for a resource again",
		Long:              `Enable a resource for all entities.`,
		Example:           "  zae-limiter resource enable gpt-4",
		Args:              kit.Arguments(resourceArg(&o.of.Resource)),
		ValidArgsFunction: conn.CompleteResource,
	})
}

func newSystemDisable(conn *kit.Connection) *cobra.Command {
	o := &switchOptions{Connection: conn}
	return o.addDisable(&cobra.Command{
		Use:     "disable",
		Short:   "Refuse all calls",
		Long:    "Disable everything in the namespace. If it is disabled already, the reason is\nreplaced.",
		Example: `  zae-limiter system disable --reason "maintenance"`,
		Args:    kit.NoArgs,
	})
}

func newSystemEnable(conn *kit.Connection) *cobra.Command {
	o := &switchOptions{Connection: conn}
	return o.addEnable(&cobra.Command{
		Use:     "enable",
		Short:   "Admit calls again",
		Long:    `Enable the namespace again.`,
		Example: "  zae-limiter system enable",
		Args:    kit.NoArgs,
	})
}
