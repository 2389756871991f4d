package cli

import (
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
)

func newLoadtest(c *kit.Console) *cobra.Command {
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
		newLoadtestDelete(c), newLoadtestDeploy(c), newLoadtestList(c), newLoadtestLocal(c),
		newLoadtestLocustfile(c), newLoadtestOrchestrate(c),
		newLoadtestPush(c), newLoadtestRun(c), newLoadtestScenarios(c), newLoadtestSchema(c), newLoadtestTune(c),
		newLoadtestUI(c), newLoadtestWorker(c),
	)

	return cmd
}
