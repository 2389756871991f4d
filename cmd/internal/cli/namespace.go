package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

func newNamespace(c *console) *cobra.Command {
	conn := &connection{console: c}
	cmd := newGroup("namespace", "Manage namespaces",
		`Manage namespaces, which separate the tenants of one store. Deleting a namespace
frees its name and keeps its data under its ID, until it is recovered or purged.`)

	conn.addStore(cmd)
	cmd.AddCommand(
		newNamespaceRegister(conn), newNamespaceList(conn), newNamespaceShow(conn), newNamespaceDelete(conn),
		newNamespaceRecover(conn), newNamespaceOrphans(conn), newNamespacePurge(conn),
	)

	return cmd
}

// withAllNamespaces opens the store without a namespace, calls do and closes it.
func (conn *connection) withAllNamespaces(
	ctx context.Context, o openOptions, do func(*limiter.RateLimiter) error,
) error {
	repo, err := conn.openAs(ctx, o)
	if err != nil {
		return err
	}
	return conn.withLimiter(repo, func(lim *limiter.RateLimiter, _ limiter.Repository) error { return do(lim) })
}

var namespaceColumns = []column{
	{title: "name"},
	{title: "namespace id", whole: true},
	{title: "status", whole: true},
	{title: "created", whole: true},
	{title: "deleted", whole: true},
}

func namespaceListing(nothing string) listing[limiter.Namespace] {
	return listing[limiter.Namespace]{
		namespaceColumns,
		func(n limiter.Namespace) []cell {
			return []cell{text(n.Name), text(n.ID), text(jsonview.StateOf(n)), moment(n.CreatedAt), moment(n.DeletedAt)}
		},
		func(n limiter.Namespace) any { return jsonview.NewNamespace(n) },
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
		Short: "Register namespaces",
		Long: `Register one or more namespaces and print their IDs. A name that is already
active is only printed. All names are validated before the first is registered.`,
		Example: "  zae-limiter namespace register tenant-a tenant-b",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("NAME is missing; usage: %s", cmd.UseLine())
			}

			// A mistake in the last name must not leave the others registered.
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

	addJSON[jsonview.Namespace](cmd, &o.json, anArray, namespaceColumns)
	return cmd
}

func runNamespaceRegister(ctx context.Context, o namespaceOptions) error {
	return o.withAllNamespaces(ctx, openOptions{access: accessCreate}, func(lim *limiter.RateLimiter) error {
		registered, err := lim.RegisterNamespaces(ctx, o.names...)

		// Names before a failed one are registered, so they are reported beside
		// the error.
		if len(registered) > 0 {
			names := make([]string, len(registered))
			for i, n := range registered {
				names[i] = n.Name
			}
			o.done("Registered %s %s", strings.Join(names, ", "), o.location())
		}

		return errors.Join(namespaceListing("").print(o.console, o.json, each(registered)), err)
	})
}

// namespaces iterates over the namespaces of the store in a state that keep
// accepts.
func namespaces(
	ctx context.Context, lim *limiter.RateLimiter, keep func(state string) bool,
) iter.Seq2[limiter.Namespace, error] {
	return func(yield func(limiter.Namespace, error) bool) {
		for n, err := range lim.Namespaces(ctx) {
			if (err != nil || keep(jsonview.StateOf(n))) && !yield(n, err) {
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
		Long:    "List the active namespaces, by name. \"zae-limiter namespace orphans\" lists the\ndeleted ones.",
		Example: "  zae-limiter namespace list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runNamespaceList(cmd.Context(), o, isActive, "There are no namespaces.")
		},
	}

	addJSON[jsonview.Namespace](cmd, &o.json, anArray, namespaceColumns)
	return cmd
}

func newNamespaceOrphans(conn *connection) *cobra.Command {
	o := namespaceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:   "orphans",
		Short: "List deleted namespaces",
		Long: `List deleted namespaces, which can be recovered or purged, and namespaces whose
purge was interrupted and can be completed by another purge.`,
		Example: "  zae-limiter namespace orphans",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runNamespaceList(cmd.Context(), o, func(state string) bool {
				return !isActive(state)
			}, "There are no deleted namespaces.")
		},
	}

	addJSON[jsonview.Namespace](cmd, &o.json, anArray, namespaceColumns)
	return cmd
}

func runNamespaceList(ctx context.Context, o namespaceOptions, keep func(string) bool, nothing string) error {
	return o.withAllNamespaces(ctx, openOptions{access: accessRead}, func(lim *limiter.RateLimiter) error {
		return namespaceListing(nothing).print(o.console, o.json, namespaces(ctx, lim, keep))
	})
}

func newNamespaceShow(conn *connection) *cobra.Command {
	o := namespaceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:               "show NAME",
		Aliases:           []string{"get"},
		Short:             "Show an active namespace",
		Long:              "Show the ID of an active namespace and the time of its registration.",
		Example:           "  zae-limiter namespace show tenant-a",
		Args:              arguments(argument{"NAME", func(s string) error { o.name = s; return nil }}),
		ValidArgsFunction: firstArgOnly(conn.completeNamespaces),
		RunE:              func(cmd *cobra.Command, _ []string) error { return runNamespaceShow(cmd.Context(), o) },
	}

	addJSON[jsonview.Namespace](cmd, &o.json, anObject, nil)
	return cmd
}

func runNamespaceShow(ctx context.Context, o namespaceOptions) error {
	return o.withAllNamespaces(ctx, openOptions{access: accessRead}, func(lim *limiter.RateLimiter) error {
		for n, err := range namespaces(ctx, lim, isActive) {
			if err != nil {
				return err
			}
			if n.Name == o.name {
				return printProperties(o.console, o.json, []property{
					{"namespace", text(n.Name)},
					{"namespace id", text(n.ID)},
					{"status", text(jsonview.StateOf(n))},
					{"created", moment(n.CreatedAt)},
				}, jsonview.NewNamespace(n))
			}
		}
		return fmt.Errorf("namespace %q: %w", clip(o.name), limiter.ErrNotFound)
	})
}

func newNamespaceDelete(conn *connection) *cobra.Command {
	o := namespaceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Aliases: []string{"rm"},
		Short:   "Delete a namespace but keep its data",
		Long: "Delete a namespace. Its name becomes free, and its data stay under its ID " +
			"until\nthey are recovered or purged. \"zae-limiter namespace orphans\" lists the IDs.",
		Example:           "  zae-limiter namespace delete tenant-a --yes",
		Args:              arguments(argument{"NAME", func(s string) error { o.name = s; return nil }}),
		ValidArgsFunction: firstArgOnly(conn.completeNamespaces),
		RunE:              func(cmd *cobra.Command, _ []string) error { return runNamespaceDelete(cmd.Context(), o) },
	}

	addYes(cmd, &o.yes)
	return cmd
}

func runNamespaceDelete(ctx context.Context, o namespaceOptions) error {
	if err := o.confirm(ctx, o.yes, "Delete namespace "+o.name+" but keep its data"); err != nil {
		return err
	}

	return o.withAllNamespaces(ctx, openOptions{access: accessChange}, func(lim *limiter.RateLimiter) error {
		if err := lim.DeleteNamespace(ctx, o.name); err != nil {
			return err
		}

		o.done("Deleted namespace %s %s; recover or purge it by its ID", o.name, o.location())
		return nil
	})
}

func newNamespaceRecover(conn *connection) *cobra.Command {
	o := namespaceOptions{connection: conn}
	cmd := &cobra.Command{
		Use:               "recover ID",
		Short:             "Recover a deleted namespace",
		Long:              "Recover a deleted namespace under its old name, with all its data.",
		Example:           "  zae-limiter namespace recover Xq3vT9aBc2Y",
		Args:              arguments(argument{"ID", func(s string) error { o.id = s; return nil }}),
		ValidArgsFunction: firstArgOnly(conn.completeOrphans),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withAllNamespaces(cmd.Context(), openOptions{access: accessChange},
				func(lim *limiter.RateLimiter) error {
					n, err := lim.RecoverNamespace(cmd.Context(), o.id)
					if err == nil {
						o.done("Recovered namespace %s %s", n.Name, o.location())
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
		Short: "Delete the data of a deleted namespace",
		Long: `Delete all data of a deleted namespace permanently. An interrupted purge leaves
the namespace in state "purging"; run the same command again to complete it. On
DynamoDB a purge takes at least 10 seconds, since it scans again for late
writes.`,
		Example:           "  zae-limiter namespace purge Xq3vT9aBc2Y --yes",
		Args:              arguments(argument{"ID", func(s string) error { o.id = s; return nil }}),
		ValidArgsFunction: firstArgOnly(conn.completeOrphans),
		RunE:              func(cmd *cobra.Command, _ []string) error { return runNamespacePurge(cmd.Context(), o) },
	}

	addYes(cmd, &o.yes)
	return cmd
}

func runNamespacePurge(ctx context.Context, o namespaceOptions) error {
	if err := o.confirm(ctx, o.yes, "Permanently delete all data of namespace ID "+o.id); err != nil {
		return err
	}

	// The purge counts in this goroutine, while the line of the progress reads
	// in another.
	var removed atomic.Int64
	purge := openOptions{access: accessChange, purgeWait: o.purgeWait, purged: func(items int) {
		removed.Store(int64(items))
	}}

	return o.withAllNamespaces(ctx, purge, func(lim *limiter.RateLimiter) error {
		stop := o.progress(func() string { return "purging: " + tty.Number(removed.Load()) + " items removed" })
		err := lim.PurgeNamespace(ctx, o.id)
		stop()
		switch {
		case err == nil:
			o.done("Purged namespace ID %s %s: %s removed", o.id, o.location(), count(int(removed.Load()), "item"))
		case removed.Load() > 0:
			return fmt.Errorf("%w; %s removed, run the same command again to continue", err,
				count(int(removed.Load()), "item"))
		}
		return err
	})
}
