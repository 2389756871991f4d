// Package cli is the program zae-limiter: its commands, one file each, and the
// rules they share. Data goes to stdout, talk to stderr.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs the program with the arguments after its name and returns its exit
// code: 0 done, 1 failed, 2 wrong usage, 3 limit exceeded, 4 drift, 141 where the
// reader of stdout has left, or that of the command it ran. What went wrong is a
// sentence on stderr. An interrupt ends the command early; a second one ends the
// program at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return newConsole(stdin, stdout, stderr).main(args)
}

func (c *console) main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	defer stop()
	context.AfterFunc(ctx, stop)
	// The reader of stdout may leave: then writing fails, which ends the command,
	// instead of the death of the program with its files left behind.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	return run(ctx, c, args)
}

// endings are the signals that ask the program to end. One that it was started
// to ignore, as a job in the background is, stays ignored.
func endings() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	return slices.DeleteFunc(all, signal.Ignored)
}

func run(ctx context.Context, c *console, args []string) int {
	out := &keeper{Writer: c.out}
	c.file, c.out = c.out, out
	root := newRoot(c) //nolint:contextcheck // a command under a lease ends by itself, not with a context
	root.SetArgs(args)
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	var unknown error
	root.SetHelpFunc(helpOfKnown(root.HelpFunc(), &unknown))
	err := cmp.Or(root.ExecuteContext(ctx), unknown, out.err)
	if err == nil {
		return exitDone
	}
	if text := sentence(err); text != "" {
		fmt.Fprintln(c.err, "zae-limiter:", text)
	}
	return exitCode(err)
}

// keeper remembers that writing failed, for those who do not look.
type keeper struct {
	io.Writer
	err error
}

// errLeft is what writing to a broken pipe fails with. It ends the program
// without a word. A connection of a store that breaks is another matter.
var errLeft = errors.New("the reader of the output has left")

// Write writes.
func (k *keeper) Write(p []byte) (int, error) {
	n, err := k.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		err = errLeft
	}
	k.err = cmp.Or(k.err, err)
	return n, err
}

func newRoot(c *console) *cobra.Command {
	root := &cobra.Command{
		Use:   "zae-limiter",
		Short: "A rate limiter for several limits at once",
		Long: `Limits how much each API key and project may use of each resource: requests
and tokens per minute, say, all of them at once, with estimates that are
corrected after the work is done.

"zae-limiter demo" shows it at work. Data goes to stdout and talk to stderr; a
list is a table on a terminal and tab-separated where it is piped; -o json, -o
table and -o tsv choose. The program ends with 0 when done, 1 when something
failed, 2 for a wrong command line, 3 when a limit is exceeded, 4 for drift.

` + storeHelp,
		Example: `  zae-limiter demo
  zae-limiter resource set-defaults gpt-4 -l rpm:100 -l tpm:10000/min:15000
  zae-limiter acquire key-abc gpt-4 rpm=1 tpm=500
  zae-limiter entity status key-abc`,
		Version:       thisBuild().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := noEmptyFlags(cmd); err != nil {
				return err
			}
			return c.takeForm(cmd)
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.Flags().Bool("version", false, "show which version this is")
	root.SetVersionTemplate(thisBuild().String() + "\n")
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(strings.NewReplacer(
		".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", screenWidth),
		`Use "{{.CommandPath}} [command] --help" for more information about a command.`, `"{{.CommandPath}} [command] --help" tells more.`,
	).Replace(root.UsageTemplate()))
	root.SetHelpCommand(newHelp())
	root.AddCommand(
		newAcquire(c), newAggregate(c), newAudit(c), newCheck(c), newCompletion(), newDelete(c), newDemo(c), newDeploy(c), newEntity(c),
		newExplain(c), newLambdaExport(c), newLimits(c), newList(c), newNamespace(c), newResource(c), newStatus(c), newSystem(c),
		newTable(c), newTemplate(c), newTop(c), newUpgrade(c), newUsage(c), newVersion(c),
	)
	completeNoFiles(root)
	return root
}

// knownCommand refuses what is no command of cmd.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasAvailableSubCommands() {
		return noArgs(cmd, args)
	}
	return unknownCommand(cmd, args[0])
}

// helpOfKnown is the help of a command, but refuses words that are no command:
// what came before --help was mistyped. Cobra asks for no error here, so failed
// takes it.
func helpOfKnown(help func(*cobra.Command, []string), failed *error) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, args []string) {
		if words := cmd.Flags().Args(); len(words) > 0 && cmd.HasAvailableSubCommands() && cmd.Name() != "help" {
			*failed = knownCommand(cmd, words)
			return
		}
		help(cmd, args)
	}
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Show the help of a command",
		Long:  "Shows the help of a command, like --help after its name.",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return knownCommand(cmp.Or(found, cmd.Root()), append(rest, args...))
			}
			found.InitDefaultHelpFlag() // which it would have been given on its way to run
			return found.Help()
		},
	}
}
