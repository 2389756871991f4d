package loadtest

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

// accountTest selects a load stack and a scenario for it.
type accountTest struct {
	*kit.Stack
	choice   scenarioChoice
	scenario string   // as the load stack finds it
	classes  []string // empty for all
}

func newAccountTest(c *kit.Console, p Program) accountTest {
	return accountTest{Stack: &kit.Stack{Console: c}, choice: scenarioChoice{program: p}}
}

// addTo adds the flags of a load stack and a scenario to a command.
func (a *accountTest) addTo(cmd *cobra.Command) {
	a.Stack.AddTo(cmd)
	a.choice.addFlags(cmd)
}

// choose sets the scenario and the classes of the command line. The load stack has
// the files of the scenarios, so it gets the name by which this command found the
// scenario, without a folder.
func (a *accountTest) choose(args []string) error {
	scenario, classes, err := a.choice.find(a.Console, args)
	if err != nil {
		return err
	}

	name, _ := a.choice.name(args)
	a.scenario = strings.TrimSuffix(path.Base(filepath.ToSlash(name)), ".py")
	// An empty list stands for all classes.
	if len(classes) < len(scenario.Classes) {
		a.classes = classes
	}

	return nil
}

// what describes the test, for messages.
func (a *accountTest) what() string {
	if len(a.classes) == 0 {
		return a.scenario
	}
	return fmt.Sprintf("%s %q", a.scenario, a.classes)
}

// taskFlags holds the flags of a task with a Locust master.
type taskFlags struct {
	port, cpu, memory int
	standalone        bool
}

func (f *taskFlags) addTo(cmd *cobra.Command) {
	f.port = 8089

	kit.AddFlag(cmd, &f.port, "port", "port", "8089", "local port for the web page of the master", parseLocalPort)
	kit.AddFlag(cmd, &f.cpu, "cpu", "units", "",
		"CPU of the task, in 1/1024 vCPU (default: of the load stack)", kit.ParseCount)
	kit.AddFlag(cmd, &f.memory, "memory", "MiB", "", "memory of the task (default: of the load stack)", kit.ParseCount)
	cmd.Flags().BoolVar(&f.standalone, "standalone", false, "run one worker in the task, without functions")
	_ = cmd.Flags().MarkHidden("standalone")
}

func parseLocalPort(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, errors.New("must be a port from 1 to 65535")
	}
	return int(n), nil
}

// parseSeconds parses a number of seconds or a duration.
func parseSeconds(text string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil && n > 0 && n < 1e9 {
		return time.Duration(n * float64(time.Second)), nil
	}

	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, errors.New("must be a number of seconds above zero, or a duration such as 90s or 5m")
	}
	return d, nil
}

// taskOptions returns the options of a task for the test.
func (a *accountTest) taskOptions(opts infra.Options, f taskFlags) infra.LoadTaskOptions {
	var last string

	opts.Poll = a.Poll
	return infra.LoadTaskOptions{
		Options: opts, Scenario: a.scenario, Classes: a.classes, CPU: f.cpu, Memory: f.memory, Standalone: f.standalone,
		Progress: func(state string) {
			// The state is polled, so the same one comes many times.
			if state != last {
				last = state
				a.Say("  %s", state)
			}
		},
	}
}

// lineEvery is the time between two lines of progress outside of a terminal.
const lineEvery = 10 * time.Second

// follow shows the progress of something that takes long until stop is called: as
// a line that is redrawn on a terminal, elsewhere as a line every ten seconds.
func follow(c *kit.Console, line func() string) (stop func()) {
	if c.ErrTerminal && tty.CanRedraw() {
		return c.Progress(line)
	}

	end := make(chan struct{})
	var wg sync.WaitGroup

	wg.Go(func() {
		tick := time.NewTicker(lineEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				c.Say("  %s", line())
			}
		}
	})

	return sync.OnceFunc(func() { close(end); wg.Wait() })
}
