package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// LoadtestMain runs a program that has the commands of "zae-limiter loadtest" and
// scenarios of its own. It accepts "loadtest" before the command, so that a
// command line of zae-limiter works too. It returns an exit code as [Main] does.
func LoadtestMain(
	program string, scenarios []loadtest.Scenario, args []string, stdin io.Reader, stdout, stderr io.Writer,
) int {
	c := kit.NewConsole(stdin, stdout, stderr)

	c.LoadOnly, c.Scenarios = program, scenarios
	if len(args) > 0 && args[0] == "loadtest" {
		args = args[1:]
	}

	return main(c, args)
}

// newProgram returns the command tree of the program, with the commands that a
// command line needs: all of them if there are no arguments.
func newProgram(c *kit.Console, args []string) *cobra.Command {
	c.Version = thisBuild().Version
	root := newRoot(c)

	if c.LoadOnly == "" {
		addCommands(root, c, args)
		return root
	}

	group := newLoadtest(c)
	root.Use, root.Short, root.Long, root.Example = c.LoadOnly, group.Short, group.Long, ""
	root.PersistentFlags().AddFlagSet(group.PersistentFlags())
	// RemoveCommand clears the parent of a command, so it must come before
	// AddCommand.
	commands := group.Commands()
	group.RemoveCommand(commands...)
	root.AddCommand(commands...)

	root.AddCommand(newCompletion(), newVersion(c))
	root.SetHelpCommand(newHelp())
	completeNoFiles(root)

	return root
}
