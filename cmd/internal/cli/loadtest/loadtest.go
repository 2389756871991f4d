// Package loadtest has the commands that generate load and measure how the limiter
// responds.
package loadtest

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// Commands returns the constructors of the commands by their names.
func Commands() kit.Commands {
	return kit.Commands{"loadtest": func(c *kit.Console) *cobra.Command { return New(c, Program{}) }}
}

// Program is a program that has only the commands for load tests, and scenarios of
// its own, which come before the ones of package loadtest. The zero value is
// zae-limiter.
type Program struct {
	Name      string
	Scenarios []loadtest.Scenario
}

// command returns the words that start a command for load tests.
func (p Program) command() string { return cmp.Or(p.Name, "zae-limiter loadtest") }

// New returns the command loadtest, with all commands below it.
func New(c *kit.Console, p Program) *cobra.Command {
	cmd := &cobra.Command{
		Use: "loadtest", Short: "Generate load and measure how the limiter responds",
		Long: `Generate load with a scenario and measure how the limiter responds. A scenario
has classes of users that take tokens, pause and start again. It stores limits
and entities in a namespace of its own, which is removed at the end.

"loadtest scenarios" lists the scenarios. A YAML file defines others, and a
program of one's own can compile them in.`,
		Args: kit.RequireKnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	cmd.AddCommand(
		newDelete(c), newDeploy(c), newList(c), newLocal(c, p), newLocustfile(c, p), newOrchestrate(c), newPush(c),
		newRun(c, p), newScenarios(c, p), newSchema(c), newTune(c, p), newUI(c, p), newWorker(c, p),
	)

	return cmd
}
