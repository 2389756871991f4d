package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/local"
)

type localLogsOptions struct {
	localConnection
	local.LogOptions
}

func newLocalLogs(c *kit.Console) *cobra.Command {
	o := &localLogsOptions{localConnection: localConnection{Console: c}, LogOptions: local.LogOptions{Lines: 100}}
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Show the log of an engine of this machine",
		Long: `Show the last lines of an engine's log. With --follow, the command shows new
lines until it is interrupted or the engine ends.

` + localHelp,
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
