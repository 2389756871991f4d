package cli

import (
	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/loadtest/locust"
)

func newLoadtestLocustfile(c *kit.Console) *cobra.Command {
	var choice scenarioChoice
	var o locust.FileOptions
	cmd := &cobra.Command{
		Use:   "locustfile SCENARIO [CLASS...]",
		Short: "Print the Python file of a Locust master",
		Long: `Print the Python file that a Locust master loads to run a scenario. It holds the
names and weights of the classes of users, which run in workers that
"zae-limiter loadtest worker" starts. When a test begins, the master sends its
ID to all workers, which then share a namespace. At the end one of them removes
it, unless --keep was given.

A shape takes the place of the number of users. With its option --class-picker,
Locust offers all classes and shapes on its page.`,
		Example: `  zae-limiter loadtest locustfile simple > simple.py
  locust -f simple.py --master --master-bind-host 127.0.0.1 --web-host 127.0.0.1
  zae-limiter loadtest locustfile llm_production --shape MorningSpike > spike.py`,
		RunE: func(_ *cobra.Command, args []string) error {
			scenario, classes, err := choice.find(c, args)
			if err != nil {
				return err
			}

			o.Classes = classes
			file, err := locust.File(scenario, &o)
			if err != nil {
				return kit.Usagef("%v", err)
			}

			_, err = c.Out.Write(file)
			return err
		},
	}

	choice.addFlags(c, cmd)
	cmd.Flags().StringVar(&o.Shape, "shape", "", "`name` of the shape that the master follows")

	cmd.Flags().BoolVar(&o.Keep, "keep", false, "leave the namespace of a test in the store")
	return cmd
}
