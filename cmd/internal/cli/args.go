package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// argument is a positional argument: its name in the usage line, and a function
// that parses it.
type argument struct {
	name string
	set  func(string) error
}

// arguments requires exactly these arguments and validates them before the
// command runs.
func arguments(want ...argument) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(want) {
			return usagef("%s is missing; usage: %s", want[len(args)].name, cmd.UseLine())
		}
		if len(args) > len(want) {
			return usagef("unexpected argument %q; usage: %s", clip(args[len(want)]), cmd.UseLine())
		}

		return setArguments(want, args)
	}
}

func setArguments(want []argument, args []string) error {
	for i, w := range want {
		if err := w.set(args[i]); err != nil {
			return usagef("%v", err)
		}
	}
	return nil
}

func entityArg(target *string) argument {
	return argument{"ENTITY", func(s string) error {
		*target = s
		return limiter.Entity{ID: s}.Validate()
	}}
}

func resourceArg(target *string) argument {
	return argument{"RESOURCE", func(s string) error {
		*target = s
		return checkResource(s)
	}}
}

func checkResource(name string) error {
	// Package limiter exports no validation of the name of a resource alone.
	return limiter.Request{Entity: "any", Resource: name, Consume: limiter.Tokens("any", 0)}.Validate()
}

// parseAmounts parses words LIMIT=TOKENS, each limit once, with at least so many
// tokens.
func parseAmounts(words []string, least int64) (limiter.Amounts, error) {
	var amounts limiter.Amounts

	for _, word := range words {
		limit, n, err := parseAmount(word, least)
		if err != nil {
			return amounts, err
		}
		for other := range amounts.All() {
			if other == limit {
				return amounts, usagef("%s is given twice; give each limit once", limit)
			}
		}

		amounts = amounts.And(limit, n)
	}
	return amounts, nil
}

func parseAmount(word string, least int64) (limit string, n int64, err error) {
	limit, digits, ok := strings.Cut(word, "=")
	if !ok {
		return "", 0, usagef("invalid amount %q: must be LIMIT=TOKENS, such as tpm=500, tpm=10k or 'spend=$0.25'",
			clip(word))
	}

	if err := limiter.PerMinute(limit, 1).Validate(); err != nil {
		return "", 0, usagef("%v", err)
	}

	n, why := figure.Parse(limit, digits)
	if why == "" && n < least {
		why = fmt.Sprintf("must be %d or more", least)
	}

	if why != "" {
		return "", 0, usagef("invalid amount %q: %s %s", clip(word), limit, why)
	}
	return limit, n, nil
}

// oneOf returns a parser that accepts one of a few words.
func oneOf[T ~string](words ...T) func(string) (T, error) {
	return func(text string) (T, error) {
		names := make([]string, len(words))
		for i, w := range words {
			if string(w) == text {
				return w, nil
			}
			names[i] = string(w)
		}

		return "", fmt.Errorf("must be %s or %s", strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
	}
}

// completeWords returns a completion function that suggests a few words.
func completeWords[T ~string](words ...T) cobra.CompletionFunc {
	names := make([]cobra.Completion, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	return cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
}
