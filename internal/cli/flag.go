package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// value is a flag that is parsed, and judged, where it is read.
type value[T any] struct {
	flag, kind, text string
	target           *T
	parse            func(string) (T, error)
}

// addFlag gives cmd a flag. Kind is what its argument is called in the help, and
// fallback how the value that is in target already is shown there. What parse
// returns as error completes the sentence "--flag is ...".
func addFlag[T any](cmd *cobra.Command, target *T, flag, kind, fallback, usage string, parse func(string) (T, error)) {
	addFlagP(cmd, target, flag, "", kind, fallback, usage, parse)
}

// addFlagP is addFlag with a short form.
func addFlagP[T any](cmd *cobra.Command, target *T, flag, short, kind, fallback, usage string, parse func(string) (T, error)) {
	cmd.Flags().VarP(&value[T]{flag, kind, fallback, target, parse}, flag, short, usage)
}

// String is how the value is shown as default.
func (v *value[T]) String() string { return v.text }

// Type is what the argument is called.
func (v *value[T]) Type() string { return v.kind }

// Set parses the argument.
func (v *value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err != nil {
		return &valueError{fmt.Sprintf("--%s is %q, but %v", v.flag, clip(text), err)}
	}
	*v.target, v.text = parsed, text
	return nil
}

// valueError is a whole sentence about a flag.
type valueError struct{ sentence string }

func (e *valueError) Error() string { return e.sentence }

// flagError makes one sentence of what is wrong with the flags of cmd.
func flagError(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*valueError](err); ok {
		return usagef("%s", bad.sentence)
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok && bad.GetFlag().Value.Type() == "bool" {
		return usagef("--%s is %q, but it has to be true or false", bad.GetFlag().Name, clip(bad.GetValue()))
	}
	if args := cmd.Flags().Args(); len(args) > 0 && cmd.HasAvailableSubCommands() {
		return knownCommand(cmd, args)
	}
	if bad, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if name := unknownFlag(cmd, bad.GetSpecifiedName()); name != "" {
			return usagef(`unknown flag --%s; did you mean --%s? "%s --help" lists the flags`, clip(bad.GetSpecifiedName()), name, cmd.CommandPath())
		}
	}
	return usagef(`%s; "%s --help" lists the flags`, clip(err.Error()), cmd.CommandPath())
}

// noEmptyFlags refuses a flag that was given nothing: a variable that is not set
// must not mean everything.
func noEmptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Value.(type) {
		case *limits, *pairs, *negation: // which show nothing
			return
		}
		if f.Value.String() == "" && err == nil {
			err = usagef("--%s is empty; leave it out, or give it a value", f.Name)
		}
	})
	return err
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(`unexpected argument %q; "%s --help" shows how to call it`, clip(args[0]), cmd.CommandPath())
	}
	return nil
}

// exclude makes it an error to give more than one of these flags.
func exclude(cmd *cobra.Command, flags ...string) {
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
