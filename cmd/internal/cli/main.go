// Package cli implements the command line program zae-limiter. The commands
// are in packages of their own, by families, over package kit. Data goes to stdout,
// messages go to stderr.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

// Main runs the program with the arguments after its name and returns its exit
// code: 0 done, 1 failed, 2 wrong usage, 3 limit exceeded, 4 drift, 5 disabled,
// 141 if stdout was closed early, or the exit code of the command it ran. It writes
// errors to stderr, one line each. An interrupt ends the command early; a second
// one ends the program at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return MainOn(kit.NewConsole(stdin, stdout, stderr), args)
}

// MainOn does what [Main] does, on a console.
func MainOn(c *kit.Console, args []string) int { return runUntilSignal(c, args, newProgram) }

// builder returns the command tree for a command line.
type builder func(c *kit.Console, args []string) *cobra.Command

func runUntilSignal(c *kit.Console, args []string, build builder) int {
	ctx, stop := signal.NotifyContext(context.Background(), kit.StopSignals()...)
	defer stop()

	// Stop restores the default action, so that a second signal ends the
	// program at once.
	context.AfterFunc(ctx, stop)

	// Catching SIGPIPE makes a write to a closed stdout fail, so that the command
	// can end and remove its files.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)

	return run(ctx, c, args, build)
}

// Run runs a command line until it ends or ctx is done. It catches no signals.
func Run(ctx context.Context, c *kit.Console, args []string) int {
	return run(ctx, c, args, newProgram)
}

func run(ctx context.Context, c *kit.Console, args []string, build builder) int {
	out := &stickyWriter{Writer: c.Out}
	// The wrapper hides whether stdout is a terminal, so the console keeps both.
	c.File, c.Out = c.Out, out

	root := build(c, args)
	root.SetArgs(args)
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.Err)

	var unknown error
	root.SetHelpFunc(strictHelp(root.HelpFunc(), &unknown))

	// ExecuteContext reports neither what strictHelp rejects nor a failed write
	// that no command checked.
	err := cmp.Or(root.ExecuteContext(ctx), unknown, out.err)
	if err == nil {
		return kit.ExitDone
	}

	if text := kit.Message(err); text != "" {
		fmt.Fprintln(c.Err, root.Name()+":", text)
	}
	return kit.ExitCode(err)
}

// stickyWriter remembers its first write error, for callers that do not check.
type stickyWriter struct {
	io.Writer
	err error
}

func (w *stickyWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		err = kit.ErrBrokenPipe
	}
	w.err = cmp.Or(w.err, err)
	return n, err
}

func newRoot(c *kit.Console) *cobra.Command {
	root := &cobra.Command{
		Use:   "zae-limiter",
		Short: "Limit how much API keys and projects use",
		Long: `Limit how much each API key and project may use of each resource, such as
requests and tokens per minute. One call checks several limits at once, takes
estimated amounts, and corrects them after the work is done.

Run "zae-limiter demo" to see it at work. Data goes to stdout, messages go to
stderr. Lists are tables on a terminal and tab-separated elsewhere; choose with
-o json, -o table or -o tsv. Exit codes: 0 done, 1 failed, 2 wrong command line,
3 limit exceeded, 4 drift, 5 disabled.

` + kit.StoreHelp,
		Example: `  zae-limiter demo
  zae-limiter resource set-defaults gpt-4 -l rpm:100 -l tpm:10000/min:15000
  zae-limiter acquire key-abc gpt-4 rpm=1 tpm=500
  zae-limiter entity status key-abc`,
		Version:       thisBuild().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          kit.RequireKnownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := kit.RejectEmptyFlags(cmd); err != nil {
				return err
			}
			return c.ApplyFormat(cmd)
		},
	}

	// The program has its own command for completion scripts.
	root.CompletionOptions.DisableDefaultCmd = true

	// Cobra would add a flag of this name with a text of its own.
	root.Flags().Bool("version", false, "print the version")
	root.SetVersionTemplate(thisBuild().String() + "\n")

	root.SetFlagErrorFunc(kit.FlagError)
	// Without a width, Cobra does not wrap the texts of flags.
	root.SetUsageTemplate(strings.NewReplacer(
		".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", kit.ScreenWidth),
		`Use "{{.CommandPath}} [command] --help" for more information about a command.`,
		`Use "{{.CommandPath}} [command] --help" for the help of a command.`,
	).Replace(root.UsageTemplate()))
	return root
}

// strictHelp wraps a help function so that it rejects a mistyped command before
// --help. A help function cannot return an error, so strictHelp stores it in
// failed.
func strictHelp(help func(*cobra.Command, []string), failed *error) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, args []string) {
		// The arguments of help are names of commands, which it checks itself.
		if words := cmd.Flags().Args(); len(words) > 0 && cmd.HasAvailableSubCommands() && cmd.Name() != "help" {
			*failed = kit.RequireKnownCommand(cmd, words)
			return
		}
		help(cmd, args)
	}
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Show the help of a command",
		Long:  "Show the help of a command, as --help after its name does.",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return kit.RequireKnownCommand(cmp.Or(found, cmd.Root()), append(rest, args...))
			}

			// Execute adds the flag only to the command that it runs, which is
			// help.
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}
