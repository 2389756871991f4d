package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/local"
)

type localDownOptions struct {
	connection
	purge bool
}

func newDown(c *kit.Console) *cobra.Command {
	o := &localDownOptions{connection: connection{Console: c}}
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop an engine of this machine",
		Long: `Stop an engine that "local up" started, and its aggregators. The command stops
nothing else. The data are kept unless --purge is set; LocalStack itself keeps
tables only while it runs. It is no error if no engine is running.

` + help,
		Example: "  zae-limiter local down\n  zae-limiter local down --port 8000 --purge",
		Args:    kit.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runLocalDown(cmd.Context(), o) },
	}

	o.addEngine(cmd)
	cmd.Flags().BoolVar(&o.purge, "purge", false, "remove the data, too")
	return cmd
}

func runLocalDown(ctx context.Context, o *localDownOptions) error {
	folder, err := local.OpenFolder()
	if err != nil {
		return err
	}

	// Another command may just be starting the engine that this one would stop.
	unlock, err := o.lock(ctx, folder)
	if err != nil {
		return err
	}
	defer unlock()

	e, err := o.find(ctx)
	switch {
	case errors.Is(err, local.ErrNotRunning) && o.purge:
		return o.purgeLeftover(ctx, folder)
	case errors.Is(err, local.ErrNotRunning):
		o.Done("There is nothing to stop: %v", err)
		return nil
	case err != nil:
		return err
	}

	state, err := e.Inspect(ctx)
	if err != nil {
		return err
	}

	// Down leaves a container of another program alone, so it would report a
	// stop that did not happen.
	if e.Foreign && state.Running {
		return fmt.Errorf("another program started the container %s; docker rm --force %s removes it", e.Container,
			e.Container)
	}

	stop := o.working("stopping " + e.Kind.Title())
	err = folder.Down(ctx, e, o.purge)
	stop()
	if err != nil {
		return err
	}

	o.reportDown(e, state.Running)
	return nil
}

func (o *localDownOptions) reportDown(e *local.Engine, ran bool) {
	kept := "its data are kept"
	if o.purge {
		kept = "its data are removed"
	}

	if ran {
		o.Done("Stopped %s at %s; %s", e.Kind.Title(), e.Endpoint(), kept)
	} else {
		o.Done("%s at %s had stopped already; %s", e.Kind.Title(), e.Endpoint(), kept)
	}
}

// purgeLeftover removes the data of an engine that has stopped.
func (o *localDownOptions) purgeLeftover(ctx context.Context, folder *local.Folder) error {
	port := o.port
	if port == 0 {
		ports, err := folder.Leftover()
		switch {
		case err != nil:
			return err
		case len(ports) > 1:
			return usageError(&local.AmbiguousError{Ports: ports, Ended: true})
		case len(ports) == 1:
			port = ports[0]
		}
	}

	removed, err := folder.Purge(ctx, port)
	switch {
	case err != nil:
		return err
	case removed:
		o.Done("Removed the data of the engine at port %d", port)
	default:
		o.Done("No engine is running, and there are no data")
	}
	return nil
}
