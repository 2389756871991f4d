package kit

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// Argument is a positional argument: its name in the usage line, and a function
// that parses it.
type Argument struct {
	Name string
	Set  func(string) error
}

// Arguments requires exactly these arguments and validates them before the
// command runs.
func Arguments(want ...Argument) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(want) {
			return Usagef("%s is missing; usage: %s", want[len(args)].Name, cmd.UseLine())
		}
		if len(args) > len(want) {
			return Usagef("unexpected argument %q; usage: %s", Clip(args[len(want)]), cmd.UseLine())
		}

		return SetArguments(want, args)
	}
}

func SetArguments(want []Argument, args []string) error {
	for i, w := range want {
		if err := w.Set(args[i]); err != nil {
			return Usagef("%v", err)
		}
	}
	return nil
}

func EntityArg(target *string) Argument {
	return Argument{"ENTITY", func(s string) error {
		*target = s
		return limiter.Entity{ID: s}.Validate()
	}}
}

func ResourceArg(target *string) Argument {
	return Argument{"RESOURCE", func(s string) error {
		*target = s
		return CheckResource(s)
	}}
}

func CheckResource(name string) error {
	// Package limiter exports no validation of the name of a resource alone.
	return limiter.Request{Entity: "any", Resource: name, Consume: limiter.Tokens("any", 0)}.Validate()
}

// ParseAmounts parses words LIMIT=TOKENS, each limit once, with at least so many
// tokens.
func ParseAmounts(words []string, least int64) (limiter.Amounts, error) {
	var amounts limiter.Amounts

	for _, word := range words {
		limit, n, err := ParseAmount(word, least)
		if err != nil {
			return amounts, err
		}
		for other := range amounts.All() {
			if other == limit {
				return amounts, Usagef("%s is given twice; give each limit once", limit)
			}
		}

		amounts = amounts.And(limit, n)
	}
	return amounts, nil
}

func ParseAmount(word string, least int64) (limit string, n int64, err error) {
	limit, digits, ok := strings.Cut(word, "=")
	if !ok {
		return "", 0, Usagef("invalid amount %q: must be LIMIT=TOKENS, such as tpm=500, tpm=10k or 'spend=$0.25'",
			Clip(word))
	}

	if err := limiter.PerMinute(limit, 1).Validate(); err != nil {
		return "", 0, Usagef("%v", err)
	}

	n, why := figure.Parse(limit, digits)
	if why == "" && n < least {
		why = fmt.Sprintf("must be %d or more", least)
	}

	if why != "" {
		return "", 0, Usagef("invalid amount %q: %s %s", Clip(word), limit, why)
	}
	return limit, n, nil
}

// OneOf returns a parser that accepts one of a few words.
func OneOf[T ~string](words ...T) func(string) (T, error) {
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

// CompleteWords returns a completion function that suggests a few words.
func CompleteWords[T ~string](words ...T) cobra.CompletionFunc {
	names := make([]cobra.Completion, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	return cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
}
