package kit

import (
	"context"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

// Bounds of completion, which must not keep a shell waiting nor fill its screen.
const (
	completionTimeout = 2 * time.Second
	MaxCompletions    = 200
	// completionBuckets is the number of buckets that are read for the names of
	// entities.
	completionBuckets = 1000
)

// suggest reads words that start with begun from the store. If that fails, it
// suggests nothing.
func (conn *Connection) suggest(
	cmd *cobra.Command, begun string,
	words func(context.Context, *limiter.RateLimiter) iter.Seq2[string, error],
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return conn.suggestFrom(cmd, begun,
		func(ctx context.Context, lim *limiter.RateLimiter, _ limiter.Repository) iter.Seq2[string, error] {
			return words(ctx, lim)
		})
}

// suggestFrom does what suggest does, with words that need the repository.
func (conn *Connection) suggestFrom(
	cmd *cobra.Command, begun string,
	words func(context.Context, *limiter.RateLimiter, limiter.Repository) iter.Seq2[string, error],
) ([]cobra.Completion, cobra.ShellCompDirective) {
	// A message would appear in the middle of the line that the user edits.
	quiet := *conn
	silent := *conn.Console
	silent.Err, silent.ErrTerminal, silent.CanAsk = io.Discard, false, false
	quiet.Console = &silent

	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}

	ctx, cancel := context.WithTimeout(parent, completionTimeout)
	defer cancel()

	var found []cobra.Completion
	// An error has no place on a command line, so completion suggests what it
	// has found.
	_ = quiet.WithStore(ctx, Read, func(lim *limiter.RateLimiter, repo limiter.Repository) error {
		for word, err := range words(ctx, lim, repo) {
			if err != nil || len(found) == MaxCompletions {
				return err
			}
			if strings.HasPrefix(word, begun) && !slices.Contains(found, word) {
				found = append(found, word)
			}
		}
		return nil
	})

	return found, cobra.ShellCompDirectiveNoFileComp
}

// CompleteEntity suggests entities for the first argument.
func (conn *Connection) CompleteEntity(
	cmd *cobra.Command, args []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	return conn.suggestFrom(cmd, word,
		func(ctx context.Context, lim *limiter.RateLimiter, repo limiter.Repository) iter.Seq2[string, error] {
			return conn.entityNames(ctx, lim, repo, word)
		})
}

// entityNames iterates over the entities that have buckets, limits of their own or a
// record. A name may repeat. Buckets are read by the beginning of the name, so they
// come first: the other reads are cut off where there are very many.
func (conn *Connection) entityNames(
	ctx context.Context, lim *limiter.RateLimiter, repo limiter.Repository, begun string,
) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		// yieldAll passes names on until an error, such as that of a store without
		// pages of buckets: the names of the other sources are worth having then.
		yieldAll := func(names iter.Seq2[string, error]) bool {
			for name, err := range names {
				if err != nil {
					return ctx.Err() == nil
				}
				if !yield(name, nil) {
					return false
				}
			}
			return true
		}

		if !yieldAll(conn.entitiesWithBuckets(ctx, repo, begun)) {
			return
		}

		limited, _ := lim.ResourcesWithLimits(ctx)
		for _, resource := range limited {
			if !yieldAll(lim.EntitiesWithLimits(ctx, resource)) {
				return
			}
		}
		yieldAll(namesOf(lim.Entities(ctx), func(e limiter.Entity) string { return e.ID }))
	}
}

// entitiesWithBuckets iterates over the entities of the first buckets whose names
// begin with begun.
func (conn *Connection) entitiesWithBuckets(
	ctx context.Context, repo limiter.Repository, begun string,
) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		pager, ok := limiter.Optional[limiter.BucketPager](repo)
		if !ok {
			return
		}

		q := limiter.BucketQuery{Prefix: begun, Max: MaxCompletions}
		for range completionBuckets / MaxCompletions {
			page, err := pager.BucketPage(ctx, conn.Now(), q)
			if err != nil {
				yield("", err)
				return
			}

			for _, b := range page.Buckets {
				if !yield(b.Account.Entity, nil) {
					return
				}
			}
			if q.After = page.Next; q.After == "" {
				return
			}
		}
	}
}

// CompleteResource suggests resources for the first argument.
func (conn *Connection) CompleteResource(
	cmd *cobra.Command, args []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return conn.CompleteResources(cmd, args, word)
}

// CompleteEntities suggests entities for a flag.
func (conn *Connection) CompleteEntities(
	cmd *cobra.Command, _ []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return conn.CompleteEntity(cmd, nil, word)
}

// CompleteLimitedResources suggests resources for which entities have limits of
// their own.
func (conn *Connection) CompleteLimitedResources(
	cmd *cobra.Command, _ []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return conn.suggest(cmd, word, func(ctx context.Context, lim *limiter.RateLimiter) iter.Seq2[string, error] {
		names, err := lim.ResourcesWithLimits(ctx)
		if err != nil {
			return Each[string](nil)
		}
		return namesOf(Each(names), jsonview.OrAllResources)
	})
}

// FirstArgOnly limits a completion function to the first argument.
func FirstArgOnly(suggest cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return suggest(cmd, args, word)
	}
}

// CompleteResources suggests resources that have default limits.
func (conn *Connection) CompleteResources(
	cmd *cobra.Command, _ []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return conn.suggest(cmd, word, func(ctx context.Context, lim *limiter.RateLimiter) iter.Seq2[string, error] {
		names, err := lim.ResourcesWithDefaults(ctx)
		if err != nil {
			return Each[string](nil)
		}
		return Each(names)
	})
}

// CompleteRequest suggests an entity, then a resource, then limits that apply to
// both and are not named yet.
func (conn *Connection) CompleteRequest(
	cmd *cobra.Command, args []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return conn.CompleteEntity(cmd, args, word)
	case 1:
		return conn.CompleteResources(cmd, args, word)
	}

	// The library appends a -- of its own when it completes. A -- before the last
	// argument is the user's, so the word belongs to the command to run.
	if dash := cmd.ArgsLenAtDash(); dash >= 0 && dash < len(args) {
		return nil, cobra.ShellCompDirectiveDefault
	}

	found, _ := conn.suggest(cmd, word, func(ctx context.Context, lim *limiter.RateLimiter) iter.Seq2[string, error] {
		d, err := lim.Explain(ctx, limiter.Request{Entity: args[0], Resource: args[1]})
		if err != nil {
			return Each[string](nil)
		}

		var limits []string
		for _, s := range d.Statuses {
			given := func(arg string) bool { return strings.HasPrefix(arg, s.Limit.Name+"=") }
			// The limits of a parent would suggest a name a second time.
			if s.Entity == args[0] && !slices.ContainsFunc(args[2:], given) {
				limits = append(limits,
					s.Limit.Name+"=\t"+Amount(s.Limit.Name, s.Available).Display+" of "+Amount(s.Limit.Name,
						s.Limit.Capacity).Display+" left")
			}
		}

		return Each(limits)
	})

	return found, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// CompleteNamespaces suggests the names of active namespaces.
func (conn *Connection) CompleteNamespaces(
	cmd *cobra.Command, _ []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	elsewhere := *conn

	// The namespace on the command line is incomplete, so opening the store in
	// it would fail.
	elsewhere.Namespace = DefaultNamespace

	return elsewhere.suggest(cmd, word, func(ctx context.Context, lim *limiter.RateLimiter) iter.Seq2[string, error] {
		return namesOf(Namespaces(ctx, lim, IsActive), func(n limiter.Namespace) string { return n.Name })
	})
}

// CompleteOrphans suggests the ids of deleted namespaces.
func (conn *Connection) CompleteOrphans(
	cmd *cobra.Command, _ []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return conn.suggest(cmd, word, func(ctx context.Context, lim *limiter.RateLimiter) iter.Seq2[string, error] {
		orphans := Namespaces(ctx, lim, func(state string) bool { return !IsActive(state) })
		return namesOf(orphans, func(n limiter.Namespace) string { return n.ID + "\t" + n.Name })
	})
}

// namesOf maps a sequence to the names of its values.
func namesOf[T any](seq iter.Seq2[T, error], name func(T) string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for v, err := range seq {
			if !yield(name(v), err) {
				return
			}
		}
	}
}

// CompleteManifest suggests files with the extension of a manifest.
func CompleteManifest(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []cobra.Completion{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// Namespaces iterates over the namespaces of the store in a state that keep
// accepts.
func Namespaces(
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

// IsActive reports whether a namespace in a state is in use.
func IsActive(state string) bool { return state == "active" }
