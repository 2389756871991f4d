package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/loadtest/locust"
)

// loadCode selects a stack to test and the code of its load stack.
type loadCode struct {
	*kit.Stack
	dir, program string
	json         bool
}

// loadCodeHelp describes in the help what the image holds.
const loadCodeHelp = `Image and function hold this program, or --binary, and all files of -C but
hidden ones. docker builds the image for linux/amd64, and installs what a
requirements.txt in -C lists.`

// AddTo adds the flags of the stack and the code to a command.
func (l *loadCode) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&l.Name, "name", "n", "", "`name` of the stack to test")
	l.AddPlace(cmd)
	cmd.Flags().StringVarP(&l.dir, "directory", "C", ".", "`folder` with scenarios")
	cmd.Flags().StringVar(&l.program, "binary", "",
		"`program` with scenarios of one's own, for Linux on x86_64, whose main function calls loadtest.Main "+
			"(default: this program)")
	kit.AddJSON[loadDeploymentJSON](cmd, &l.json, kit.AnObject, nil)
}

// options returns the name of the stack to test and the options for calls about its
// load stack.
func (l *loadCode) options() (name string, opts infra.LoadOptions, err error) {
	name, given, err := l.Target()
	return name, infra.LoadOptions{
		Options: given, Dir: l.dir, Program: l.program, Locust: locust.Version, Step: step(l.Console),
	}, err
}

func newLoadtestPush(c *kit.Console) *cobra.Command {
	l := &loadCode{Stack: &kit.Stack{Console: c}}
	cmd := &cobra.Command{
		Use:   "push",
		Short: "Update the image and the code of a load test",
		Long: `Build the image of a load test, push it to the repository of its stack, and
update the code of the worker function through CloudFormation. Settings stay as
deployed. A running task keeps its image.

` + loadCodeHelp + `

` + kit.StackHelp,
		Example: "  zae-limiter loadtest push -n my-app -C scenarios",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLoadtestPush(cmd.Context(), l) },
	}

	l.addTo(cmd)
	return cmd
}

func runLoadtestPush(ctx context.Context, l *loadCode) error {
	name, opts, err := l.options()
	if err != nil {
		return err
	}

	began := time.Now()
	d, err := infra.PushLoad(ctx, name, &opts)
	if err != nil {
		return kit.StackError(err)
	}

	return l.report(d, time.Since(began))
}
