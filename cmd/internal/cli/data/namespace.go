package data

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

func newNamespace(c *kit.Console) *cobra.Command {
	conn := &kit.Connection{Console: c}
	cmd := kit.NewGroup("namespace", "Manage namespaces",
		`Manage namespaces, which separate the tenants of one store. Deleting a namespace
frees its name and keeps its data under its ID, until it is recovered or purged.`)

	conn.AddStore(cmd)
	cmd.AddCommand(
		newNamespaceRegister(conn), newNamespaceList(conn), newNamespaceShow(conn), newNamespaceDelete(conn),
		newNamespaceRecover(conn), newNamespaceOrphans(conn), newNamespacePurge(conn),
	)

	return cmd
}

// withAllNamespaces opens the store without a namespace, calls do and closes it.
func (o namespaceOptions) withAllNamespaces(
	ctx context.Context, open kit.OpenOptions, do func(*limiter.RateLimiter) error,
) error {
	repo, err := o.OpenAs(ctx, open)
	if err != nil {
		return err
	}
	return o.WithLimiter(repo, func(lim *limiter.RateLimiter, _ limiter.Repository) error { return do(lim) })
}

var namespaceColumns = []kit.Column{
	{Title: "name"},
	{Title: "namespace id", Whole: true},
	{Title: "status", Whole: true},
	{Title: "created", Whole: true},
	{Title: "deleted", Whole: true},
}

func namespaceListing(nothing string) kit.Listing[limiter.Namespace] {
	return kit.Listing[limiter.Namespace]{
		Columns: namespaceColumns,
		Row: func(n limiter.Namespace) []kit.Cell {
			return []kit.Cell{
				kit.Text(n.Name), kit.Text(n.ID), kit.Text(jsonview.StateOf(n)), kit.Moment(n.CreatedAt),
				kit.Moment(n.DeletedAt),
			}
		},
		Object:  func(n limiter.Namespace) any { return jsonview.NewNamespace(n) },
		Nothing: nothing,
	}
}

type namespaceOptions struct {
	*kit.Connection
	names     []string // of register
	name, id  string
	yes, json bool
}

func nameArg(target *string) kit.Argument {
	return kit.Argument{Name: "NAME", Set: func(s string) error {
		*target = s
		return nil
	}}
}

func newNamespaceRegister(conn *kit.Connection) *cobra.Command {
	o := namespaceOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "register NAME...",
		Short: "Register namespaces",
		Long: `Register one or more namespaces and print their IDs. A name that is already
active is only printed. All names are validated before the first is registered.`,
		Example: "  zae-limiter namespace register tenant-a tenant-b",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return kit.Usagef("NAME is missing; usage: %s", cmd.UseLine())
			}

			// A mistake in the last name must not leave the others registered.
			for _, name := range args {
				if err := (limiter.Namespace{Name: name}).Validate(); err != nil {
					return kit.Usagef("%v", err)
				}
			}

			o.names = args
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runNamespaceRegister(cmd.Context(), o) },
	}

	kit.AddJSON[jsonview.Namespace](cmd, &o.json, kit.AnArray, namespaceColumns)
	return cmd
}

func runNamespaceRegister(ctx context.Context, o namespaceOptions) error {
	return o.withAllNamespaces(ctx, kit.OpenOptions{Access: kit.Create}, func(lim *limiter.RateLimiter) error {
		registered, err := lim.RegisterNamespaces(ctx, o.names...)

		// Names before a failed one are registered, so they are reported beside
		// the error.
		if len(registered) > 0 {
			names := make([]string, len(registered))
			for i, n := range registered {
				names[i] = n.Name
			}
			o.Done("Registered %s %s", strings.Join(names, ", "), o.Location())
		}

		return errors.Join(namespaceListing("").Print(o.Console, o.json, kit.Each(registered)), err)
	})
}

func newNamespaceList(conn *kit.Connection) *cobra.Command {
	o := namespaceOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the active namespaces",
		Long:    "List the active namespaces, by name. \"zae-limiter namespace orphans\" lists the\ndeleted ones.",
		Example: "  zae-limiter namespace list",
		Args:    kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runNamespaceList(cmd.Context(), o, kit.IsActive, "There are no namespaces.")
		},
	}

	kit.AddJSON[jsonview.Namespace](cmd, &o.json, kit.AnArray, namespaceColumns)
	return cmd
}

func newNamespaceOrphans(conn *kit.Connection) *cobra.Command {
	o := namespaceOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "orphans",
		Short: "List deleted namespaces",
		Long: `List deleted namespaces, which can be recovered or purged, and namespaces whose
purge was interrupted and can be completed by another purge.`,
		Example: "  zae-limiter namespace orphans",
		Args:    kit.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runNamespaceList(cmd.Context(), o, func(state string) bool {
				return !kit.IsActive(state)
			}, "There are no deleted namespaces.")
		},
	}

	kit.AddJSON[jsonview.Namespace](cmd, &o.json, kit.AnArray, namespaceColumns)
	return cmd
}

func runNamespaceList(ctx context.Context, o namespaceOptions, keep func(string) bool, nothing string) error {
	return o.withAllNamespaces(ctx, kit.OpenOptions{Access: kit.Read}, func(lim *limiter.RateLimiter) error {
		return namespaceListing(nothing).Print(o.Console, o.json, kit.Namespaces(ctx, lim, keep))
	})
}

func newNamespaceShow(conn *kit.Connection) *cobra.Command {
	o := namespaceOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:               "show NAME",
		Aliases:           []string{"get"},
		Short:             "Show an active namespace",
		Long:              "Show the ID of an active namespace and the time of its registration.",
		Example:           "  zae-limiter namespace show tenant-a",
		Args:              kit.Arguments(nameArg(&o.name)),
		ValidArgsFunction: kit.FirstArgOnly(conn.CompleteNamespaces),
		RunE:              func(cmd *cobra.Command, _ []string) error { return runNamespaceShow(cmd.Context(), o) },
	}

	kit.AddJSON[jsonview.Namespace](cmd, &o.json, kit.AnObject, nil)
	return cmd
}

func runNamespaceShow(ctx context.Context, o namespaceOptions) error {
	return o.withAllNamespaces(ctx, kit.OpenOptions{Access: kit.Read}, func(lim *limiter.RateLimiter) error {
		for n, err := range kit.Namespaces(ctx, lim, kit.IsActive) {
			if err != nil {
				return err
			}
			if n.Name == o.name {
				return kit.PrintProperties(o.Console, o.json, []kit.Property{
					{Name: "namespace", Value: kit.Text(n.Name)},
					{Name: "namespace id", Value: kit.Text(n.ID)},
					{Name: "status", Value: kit.Text(jsonview.StateOf(n))},
					{Name: "created", Value: kit.Moment(n.CreatedAt)},
				}, jsonview.NewNamespace(n))
			}
		}
		return fmt.Errorf("namespace %q: %w", kit.Clip(o.name), limiter.ErrNotFound)
	})
}

func newNamespaceDelete(conn *kit.Connection) *cobra.Command {
	o := namespaceOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Aliases: []string{"rm"},
		Short:   "Delete a namespace but keep its data",
		Long: "Delete a namespace. Its name becomes free, and its data stay under its ID " +
			"until\nthey are recovered or purged. \"zae-limiter namespace orphans\" lists the IDs.",
		Example:           "  zae-limiter namespace delete tenant-a --yes",
		Args:              kit.Arguments(nameArg(&o.name)),
		ValidArgsFunction: kit.FirstArgOnly(conn.CompleteNamespaces),
		RunE:              func(cmd *cobra.Command, _ []string) error { return runNamespaceDelete(cmd.Context(), o) },
	}

	kit.AddYes(cmd, &o.yes)
	return cmd
}

func runNamespaceDelete(ctx context.Context, o namespaceOptions) error {
	if err := o.Confirm(ctx, o.yes, "Delete namespace "+o.name+" but keep its data"); err != nil {
		return err
	}

	return o.withAllNamespaces(ctx, kit.OpenOptions{Access: kit.Change}, func(lim *limiter.RateLimiter) error {
		if err := lim.DeleteNamespace(ctx, o.name); err != nil {
			return err
		}

		o.Done("Deleted namespace %s %s; recover or purge it by its ID", o.name, o.Location())
		return nil
	})
}

func newNamespaceRecover(conn *kit.Connection) *cobra.Command {
	o := namespaceOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:               "recover ID",
		Short:             "Recover a deleted namespace",
		Long:              "Recover a deleted namespace under its old name, with all its data.",
		Example:           "  zae-limiter namespace recover Xq3vT9aBc2Y",
		Args:              kit.Arguments(kit.Argument{Name: "ID", Set: func(s string) error { o.id = s; return nil }}),
		ValidArgsFunction: kit.FirstArgOnly(conn.CompleteOrphans),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.withAllNamespaces(cmd.Context(), kit.OpenOptions{Access: kit.Change},
				func(lim *limiter.RateLimiter) error {
					n, err := lim.RecoverNamespace(cmd.Context(), o.id)
					if err == nil {
						o.Done("Recovered namespace %s %s", n.Name, o.Location())
					}
					return err
				})
		},
	}
	return cmd
}

func newNamespacePurge(conn *kit.Connection) *cobra.Command {
	o := namespaceOptions{Connection: conn}
	cmd := &cobra.Command{
		Use:   "purge ID",
		Short: "Delete the data of a deleted namespace",
		Long: `Delete all data of a deleted namespace permanently. An interrupted purge leaves
the namespace in state "purging"; run the same command again to complete it. On
DynamoDB a purge takes at least 10 seconds, since it scans again for late
writes.`,
		Example:           "  zae-limiter namespace purge Xq3vT9aBc2Y --yes",
		Args:              kit.Arguments(kit.Argument{Name: "ID", Set: func(s string) error { o.id = s; return nil }}),
		ValidArgsFunction: kit.FirstArgOnly(conn.CompleteOrphans),
		RunE:              func(cmd *cobra.Command, _ []string) error { return runNamespacePurge(cmd.Context(), o) },
	}

	kit.AddYes(cmd, &o.yes)
	return cmd
}

func runNamespacePurge(ctx context.Context, o namespaceOptions) error {
	if err := o.Confirm(ctx, o.yes, "Permanently delete all data of namespace ID "+o.id); err != nil {
		return err
	}

	// The purge counts in this goroutine, while the line of the progress reads
	// in another.
	var removed atomic.Int64
	purge := kit.OpenOptions{Access: kit.Change, PurgeWait: o.PurgeWait, Purged: func(items int) {
		removed.Store(int64(items))
	}}

	return o.withAllNamespaces(ctx, purge, func(lim *limiter.RateLimiter) error {
		stop := o.Progress(func() string { return "purging: " + tty.Number(removed.Load()) + " items removed" })
		err := lim.PurgeNamespace(ctx, o.id)
		stop()
		switch {
		case err == nil:
			o.Done("Purged namespace ID %s %s: %s removed", o.id, o.Location(), kit.Count(int(removed.Load()), "item"))
		case removed.Load() > 0:
			return fmt.Errorf("%w; %s removed, run the same command again to continue", err,
				kit.Count(int(removed.Load()), "item"))
		}
		return err
	})
}
