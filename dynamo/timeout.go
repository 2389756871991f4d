package dynamo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// A table that accepts a request and never answers must not hold its caller. A
// charge, a read or a ping has Options.Timeout in all, and each of its tries a
// part of that: one connection that hangs leaves time for another. Listings and
// changes limit each request alone. Long operations have the patience of the
// HTTP client, since they may wait for a table that is busy.

const (
	defaultTimeout = time.Second
	// shortestTry is what a try gets at least, however little time there is: a new
	// connection takes several round trips.
	shortestTry = 100 * time.Millisecond
)

// tryTime is how long a try may be silent of a call that has total in all. Three
// tries, and the pauses between them, fit in.
func tryTime(total time.Duration) time.Duration { return max(total*3/10, shortestTry) }

// tryKey is where a context says how long a try may be silent: 0 for as long as
// the HTTP client allows.
type tryKey struct{}

func withTries(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, tryKey{}, limit)
}

// patient is ctx for a long operation, whose requests wait as long as the HTTP
// client does.
func patient(ctx context.Context) context.Context { return withTries(ctx, 0) }

// timed is ctx for a call that has Options.Timeout in all, unless it is part of
// one that knows its time. Credentials that have to be fetched come first and do
// not count.
func (s *store) timed(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if _, known := ctx.Value(tryKey{}).(time.Duration); known || s.opts.Timeout < 0 {
		return ctx, func() {}, nil
	}
	if err := s.signable(ctx); err != nil {
		return nil, nil, s.explain(err)
	}
	total := s.opts.Timeout
	if end, ok := ctx.Deadline(); ok {
		total = min(total, time.Until(end))
	}
	ctx, cancel := context.WithTimeoutCause(withTries(ctx, tryTime(total)), s.opts.Timeout, errOverdue)
	return ctx, cancel, nil
}

// errOverdue is why a context ended that timed made.
var errOverdue = errors.New("the time for one call is over")

// overdue is err, or a sentence about the table if Options.Timeout was up.
func (s *store) overdue(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == errOverdue { //nolint:errorlint // the very one
		return s.silent(err)
	}
	return err
}

// settling is ctx for a give-back, whose time in all is the caller's.
func (s *store) settling(ctx context.Context) context.Context {
	if _, known := ctx.Value(tryKey{}).(time.Duration); known || s.opts.Timeout < 0 {
		return ctx
	}
	total := undoTimeout
	if end, ok := ctx.Deadline(); ok {
		total = time.Until(end)
	}
	return withTries(ctx, tryTime(total))
}

// signable fetches credentials, unless there are some that hold.
func (s *store) signable(ctx context.Context) error {
	if s.config.Credentials == nil || aws.IsCredentialsProvider(s.config.Credentials, (*aws.AnonymousCredentials)(nil)) {
		return nil
	}
	if _, err := s.config.Credentials.Retrieve(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "sign", Err: fmt.Errorf("get credentials: %w", err)}
	}
	return nil
}

// tries ends a try that has been silent for too long.
type tries struct{ *store }

// ID names the middleware.
func (tries) ID() string { return "SilentTry" }

// HandleDeserialize sends a request and watches over the answer.
func (t tries) HandleDeserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	limit := t.tryOf(ctx)
	if limit <= 0 {
		return next.HandleDeserialize(ctx, in)
	}
	inner, cancel := context.WithCancel(ctx)
	w := &watch{limit: limit, cancel: cancel}
	w.timer = time.AfterFunc(limit, w.fire)
	out, metadata, err := next.HandleDeserialize(inner, in)
	response, ok := out.RawResponse.(*smithyhttp.Response)
	if err == nil && ok {
		w.ReadCloser, response.Body = response.Body, w
		return out, metadata, nil
	}
	w.end()
	if err != nil && w.fired.Load() && ctx.Err() == nil {
		err = &smithyhttp.RequestSendError{Err: &silence{limit}} // which leaves open whether it was carried out
	}
	return out, metadata, err
}

// tryOf is how long a try may be silent, 0 for as long as the HTTP client allows.
func (s *store) tryOf(ctx context.Context) time.Duration {
	if limit, known := ctx.Value(tryKey{}).(time.Duration); known {
		return limit
	}
	if s.opts.Timeout < 0 {
		return 0
	}
	return tryTime(s.opts.Timeout)
}

// watch is the body of an answer, which may take as long as it keeps coming: a
// page of a listing has up to a megabyte.
type watch struct {
	io.ReadCloser
	limit  time.Duration
	timer  *time.Timer
	cancel context.CancelFunc
	fired  atomic.Bool
}

func (w *watch) fire() {
	w.fired.Store(true)
	w.cancel()
}

func (w *watch) end() {
	w.timer.Stop()
	w.cancel()
}

// Read reads, and fails with a silence if nothing came for too long.
func (w *watch) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	switch {
	case err == nil:
		w.timer.Reset(w.limit)
	case w.fired.Load() && !errors.Is(err, io.EOF):
		err = &silence{w.limit}
	}
	return n, err
}

// Close ends the watch.
func (w *watch) Close() error {
	defer w.end()
	return w.ReadCloser.Close()
}

// silence is a try that was ended because nothing came. It is no cancellation:
// another try may be answered.
type silence struct{ after time.Duration }

// Error says for how long nothing came.
func (s *silence) Error() string { return fmt.Sprintf("no answer within %v", s.after) }

// Timeout marks it as one for package net.
func (*silence) Timeout() bool { return true }

// RetryableError makes the SDK try again.
func (*silence) RetryableError() bool { return true }

// silentError is a call that ended without an answer.
type silentError struct {
	text string
	err  error // what the SDK made of it, which says less
}

// Error is a sentence with what to look at.
func (e *silentError) Error() string { return e.text }

// Unwrap is what the SDK said.
func (e *silentError) Unwrap() error { return e.err }

func (s *store) silent(err error) error {
	where := "its region, " + s.opts.Region + ","
	if endpoint := s.client.Options().BaseEndpoint; endpoint != nil {
		where = "its endpoint, " + *endpoint + ","
	}
	return &silentError{fmt.Sprintf("table %q did not answer in time; can %s be reached from here?", s.table, where), err}
}

func isSilent(err error) bool {
	_, ok := errors.AsType[*silentError](err)
	return ok
}
