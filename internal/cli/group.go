package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// storeHelp is shown with every group that has a store.
const storeHelp = `The store is that of --store, else --name, else $ZAEL_STORE, else $ZAEL_STACK (a
table, like --name), else a file in the user's data folder.`

// group is a command that only has commands.
func group(name, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Long: long + "\n\n" + storeHelp, Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// addCount gives a list the flag for how many rows at most.
func addCount(cmd *cobra.Command, target *int, short string, fallback int) {
	*target = fallback
	shown := "all"
	if fallback > 0 {
		shown = strconv.Itoa(fallback)
	}
	addFlagP(cmd, target, "limit", short, "number", shown, "at most so many rows; 0 for all", func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return 0, errors.New("it has to be a whole number, 0 or more")
		}
		return n, nil
	})
}

// negation is a flag that switches another one off, and may be given a value
// like it.
type negation struct{ of *bool }

// String is empty: the other flag shows the default.
func (n *negation) String() string { return "" }

// Type is that of a switch.
func (n *negation) Type() string { return "bool" }

// Set takes what a switch takes.
func (n *negation) Set(text string) error {
	b, err := strconv.ParseBool(text)
	if err == nil {
		*n.of = !b
	}
	return err
}

// pairs collects flags KEY=VALUE.
type pairs struct {
	flag string
	all  *map[string]string
}

// String is empty: there is no default.
func (p *pairs) String() string { return "" }

// Type is what the argument is called.
func (p *pairs) Type() string { return "pair" }

// Set adds one.
func (p *pairs) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return &valueError{"--" + p.flag + " is " + strconv.Quote(clip(text)) + ", but it has to be KEY=VALUE"}
	}
	if *p.all == nil {
		*p.all = map[string]string{}
	}
	if before, ok := (*p.all)[key]; ok && before != value {
		return &valueError{"--" + p.flag + " gives " + strconv.Quote(clip(key)) + " twice, as " + strconv.Quote(clip(before)) + " and as " + strconv.Quote(clip(value))}
	}
	(*p.all)[key] = value
	return nil
}
