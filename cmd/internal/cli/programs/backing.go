package programs

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/cmd/internal/otelsdk"
	"github.com/zeroae/zae-limiter-go/escrow"
)

// backing is what a server of this program works with: an observed store, and the
// telemetry.
type backing struct {
	repo     limiter.Repository
	observer *otelsdk.Telemetry
	log      *slog.Logger
	closed   atomic.Bool
}

// openBacking starts the telemetry and opens the store, with an escrow around it
// if held is set.
func openBacking(
	ctx context.Context, conn *kit.Connection, service string, options kit.OpenOptions, held bool,
) (*backing, error) {
	if err := (limiter.Namespace{Name: options.Namespace}).Validate(); err != nil {
		return nil, kit.Usagef("%v", err)
	}

	log := otelsdk.NewLogger(conn.Err, slog.LevelWarn)
	observer, err := otelsdk.Start(ctx, &otelsdk.Options{
		Service: "zae-limiter " + service, Version: conn.Version, Log: log,
	})
	if err != nil {
		return nil, kit.Usagef("%v", err)
	}

	b := &backing{observer: observer, log: log}
	// The telemetry exports the capacity that requests consume.
	options.CountCapacity = true
	repo, err := conn.OpenAs(ctx, options)
	if err != nil {
		// The store did not open, so this ends only the telemetry.
		return nil, errors.Join(err, b.abandon(ctx, abandonTime))
	}

	if held {
		repo = escrow.New(repo, nil) //nolint:contextcheck // it returns tokens after the calls that took them
	}

	// If the next step fails, abandon must close the store, too.
	b.repo = repo
	observed, err := observer.Wrap(repo, nil)
	if err != nil {
		return nil, errors.Join(err, b.abandon(ctx, abandonTime))
	}
	b.repo = observed

	return b, nil
}

// abandonTime bounds the cleanup after a server could not start.
const abandonTime = time.Second

// abandon closes everything after a failure, if close was not called.
func (b *backing) abandon(ctx context.Context, within time.Duration) error {
	if b.closed.Load() {
		return nil
	}

	// The context is often done when a start fails, and closing still needs
	// some time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	return b.close(ctx)
}

// close closes the store and then sends what telemetry has collected, both until
// ctx ends. Telemetry that cannot be sent is no failure.
func (b *backing) close(ctx context.Context) error {
	b.closed.Store(true)

	var err error
	if b.repo != nil {
		err = b.closeStore(ctx)
	}

	if err := b.observer.Shutdown(ctx); err != nil {
		b.log.Warn("not all telemetry was sent", "error", err.Error())
	}
	return err
}

func (b *backing) closeStore(ctx context.Context) error {
	// A quarter of the time remains for telemetry.
	if until, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(until)*3/4)
		defer cancel()
	}

	done := make(chan error, 1)
	// Close takes no context, so a store that hangs is left behind.
	go func() { done <- b.repo.Close() }()

	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errors.New("the store did not close in time; tokens that it holds may be lost")
	}
}

// tlsFileError names the flag of a TLS file that cannot be read.
func tlsFileError(files listen.TLSFiles, err error) error {
	flags := map[string]string{files.ClientCA: "--tls-client-ca", files.Key: "--tls-key", files.Cert: "--tls-cert"}
	if bad, ok := errors.AsType[*fs.PathError](err); ok {
		return kit.FileError(flags[bad.Path], err)
	}
	return kit.Usagef("%v", err)
}
