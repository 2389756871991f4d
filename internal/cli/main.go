// Package cli is the program zae-limiter: its commands, one file each, and the
// rules they share. Data goes to stdout, talk to stderr.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs the program with the arguments after its name and returns its exit
// code: 0 done, 1 failed, 2 wrong usage, 3 limit exceeded, 4 drift. What went
// wrong is a sentence on stderr. An interrupt ends the command early; a second
// one ends the program at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	// Whoever reads stdout may leave: then writing fails, which is an error like
	// any other, instead of the death of the program with its files left behind.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)

	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(stderr, "zae-limiter:", err)
	}
	return exitCode(err)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "zae-limiter",
		Short: "A rate limiter for several limits at once",
		Long: `Limits how much each API key and project may use of each resource: requests
and tokens per minute, say, all of them at once, with estimates that are
corrected after the work is done.

"zae-limiter demo" shows it at work.`,
		Example:       "  zae-limiter demo\n  zae-limiter demo --duration 1m --store sqlite:limits.db",
		Version:       thisBuild().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.Flags().Bool("version", false, "show which version this is")
	root.SetVersionTemplate(thisBuild().String() + "\n")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	root.AddCommand(newDemo(), newVersion())
	return root
}

// knownCommand refuses what is no command of cmd.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Root().Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usagef("unknown command %q; the commands are %s", args[0], strings.Join(names, ", "))
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Show the help of a command",
		Long:  "Shows the help of a command, like --help after its name.",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return knownCommand(cmd, append(rest, args...))
			}
			found.InitDefaultHelpFlag() // which it would have been given on its way to run
			return found.Help()
		},
	}
}
