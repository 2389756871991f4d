package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/dynamo/infra"
	"github.com/zeroae/zae-limiter-go/loadtest/locust"
)

// loadCode selects a stack to test and the code of its load stack.
type loadCode struct {
	*stackConnection
	dir, program string
	json         bool
}

// loadCodeHelp describes in the help what the image holds.
const loadCodeHelp = `Image and function hold this program, or --binary, and all files of -C but
hidden ones. docker builds the image for linux/amd64, and installs what a
requirements.txt in -C lists.`

// addTo adds the flags of the stack and the code to a command.
func (l *loadCode) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&l.name, "name", "n", "", "`name` of the stack to test")
	l.addPlace(cmd)
	cmd.Flags().StringVarP(&l.dir, "directory", "C", ".", "`folder` with scenarios")
	cmd.Flags().StringVar(&l.program, "binary", "",
		"`program` with scenarios of one's own, for Linux on x86_64, whose main function calls loadtest.Main "+
			"(default: this program)")
	addJSON[loadDeploymentJSON](cmd, &l.json, anObject, nil)
}

// options returns the name of the stack to test and the options for calls about its
// load stack.
func (l *loadCode) options() (name string, opts infra.LoadOptions, err error) {
	name, given, err := l.target()
	return name, infra.LoadOptions{
		Options: given, Dir: l.dir, Program: l.program, Locust: locust.Version, Step: step(l.console),
	}, err
}

func newLoadtestPush(c *console) *cobra.Command {
	l := &loadCode{stackConnection: &stackConnection{console: c}}
	cmd := &cobra.Command{
		Use:   "push",
		Short: "Update the image and the code of a load test",
		Long: `Build the image of a load test, push it to the repository of its stack, and
update the code of the worker function through CloudFormation. Settings stay as
deployed. A running task keeps its image.

` + loadCodeHelp + `

` + stackHelp,
		Example: "  zae-limiter loadtest push -n my-app -C scenarios",
		Args:    noArgs,
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
		return stackError(err)
	}

	return l.report(d, time.Since(began))
}
