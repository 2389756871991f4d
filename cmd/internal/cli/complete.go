package cli

import (
	"context"
	"fmt"
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
	maxCompletions    = 200
)

// suggest reads words that start with begun from the store. If that fails, it
// suggests nothing.
func (conn *connection) suggest(
	cmd *cobra.Command, begun string,
	words func(context.Context, *limiter.RateLimiter) iter.Seq2[string, error],
) ([]cobra.Completion, cobra.ShellCompDirective) {
	// A message would appear in the middle of the line that the user edits.
	quiet := *conn
	silent := *conn.console
	silent.err, silent.errTerminal, silent.canAsk = io.Discard, false, false
	quiet.console = &silent

	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}

	ctx, cancel := context.WithTimeout(parent, completionTimeout)
	defer cancel()

	var found []cobra.Completion
	// An error has no place on a command line, so completion suggests what it
	// has found.
	_ = quiet.withStore(ctx, accessRead, func(lim *limiter.RateLimiter, _ limiter.Repository) error {
		for word, err := range words(ctx, lim) {
			if err != nil || len(found) == maxCompletions {
				return err
			}
			if strings.HasPrefix(word, begun) {
				found = append(found, word)
			}
		}
		return nil
	})

	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeEntity suggests entities for the first argument.
func (conn *connection) completeEntity(
	cmd *cobra.Command, args []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	return conn.suggest(cmd, word, func(ctx context.Context, lim *limiter.RateLimiter) iter.Seq2[string, error] {
		return namesOf(lim.Entities(ctx), func(e limiter.Entity) string { return e.ID })
	})
}

// completeResource suggests resources for the first argument.
func (conn *connection) completeResource(
	cmd *cobra.Command, args []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return conn.completeResources(cmd, args, word)
}

// completeEntities suggests entities for a flag.
func (conn *connection) completeEntities(
	cmd *cobra.Command, _ []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return conn.completeEntity(cmd, nil, word)
}

// completeLimitedResources suggests resources for which entities have limits of
// their own.
func (conn *connection) completeLimitedResources(
	cmd *cobra.Command, _ []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return conn.suggest(cmd, word, func(ctx context.Context, lim *limiter.RateLimiter) iter.Seq2[string, error] {
		names, err := lim.ResourcesWithLimits(ctx)
		if err != nil {
			return each[string](nil)
		}
		return namesOf(each(names), jsonview.OrAllResources)
	})
}

// firstArgOnly limits a completion function to the first argument.
func firstArgOnly(suggest cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return suggest(cmd, args, word)
	}
}

// completeNoFiles keeps commands that do not complete their arguments from
// suggesting file names.
func completeNoFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, c := range cmd.Commands() {
		completeNoFiles(c)
	}
}

// completeResources suggests resources that have default limits.
func (conn *connection) completeResources(
	cmd *cobra.Command, _ []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return conn.suggest(cmd, word, func(ctx context.Context, lim *limiter.RateLimiter) iter.Seq2[string, error] {
		names, err := lim.ResourcesWithDefaults(ctx)
		if err != nil {
			return each[string](nil)
		}
		return each(names)
	})
}

// completeRequest suggests an entity, then a resource, then limits that apply to
// both and are not named yet.
func (conn *connection) completeRequest(
	cmd *cobra.Command, args []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return conn.completeEntity(cmd, args, word)
	case 1:
		return conn.completeResources(cmd, args, word)
	}

	// The library appends a -- of its own when it completes. A -- before the last
	// argument is the user's, so the word belongs to the command to run.
	if dash := cmd.ArgsLenAtDash(); dash >= 0 && dash < len(args) {
		return nil, cobra.ShellCompDirectiveDefault
	}

	found, _ := conn.suggest(cmd, word, func(ctx context.Context, lim *limiter.RateLimiter) iter.Seq2[string, error] {
		d, err := lim.Explain(ctx, limiter.Request{Entity: args[0], Resource: args[1]})
		if err != nil {
			return each[string](nil)
		}

		var limits []string
		for _, s := range d.Statuses {
			given := func(arg string) bool { return strings.HasPrefix(arg, s.Limit.Name+"=") }
			// The limits of a parent would suggest a name a second time.
			if s.Entity == args[0] && !slices.ContainsFunc(args[2:], given) {
				limits = append(limits,
					s.Limit.Name+"=\t"+amount(s.Limit.Name, s.Available).display+" of "+amount(s.Limit.Name,
						s.Limit.Capacity).display+" left")
			}
		}

		return each(limits)
	})

	return found, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// completeNamespaces suggests the names of active namespaces.
func (conn *connection) completeNamespaces(
	cmd *cobra.Command, _ []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	elsewhere := *conn

	// The namespace on the command line is incomplete, so opening the store in
	// it would fail.
	elsewhere.namespace = defaultNamespace

	return elsewhere.suggest(cmd, word, func(ctx context.Context, lim *limiter.RateLimiter) iter.Seq2[string, error] {
		return namesOf(namespaces(ctx, lim, isActive), func(n limiter.Namespace) string { return n.Name })
	})
}

// completeOrphans suggests the ids of deleted namespaces.
func (conn *connection) completeOrphans(
	cmd *cobra.Command, _ []string, word string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return conn.suggest(cmd, word, func(ctx context.Context, lim *limiter.RateLimiter) iter.Seq2[string, error] {
		orphans := namespaces(ctx, lim, func(state string) bool { return !isActive(state) })
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

func newCompletion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	var shell string
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a shell completion script",
		Long: `Print a script that makes bash, zsh, fish or powershell complete commands,
flags, and the names of entities, resources, limits and namespaces. The script
of bash needs no other package.`,
		Example: `  source <(zae-limiter completion bash)
  zae-limiter completion zsh > "${fpath[1]}/_zae-limiter"
  zae-limiter completion fish > ~/.config/fish/completions/zae-limiter.fish`,
		ValidArgs: shells,
		Args: arguments(argument{"SHELL", func(s string) (err error) {
			if shell, err = oneOf(shells...)(s); err != nil {
				return fmt.Errorf("invalid SHELL %q: %w", clip(s), err)
			}
			return nil
		}}),
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			switch shell {
			case "bash":
				return printBashCompletion(cmd.Root(), out)
			case "zsh":
				return cmd.Root().GenZshCompletion(out)
			case "fish":
				return cmd.Root().GenFishCompletion(out, true)
			}
			return cmd.Root().GenPowerShellCompletionWithDesc(out)
		},
	}
}
