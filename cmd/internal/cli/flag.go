package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// parsedFlag is the value of a flag that a function parses and validates.
type parsedFlag[T any] struct {
	flag, kind, text string
	target           *T
	parse            func(string) (T, error)
}

// addFlag adds a flag to cmd. The help calls its argument kind and shows fallback
// as the default, which target holds already. An error of parse follows the flag
// and its value in the message, such as "must be a whole number".
func addFlag[T any](cmd *cobra.Command, target *T, flag, kind, fallback, usage string, parse func(string) (T, error)) {
	addFlagP(cmd, target, flag, "", kind, fallback, usage, parse)
}

// addFlagP adds a flag, as addFlag does, with a one-letter form.
func addFlagP[T any](
	cmd *cobra.Command, target *T, flag, short, kind, fallback, usage string, parse func(string) (T, error),
) {
	cmd.Flags().VarP(&parsedFlag[T]{flag, kind, fallback, target, parse}, flag, short, usage)
}

// String returns the value as the help shows it.
func (v *parsedFlag[T]) String() string { return v.text }

// Type returns the name of the argument in the help.
func (v *parsedFlag[T]) Type() string { return v.kind }

// Set parses the argument.
func (v *parsedFlag[T]) Set(text string) error {
	parsed, err := v.parse(text)

	if complete, ok := errors.AsType[*flagValueError](err); ok {
		return complete
	}

	if err != nil {
		return invalidFlag(v.flag, text, err.Error())
	}

	*v.target, v.text = parsed, text
	return nil
}

// flagValueError is a complete message about the value of a flag.
type flagValueError struct{ message string }

func (e *flagValueError) Error() string { return e.message }

// invalidFlag returns the error of a flag with an invalid value.
func invalidFlag(flag, value, reason string) error {
	return &flagValueError{fmt.Sprintf("invalid --%s %q: %s", flag, clip(value), reason)}
}

// flagError turns an error of parsing flags into a usage error.
func flagError(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*flagValueError](err); ok {
		return usagef("%s", bad.message)
	}
	// pflag passes on the text of strconv.ParseBool.
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok && bad.GetFlag().Value.Type() == "bool" {
		return usagef("invalid --%s %q: must be true or false", bad.GetFlag().Name, clip(bad.GetValue()))
	}
	// The flag of a misspelt command is unknown, too, as in "zae-limiter lst
	// --json", so the command is to blame.
	if args := cmd.Flags().Args(); len(args) > 0 && cmd.HasAvailableSubCommands() {
		return requireKnownCommand(cmd, args)
	}

	if bad, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if name := similarFlag(cmd, bad.GetSpecifiedName()); name != "" {
			return usagef(`unknown flag --%s; did you mean --%s? "%s --help" lists the flags`,
				clip(bad.GetSpecifiedName()), name, cmd.CommandPath())
		}
	}

	return usagef(`%s; "%s --help" lists the flags`, clip(err.Error()), cmd.CommandPath())
}

// rejectEmptyFlags rejects a flag with an empty value: an unset shell variable
// must not select everything.
func rejectEmptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Value.(type) {
		// The text of these values is always empty.
		case *limitFlags, *pairs, *negatedFlag:
			return
		}

		if f.Value.String() == "" && err == nil {
			err = usagef("--%s is empty; give it a value or leave it out", f.Name)
		}
	})
	return err
}

// noArgs rejects arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(`unexpected argument %q; "%s --help" shows how to call it`, clip(args[0]), cmd.CommandPath())
	}
	return nil
}

// exclusiveFlags rejects a command line with more than one of these flags.
func exclusiveFlags(cmd *cobra.Command, flags ...string) {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		given := ""
		for _, flag := range flags {
			switch {
			case !cmd.Flags().Changed(flag):
			case given != "":
				return usagef("--%s and --%s exclude each other; give one of them", given, flag)
			default:
				given = flag
			}
		}
		return nil
	}
}

// storeHelp describes in the help how commands find their store.
const storeHelp = `The store is --store, else --name, else $ZAEL_STORE, else $ZAEL_STACK (a table,
like --name), else a file in the user's data folder.`

// newGroup returns a command that only holds other commands.
func newGroup(name, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Long: long + "\n\n" + storeHelp, Args: requireKnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// addRowLimit adds the flag --limit, the maximum number of rows.
func addRowLimit(cmd *cobra.Command, target *int, short string, fallback int) {
	*target = fallback

	shown := "all"
	if fallback > 0 {
		shown = strconv.Itoa(fallback)
	}

	addFlagP(cmd, target, "limit", short, "number", shown, "maximum number of rows; 0 for all",
		func(text string) (int, error) {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return 0, errors.New("must be a whole number, 0 or more")
			}
			return n, nil
		})
}

// negatedFlag is the value of a flag such as --no-wait, which sets another flag
// to the opposite.
type negatedFlag struct{ of *bool }

// String returns "", since the other flag shows the default.
func (n *negatedFlag) String() string { return "" }

// Type returns the type that the help shows.
func (n *negatedFlag) Type() string { return "bool" }

// Set parses a boolean.
func (n *negatedFlag) Set(text string) error {
	b, err := strconv.ParseBool(text)

	if err == nil {
		*n.of = !b
	}
	return err
}

// pairs collects the values KEY=VALUE of a repeatable flag.
type pairs struct {
	flag string
	all  *map[string]string
}

// String returns "", since there is no default.
func (p *pairs) String() string { return "" }

// Type returns the name of the argument in the help.
func (p *pairs) Type() string { return "pair" }

// Set adds a pair.
func (p *pairs) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")

	if !ok || key == "" {
		return invalidFlag(p.flag, text, "must be KEY=VALUE")
	}

	if *p.all == nil {
		*p.all = map[string]string{}
	}
	// Repeating a pair is harmless. A script may give --tag twice with the same
	// value.
	if before, ok := (*p.all)[key]; ok && before != value {
		return &flagValueError{
			"--" + p.flag + " gives " + strconv.Quote(clip(key)) + " twice, as " + strconv.Quote(clip(before)) +
				" and as " + strconv.Quote(clip(value)),
		}
	}

	(*p.all)[key] = value
	return nil
}
