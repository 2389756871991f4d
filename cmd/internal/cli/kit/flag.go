package kit

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go"
)

// parsedFlag is the value of a flag that a function parses and validates.
type parsedFlag[T any] struct {
	flag, kind, text string
	target           *T
	parse            func(string) (T, error)
}

// AddFlag adds a flag to cmd. The help calls its argument kind and shows fallback
// as the default, which target holds already. An error of parse follows the flag
// and its value in the message, such as "must be a whole number".
func AddFlag[T any](cmd *cobra.Command, target *T, flag, kind, fallback, usage string, parse func(string) (T, error)) {
	AddFlagP(cmd, target, flag, "", kind, fallback, usage, parse)
}

// AddFlagP adds a flag, as AddFlag does, with a one-letter form.
func AddFlagP[T any](
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

	if complete, ok := errors.AsType[*FlagValueError](err); ok {
		return complete
	}

	if err != nil {
		return InvalidFlag(v.flag, text, err.Error())
	}

	*v.target, v.text = parsed, text
	return nil
}

// FlagValueError is a complete message about the value of a flag.
type FlagValueError struct{ Message string }

func (e *FlagValueError) Error() string { return e.Message }

// InvalidFlag returns the error of a flag with an invalid value.
func InvalidFlag(flag, value, reason string) error {
	return &FlagValueError{fmt.Sprintf("invalid --%s %q: %s", flag, Clip(value), reason)}
}

// FlagError turns an error of parsing flags into a usage error.
func FlagError(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*FlagValueError](err); ok {
		return Usagef("%s", bad.Message)
	}
	// pflag passes on the text of strconv.ParseBool.
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok && bad.GetFlag().Value.Type() == "bool" {
		return Usagef("invalid --%s %q: must be true or false", bad.GetFlag().Name, Clip(bad.GetValue()))
	}
	// The flag of a misspelt command is unknown, too, as in "zae-limiter lst
	// --json", so the command is to blame.
	if args := cmd.Flags().Args(); len(args) > 0 && cmd.HasAvailableSubCommands() {
		return RequireKnownCommand(cmd, args)
	}

	if bad, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if name := similarFlag(cmd, bad.GetSpecifiedName()); name != "" {
			return Usagef(`unknown flag --%s; did you mean --%s? "%s --help" lists the flags`,
				Clip(bad.GetSpecifiedName()), name, cmd.CommandPath())
		}
	}

	return Usagef(`%s; "%s --help" lists the flags`, Clip(err.Error()), cmd.CommandPath())
}

// RejectEmptyFlags rejects a flag with an empty value: an unset shell variable
// must not select everything.
func RejectEmptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Value.(type) {
		// The text of these values is always empty.
		case *LimitFlags, *Pairs, *NegatedFlag:
			return
		}

		if f.Value.String() == "" && err == nil {
			err = Usagef("--%s is empty; give it a value or leave it out", f.Name)
		}
	})
	return err
}

// NoArgs rejects arguments.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef(`unexpected argument %q; "%s --help" shows how to call it`, Clip(args[0]), cmd.CommandPath())
	}
	return nil
}

// StoreHelp describes in the help how commands find their store.
const StoreHelp = `The store is --store, else --name, else $ZAEL_STORE, else $ZAEL_STACK (a table,
like --name), else a file in the user's data folder.`

// NewGroup returns a command that only holds other commands.
func NewGroup(name, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Long: long + "\n\n" + StoreHelp, Args: RequireKnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// NegatedFlag is the value of a flag such as --no-wait, which sets another flag
// to the opposite.
type NegatedFlag struct{ Of *bool }

// String returns "", since the other flag shows the default.
func (n *NegatedFlag) String() string { return "" }

// Type returns the type that the help shows.
func (n *NegatedFlag) Type() string { return "bool" }

// Set parses a boolean.
func (n *NegatedFlag) Set(text string) error {
	b, err := strconv.ParseBool(text)

	if err == nil {
		*n.Of = !b
	}
	return err
}

// Pairs collects the values KEY=VALUE of a repeatable flag.
type Pairs struct {
	Flag string
	All  *map[string]string
}

// String returns "", since there is no default.
func (p *Pairs) String() string { return "" }

// Type returns the name of the argument in the help.
func (p *Pairs) Type() string { return "pair" }

// Set adds a pair.
func (p *Pairs) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")

	if !ok || key == "" {
		return InvalidFlag(p.Flag, text, "must be KEY=VALUE")
	}

	if *p.All == nil {
		*p.All = map[string]string{}
	}
	// Repeating a pair is harmless. A script may give --tag twice with the same
	// value.
	if before, ok := (*p.All)[key]; ok && before != value {
		return &FlagValueError{
			"--" + p.Flag + " gives " + strconv.Quote(Clip(key)) + " twice, as " + strconv.Quote(Clip(before)) +
				" and as " + strconv.Quote(Clip(value)),
		}
	}

	(*p.All)[key] = value
	return nil
}

// ParseDuration parses a duration above zero.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)

	if err != nil || d <= 0 {
		return 0, errors.New("must be a duration above zero, such as 15s or 2m")
	}
	return d, nil
}

// ParseSeed parses the seed of random choices.
func ParseSeed(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, errors.New("must be a whole number, 0 or more")
	}
	return n, nil
}

// OnOff returns "yes" for a setting that is on, else "no".
func OnOff(on bool) string {
	if on {
		return "yes"
	}
	return "no"
}

// AddSwitch adds a boolean flag and its opposite.
func AddSwitch(flags *pflag.FlagSet, target *bool, on, off, usage string) {
	flags.BoolVar(target, on, *target, usage)
	no := flags.VarPF(&NegatedFlag{target}, off, "", "disable --"+on)
	// Without this value, the flag would take the next argument as its own.
	no.NoOptDefVal = "true"
}

// AddNumber adds a flag for a whole number from low to high. Other rules are
// checked with the whole stack.
func AddNumber(cmd *cobra.Command, target *int, flag, fallback, usage string, low, high int) {
	AddFlag(cmd, target, flag, "number", fallback, usage, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("must be a whole number from %d to %d", low, high)
		}
		return n, nil
	})
}

// AddLimits adds the repeatable flag --limit.
func AddLimits(cmd *cobra.Command, target *LimitFlags, usage string) {
	cmd.Flags().VarP(target, "limit", "l", usage+"; repeatable")
}

// ParseCount parses a whole number, 1 or more.
func ParseCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, errors.New("must be a whole number, 1 or more")
	}
	return n, nil
}

// ParseDelay parses a duration, which may be zero.
func ParseDelay(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("must be a duration, such as 100ms, or 0s")
	}
	return d, nil
}

// ParseAddress parses HOST:PORT, where the host may be empty for all addresses.
func ParseAddress(text string) (string, error) {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", errors.New("must be HOST:PORT, such as 127.0.0.1:9235, or :9235 for all addresses")
	}

	// SplitHostPort also accepts the name of a service, such as http.
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", errors.New("must end in a port from 0 to 65535")
	}
	return text, nil
}

// AddMode adds the flag --on-unavailable.
func AddMode(cmd *cobra.Command, target *limiter.OnUnavailable, usage string) {
	const name = "on-unavailable"
	AddFlag(cmd, target, name, "mode", "", usage, OneOf(limiter.Allow, limiter.Block))
	_ = cmd.RegisterFlagCompletionFunc(name, CompleteWords(limiter.Allow, limiter.Block))
}
