package kit

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
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

// SetArguments parses arguments with the functions of want, which is as long.
func SetArguments(want []Argument, args []string) error {
	for i, w := range want {
		if err := w.Set(args[i]); err != nil {
			return Usagef("%v", err)
		}
	}
	return nil
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
