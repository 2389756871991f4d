// Package local has the commands that run an engine of DynamoDB on this machine.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/local"
	"github.com/zeroae/zae-limiter-go/dynamo/infra"
)

// Commands returns the constructors of the commands by their names.
func Commands() kit.Commands { return kit.Commands{"local": newGroup} }

// help describes in the help how commands find their engine.
const help = `Without --port, the command uses the one engine that "local up" started.`

func newGroup(c *kit.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Run DynamoDB on this machine",
		Long: `Run an engine of DynamoDB on this machine, with a table to try things out:
LocalStack in Docker, with a whole stack, or DynamoDB Local in Docker or with
Java. The engine keeps running until "local down".`,
		Example: "  eval \"$(zae-limiter local up)\"\n  zae-limiter local status\n  zae-limiter local down",
		Args:    kit.RequireKnownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	cmd.AddCommand(newUp(c), newDown(c), newStatus(c), newLogs(c), newEnv(c))
	return cmd
}

// connection selects an engine of this machine.
type connection struct {
	*kit.Console
	port       int
	dockerHost string
}

func (o *connection) addPort(cmd *cobra.Command, usage string) {
	const highest = 1<<16 - 1
	kit.AddNumber(cmd, &o.port, "port", "", usage, 1, highest)
}

func (o *connection) addDockerHost(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.dockerHost, "docker-host", "",
		"`URL` of the Docker daemon (default $DOCKER_HOST, else Docker's context)")
}

// addEngine adds the flags that select a running engine.
func (o *connection) addEngine(cmd *cobra.Command) {
	o.addPort(cmd, "port of the engine (default: of the running one)")
	o.addDockerHost(cmd)
}

// find returns the selected engine.
func (o *connection) find(ctx context.Context) (*local.Engine, error) {
	folder, err := local.OpenFolder()
	if err != nil {
		return nil, err
	}

	e, err := folder.Find(ctx, o.port, o.dockerHost)
	return e, usageError(err)
}

// usageError turns an error about the choice of an engine into a usage error.
func usageError(err error) error {
	if kit.Is[*local.AmbiguousError](err) {
		return kit.Usagef("%v", err)
	}
	return err
}

// lock waits until no other command starts or stops an engine.
func (o *connection) lock(ctx context.Context, folder *local.Folder) (unlock func(), err error) {
	return folder.Lock(ctx, func() { o.Say("waiting for another \"local\" command to end") })
}

// showLog writes the last lines of an engine that failed to start.
func (o *connection) showLog(err error) {
	failed, ok := errors.AsType[*local.StartError](err)
	if !ok || len(failed.Log) == 0 {
		return
	}

	o.Say("the last lines of its log:")
	for _, line := range failed.Log {
		o.Say("  %s", tty.Clip(line, 500))
	}
}

// working shows what takes long: as progress on a terminal, else on a line of its
// own. The caller calls stop at the end.
func (o *connection) working(what string) (stop func()) {
	if !o.ErrTerminal {
		o.Say("%s", what)
		return func() {}
	}

	began := time.Now()
	return o.Progress(func() string { return what + ": " + tty.Duration(time.Since(began).Truncate(time.Second)) })
}

// suggestion returns a local command with the port of this one.
func (o *connection) suggestion(words string) string {
	if o.port != 0 {
		words += " --port " + strconv.Itoa(o.port)
	}
	return "zae-limiter local " + words
}

// checkTable rejects a name that no stack can have.
func checkTable(name string) error {
	// Names of functions and roles are longer than the name of the table, so a
	// stack that has them allows fewer names.
	if err := (infra.Stack{NoAggregator: true, NoProvisioner: true, NoIAM: true}).Validate(name); err != nil {
		return kit.Usagef("%v", err)
	}
	return nil
}

// enter makes this process a client of the engine: the SDK reads its credentials
// from the environment, and the user's own must not reach it.
func enter(e *local.Engine, table string) {
	// Each of these would override the variables of the engine: AWS_REGION wins
	// over AWS_DEFAULT_REGION, for example, and AWS_PROFILE over the keys.
	for _, name := range []string{
		"AWS_PROFILE", "AWS_SESSION_TOKEN", kit.EnvRegion, kit.EnvTableEndpoint, kit.EnvIgnoreEndpoints,
	} {
		_ = os.Unsetenv(name)
	}

	for _, v := range local.Environment(e.Endpoint(), table) {
		_ = os.Setenv(v.Name, v.Value)
	}
}

// overrides returns warnings about variables that win over those of the engine.
func overrides(e *local.Engine) (warnings []string) {
	if store := os.Getenv(kit.EnvStore); store != "" {
		warnings = append(warnings, kit.EnvStore+" is set to "+kit.Clip(store)+" and selects another store; unset it")
	}
	if other := os.Getenv(kit.EnvTableEndpoint); other != "" && other != e.Endpoint() {
		warnings = append(warnings,
			kit.EnvTableEndpoint+" is set to "+kit.Clip(other)+" and selects another endpoint; unset it")
	}

	// DynamoDB Local shows its tables in every region, but a stack is in one.
	if region := os.Getenv(kit.EnvRegion); region != "" && region != local.Region && e.Kind == local.LocalStack {
		warnings = append(warnings,
			kit.EnvRegion+" is set to "+kit.Clip(region)+", but the stack is in "+local.Region+"; unset it")
	}

	return warnings
}

type localLogsOptions struct {
	connection
	local.LogOptions
}

func newLogs(c *kit.Console) *cobra.Command {
	o := &localLogsOptions{connection: connection{Console: c}, LogOptions: local.LogOptions{Lines: 100}}
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Show the log of an engine of this machine",
		Long: `Show the last lines of an engine's log. With --follow, the command shows new
lines until it is interrupted or the engine ends.

` + help,
		Example: "  zae-limiter local logs --tail 20\n  zae-limiter local logs -f",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLocalLogs(cmd.Context(), o) },
	}

	o.addEngine(cmd)
	cmd.Flags().BoolVarP(&o.Follow, "follow", "f", false, "wait for more lines until interrupted")
	const most = 1_000_000
	kit.AddNumber(cmd, &o.Lines, "tail", "100", "number of lines to show", 0, most)
	return cmd
}

func runLocalLogs(ctx context.Context, o *localLogsOptions) error {
	e, err := o.find(ctx)
	if err == nil {
		err = e.Logs(ctx, o.Out, o.LogOptions)
	}

	// Logs reports a container that is gone with the same error as find reports
	// a missing engine.
	if errors.Is(err, local.ErrNotRunning) {
		return fmt.Errorf("%w; zae-limiter local up starts one", err)
	}
	if err != nil {
		return err
	}

	// With --follow, an interrupt is the usual end, so ctx may have ended.
	if state, err := e.Inspect(context.WithoutCancel(ctx)); err == nil && !state.Running {
		o.Say("%s has ended", e.Kind.Title())
	}
	return nil
}
