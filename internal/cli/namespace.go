package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

func newNamespace(c *console) *cobra.Command {
	conn := &connection{console: c}
	cmd := group("namespace", "Register, delete, recover and purge namespaces",
		`A namespace separates tenants of one store. Deleting one makes its name free and
keeps its data under its id, from where it can be recovered, or purged.`)
	conn.addStore(cmd)
	cmd.AddCommand(
		newNamespaceRegister(conn), newNamespaceList(conn), newNamespaceShow(conn), newNamespaceDelete(conn),
		newNamespaceRecover(conn), newNamespaceOrphans(conn), newNamespacePurge(conn),
	)
	return cmd
}

// about lends the store itself, not one of its namespaces.
func (conn *connection) about(ctx context.Context, o opening, do func(*limiter.RateLimiter) error) error {
	repo, err := conn.openAs(ctx, o)
	if err != nil {
		return err
	}
	return conn.lend(repo, func(lim *limiter.RateLimiter, _ limiter.Repository) error { return do(lim) })
}

// namespaceShape is a namespace as JSON.
type namespaceShape struct {
	Name      string     `json:"name" doc:"which may be registered again once it is deleted"`
	ID        string     `json:"namespace_id" doc:"which stays"`
	Status    string     `json:"status" doc:"active, deleted or purging"`
	CreatedAt *time.Time `json:"created_at" doc:"when it was registered"`
	DeletedAt *time.Time `json:"deleted_at" doc:"when it was deleted"`
}

func namespaceObject(n limiter.Namespace) namespaceShape {
	return namespaceShape{n.Name, n.ID, stateOf(n), timeOrNull(n.CreatedAt), timeOrNull(n.DeletedAt)}
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func stateOf(n limiter.Namespace) string {
	switch {
	case n.Purging:
		return "purging"
	case !n.DeletedAt.IsZero():
		return "deleted"
	}
	return "active"
}

var namespaceColumns = []column{
	{title: "name"}, {title: "namespace id", whole: true}, {title: "status", whole: true}, {title: "created", whole: true}, {title: "deleted", whole: true},
}

func namespaceListing(nothing string) listing[limiter.Namespace] {
	return listing[limiter.Namespace]{
		namespaceColumns,
		func(n limiter.Namespace) []cell {
			return []cell{text(n.Name), text(n.ID), text(stateOf(n)), moment(n.CreatedAt), moment(n.DeletedAt)}
		},
		func(n limiter.Namespace) any { return namespaceObject(n) },
		nothing,
	}
}

type namespaceOptions struct {
	*connection
	names     []string // of register
	name, id  string
	yes, json bool
}

func newNamespaceRegister(conn *connection) *cobra.Command {
	o := namespaceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "register NAME...",
		Short: "Register namespaces, and print their ids",
		Long: `Registers one or more names and prints their ids. A name that is active already
is printed as it is. All names are judged before the first is registered.`,
		Example: "  zae-limiter namespace register tenant-a tenant-b",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("NAME is missing; usage: %s", cmd.UseLine())
			}
			for _, name := range args {
				if err := (limiter.Namespace{Name: name}).Validate(); err != nil {
					return usagef("%v", err)
				}
			}
			o.names = args
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runNamespaceRegister(cmd.Context(), o) },
	}
	addJSON[namespaceShape](cmd, &o.json, anArray, namespaceColumns)
	return cmd
}

func runNamespaceRegister(ctx context.Context, o namespaceOptions) error {
	return o.about(ctx, opening{access: creates}, func(lim *limiter.RateLimiter) error {
		registered, err := lim.RegisterNamespaces(ctx, o.names...)
		if len(registered) > 0 {
			names := make([]string, len(registered))
			for i, n := range registered {
				names[i] = n.Name
			}
			o.done("Registered %s %s", strings.Join(names, ", "), o.where())
		}
		return errors.Join(namespaceListing("").print(o.console, o.json, each(registered)), err)
	})
}

// namespaces are those of the store for which keep is true.
func namespaces(ctx context.Context, lim *limiter.RateLimiter, keep func(state string) bool) iter.Seq2[limiter.Namespace, error] {
	return func(yield func(limiter.Namespace, error) bool) {
		for n, err := range lim.Namespaces(ctx) {
			if (err != nil || keep(stateOf(n))) && !yield(n, err) {
				return
			}
		}
	}
}

func isActive(state string) bool { return state == "active" }

func newNamespaceList(conn *connection) *cobra.Command {
	o := namespaceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the active namespaces",
		Long:    "Lists the active namespaces, by name. \"zae-limiter namespace orphans\" lists the\ndeleted ones.",
		Example: "  zae-limiter namespace list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runNamespaceList(cmd.Context(), o, isActive, "There are no namespaces.")
		},
	}
	addJSON[namespaceShape](cmd, &o.json, anArray, namespaceColumns)
	return cmd
}

func newNamespaceOrphans(conn *connection) *cobra.Command {
	o := namespaceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "orphans",
		Short: "List the namespaces that were deleted, or whose purge did not end",
		Long: `Lists the namespaces that were deleted and can be recovered or purged, and those
whose purge was interrupted and can be finished by another.`,
		Example: "  zae-limiter namespace orphans",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runNamespaceList(cmd.Context(), o, func(state string) bool { return !isActive(state) }, "There are no deleted namespaces.")
		},
	}
	addJSON[namespaceShape](cmd, &o.json, anArray, namespaceColumns)
	return cmd
}

func runNamespaceList(ctx context.Context, o namespaceOptions, keep func(string) bool, nothing string) error {
	return o.about(ctx, opening{access: reads}, func(lim *limiter.RateLimiter) error {
		return namespaceListing(nothing).print(o.console, o.json, namespaces(ctx, lim, keep))
	})
}

func newNamespaceShow(conn *connection) *cobra.Command {
	o := namespaceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:               "show NAME",
		Aliases:           []string{"get"},
		Short:             "Show an active namespace",
		Long:              "Shows the id of an active namespace, and when it was registered.",
		Example:           "  zae-limiter namespace show tenant-a",
		Args:              arguments(argument{"NAME", func(s string) error { o.name = s; return nil }}),
		ValidArgsFunction: firstOf(conn.completeNamespaces),
		RunE:              func(cmd *cobra.Command, _ []string) error { return runNamespaceShow(cmd.Context(), o) },
	}
	addJSON[namespaceShape](cmd, &o.json, anObject, nil)
	return cmd
}

func runNamespaceShow(ctx context.Context, o namespaceOptions) error {
	return o.about(ctx, opening{access: reads}, func(lim *limiter.RateLimiter) error {
		for n, err := range namespaces(ctx, lim, isActive) {
			if err != nil {
				return err
			}
			if n.Name == o.name {
				return printFacts(o.console, o.json, []fact{
					{"namespace", text(n.Name)}, {"namespace id", text(n.ID)}, {"status", text(stateOf(n))}, {"created", moment(n.CreatedAt)},
				}, namespaceObject(n))
			}
		}
		return fmt.Errorf("namespace %q: %w", clip(o.name), limiter.ErrNotFound)
	})
}

func newNamespaceDelete(conn *connection) *cobra.Command {
	o := namespaceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:               "delete NAME",
		Aliases:           []string{"rm"},
		Short:             "Delete a namespace; its data stay until they are purged",
		Long:              "Makes the name of a namespace free. Its data stay under its id, which\n\"zae-limiter namespace orphans\" lists, until they are recovered or purged.",
		Example:           "  zae-limiter namespace delete tenant-a --yes",
		Args:              arguments(argument{"NAME", func(s string) error { o.name = s; return nil }}),
		ValidArgsFunction: firstOf(conn.completeNamespaces),
		RunE:              func(cmd *cobra.Command, _ []string) error { return runNamespaceDelete(cmd.Context(), o) },
	}
	addYes(cmd, &o.yes)
	return cmd
}

func runNamespaceDelete(ctx context.Context, o namespaceOptions) error {
	if err := o.confirm(ctx, o.yes, "Delete namespace "+o.name+", whose data stay until they are purged"); err != nil {
		return err
	}
	return o.about(ctx, opening{access: changes}, func(lim *limiter.RateLimiter) error {
		if err := lim.DeleteNamespace(ctx, o.name); err != nil {
			return err
		}
		o.done("Deleted namespace %s %s; recover or purge it by its id", o.name, o.where())
		return nil
	})
}

func newNamespaceRecover(conn *connection) *cobra.Command {
	o := namespaceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:               "recover ID",
		Short:             "Make a deleted namespace active again",
		Long:              "Makes a deleted namespace active again, under its old name, with all its data.",
		Example:           "  zae-limiter namespace recover Xq3vT9aBc2Y",
		Args:              arguments(argument{"ID", func(s string) error { o.id = s; return nil }}),
		ValidArgsFunction: firstOf(conn.completeOrphans),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.about(cmd.Context(), opening{access: changes}, func(lim *limiter.RateLimiter) error {
				n, err := lim.RecoverNamespace(cmd.Context(), o.id)
				if err == nil {
					o.done("Recovered namespace %s %s", n.Name, o.where())
				}
				return err
			})
		},
	}
	return cmd
}

func newNamespacePurge(conn *connection) *cobra.Command {
	o := namespaceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "purge ID",
		Short: "Destroy the data of a deleted namespace",
		Long: `Destroys everything that a deleted namespace holds. There is no way back. A
purge that is interrupted leaves the namespace in "purging", and the same
command finishes it. On DynamoDB it takes 10 seconds at least: data that were on
their way are looked for again.`,
		Example:           "  zae-limiter namespace purge Xq3vT9aBc2Y --yes",
		Args:              arguments(argument{"ID", func(s string) error { o.id = s; return nil }}),
		ValidArgsFunction: firstOf(conn.completeOrphans),
		RunE:              func(cmd *cobra.Command, _ []string) error { return runNamespacePurge(cmd.Context(), o) },
	}
	addYes(cmd, &o.yes)
	return cmd
}

func runNamespacePurge(ctx context.Context, o namespaceOptions) error {
	if err := o.confirm(ctx, o.yes, "Destroy all data of namespace id "+o.id+" for good"); err != nil {
		return err
	}
	var removed atomic.Int64
	purge := opening{access: changes, purgeWait: o.purgeWait, purged: func(items int) { removed.Store(int64(items)) }}
	return o.about(ctx, purge, func(lim *limiter.RateLimiter) error {
		stop := o.progress(func() string { return "purging: " + tty.Number(removed.Load()) + " items removed" })
		err := lim.PurgeNamespace(ctx, o.id)
		stop()
		switch {
		case err == nil:
			o.done("Purged namespace id %s %s: %s removed", o.id, o.where(), count(int(removed.Load()), "item"))
		case removed.Load() > 0:
			return fmt.Errorf("%w; %s removed, and the same command goes on", err, count(int(removed.Load()), "item"))
		}
		return err
	})
}
