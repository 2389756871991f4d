package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/loadtest"
	scenarios "github.com/zeroae/zae-limiter-go/loadtest"
)

// LoadtestMain runs a program that has the commands of "zae-limiter loadtest" and
// scenarios of its own. It accepts "loadtest" before the command, so that a
// command line of zae-limiter works too. It returns an exit code as [Main] does.
func LoadtestMain(
	program string, own []scenarios.Scenario, args []string, stdin io.Reader, stdout, stderr io.Writer,
) int {
	if len(args) > 0 && args[0] == "loadtest" {
		args = args[1:]
	}
	return runUntilSignal(kit.NewConsole(stdin, stdout, stderr), args,
		func(c *kit.Console, _ []string) *cobra.Command {
			return newLoadtestProgram(c, loadtest.Program{Name: program, Scenarios: own})
		})
}

// newLoadtestProgram returns the command tree of a program with scenarios of its own.
func newLoadtestProgram(c *kit.Console, p loadtest.Program) *cobra.Command {
	c.Version = thisBuild().Version
	root := newRoot(c)

	group := loadtest.New(c, p)
	root.Use, root.Short, root.Long, root.Example = p.Name, group.Short, group.Long, ""
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
