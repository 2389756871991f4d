package dynamo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// A table that accepts a request and never answers must not block its caller. A
// charge, a read or a ping has Options.Timeout in all, and each of its tries a
// part of that: one connection that hangs leaves time for another. Listings and
// changes limit each request alone. Long operations have only the timeouts of the
// HTTP client, since they may wait for a busy table.

const (
	defaultTimeout = time.Second
	// minTryTimeout is the least timeout of a try: a new connection takes several
	// round trips.
	minTryTimeout = 100 * time.Millisecond
)

// splitTimeout returns the timeout of a try in a call that has total in all. Three
// tries and the pauses between them fit in.
func splitTimeout(total time.Duration) time.Duration { return max(total*3/10, minTryTimeout) }

// tryTimeoutKey is the context key of the timeout of a try, a time.Duration. 0
// leaves the timeout to the HTTP client.
type tryTimeoutKey struct{}

// withTryTimeout returns a context whose tries end after d without a byte.
func withTryTimeout(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, tryTimeoutKey{}, d)
}

// withoutTryTimeout returns a context for a long operation, whose tries have only
// the timeouts of the HTTP client.
func withoutTryTimeout(ctx context.Context) context.Context { return withTryTimeout(ctx, 0) }

// withTimeout returns a context that ends after Options.Timeout, unless ctx has a
// timeout for tries already. It fetches credentials and waits for the read budget
// first, since that does not count.
func (s *store) withTimeout(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if _, ok := ctx.Value(tryTimeoutKey{}).(time.Duration); ok || s.opts.Timeout < 0 {
		return ctx, func() {}, nil
	}

	if err := s.fetchCredentials(ctx); err != nil {
		return nil, nil, s.explain(err)
	}

	ctx, endBudget, err := prepay(ctx)
	if err != nil {
		return nil, nil, err
	}

	// The deadline of the caller makes the tries shorter. Only the end of
	// Options.Timeout has the cause errTimeout.
	total := s.opts.Timeout
	if end, ok := ctx.Deadline(); ok {
		total = min(total, time.Until(end))
	}

	ctx, cancel := context.WithTimeoutCause(withTryTimeout(ctx, splitTimeout(total)), s.opts.Timeout, errTimeout)
	if !hasBudget(ctx) {
		return ctx, cancel, nil
	}
	return ctx, func() { cancel(); endBudget() }, nil
}

// errTimeout is the cause of a context that ended after Options.Timeout.
var errTimeout = errors.New("the time for one call is over")

// explainTimeout returns err, or an error about the table if err comes from
// Options.Timeout.
func (s *store) explainTimeout(ctx context.Context, err error) error {
	//nolint:errorlint // the cause is never wrapped
	if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == errTimeout {
		return s.timeoutError(err)
	}
	return err
}

// withCreditTries returns a context for a credit: its tries share the time of the
// caller.
func (s *store) withCreditTries(ctx context.Context) context.Context {
	if _, ok := ctx.Value(tryTimeoutKey{}).(time.Duration); ok || s.opts.Timeout < 0 {
		return ctx
	}

	total := undoTimeout
	if end, ok := ctx.Deadline(); ok {
		total = time.Until(end)
	}
	return withTryTimeout(ctx, splitTimeout(total))
}

// fetchCredentials fetches credentials, unless valid ones are cached.
func (s *store) fetchCredentials(ctx context.Context) error {
	if s.config.Credentials == nil || aws.IsCredentialsProvider(
		s.config.Credentials, (*aws.AnonymousCredentials)(nil),
	) {
		return nil
	}

	if _, err := s.config.Credentials.Retrieve(ctx); err != nil {
		// If the caller has left, the credentials need not be wrong.
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &smithy.OperationError{
			ServiceID: "DynamoDB", OperationName: "sign", Err: fmt.Errorf("get credentials: %w", err),
		}
	}
	return nil
}

// tryTimeouts is middleware that ends a try after too long without a byte.
type tryTimeouts struct{ *store }

// ID returns the name of the middleware.
func (tryTimeouts) ID() string { return "SilentTry" }

// HandleDeserialize sends a request as watch does.
func (t tryTimeouts) HandleDeserialize(
	ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
) (out middleware.DeserializeOutput, metadata middleware.Metadata, err error) {
	_, err = t.watch(ctx, func(ctx context.Context) (*http.Response, error) { //nolint:bodyclose // the SDK closes it
		out, metadata, err = next.HandleDeserialize(ctx, in)
		if response, ok := out.RawResponse.(*smithyhttp.Response); ok {
			return response.Response, err
		}
		return nil, err
	})

	if _, silent := err.(*noResponseError); silent { //nolint:errorlint // watch does not wrap it
		err = &smithyhttp.RequestSendError{Err: err} // the request may have been executed
	}
	return out, metadata, err
}

// watch counts a request, sends it, watches the response and reads its date. The
// error is a *noResponseError if the request may have been executed although its
// timeout ended.
func (s *store) watch(ctx context.Context, send func(context.Context) (*http.Response, error)) (*http.Response, error) {
	s.requests.Add(1)
	sent, limit := s.clocks(), s.tryTimeout(ctx)

	if limit <= 0 {
		response, err := send(ctx)
		if err == nil && response != nil {
			s.observeDate(response.Header, sent)
		}
		return response, err
	}

	inner, cancel := context.WithCancel(ctx)
	w := &watchedBody{limit: limit, cancel: cancel}
	w.timer = time.AfterFunc(limit, w.fire)

	response, err := send(inner)
	if err == nil && response != nil {
		s.observeDate(response.Header, sent)
		// The body resets the timer with every read, and stops it when closed.
		w.ReadCloser, response.Body = response.Body, w
		return response, nil
	}

	w.stop()
	switch end := ctx.Err(); {
	case err == nil || !w.fired.Load():
	case end != nil: // on a busy machine both timers fire, and the caller's counts
		err = &smithy.CanceledError{Err: end}
	default:
		err = &noResponseError{limit}
	}
	return response, err
}

// tryTimeout returns the timeout of a try, 0 to leave it to the HTTP client.
func (s *store) tryTimeout(ctx context.Context) time.Duration {
	if limit, ok := ctx.Value(tryTimeoutKey{}).(time.Duration); ok {
		return limit
	}
	if s.opts.Timeout < 0 {
		return 0
	}
	return splitTimeout(s.opts.Timeout)
}

// watchedBody is the body of a response. The timeout starts anew with every read:
// a page of a listing has up to a megabyte.
type watchedBody struct {
	io.ReadCloser
	limit  time.Duration
	timer  *time.Timer
	cancel context.CancelFunc
	fired  atomic.Bool
}

// fire ends the try.
func (w *watchedBody) fire() {
	w.fired.Store(true)
	w.cancel()
}

// stop releases the timer and the context.
func (w *watchedBody) stop() {
	w.timer.Stop()
	w.cancel()
}

// Read reads the body. It returns a noResponseError after too long without a byte.
func (w *watchedBody) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	switch {
	case err == nil:
		w.timer.Reset(w.limit)
	// After io.EOF the body is complete, even if the timer has just fired.
	case w.fired.Load() && !errors.Is(err, io.EOF):
		err = &noResponseError{w.limit}
	}
	return n, err
}

// Close closes the body and stops the timer.
func (w *watchedBody) Close() error {
	defer w.stop()
	return w.ReadCloser.Close()
}

// noResponseError reports that a try ended without a response. It is not a
// cancellation: another try may succeed.
type noResponseError struct{ after time.Duration }

// Error returns the text of the error, with the timeout.
func (e *noResponseError) Error() string { return fmt.Sprintf("no answer within %v", e.after) }

// Timeout marks the error as a timeout for package net.
func (*noResponseError) Timeout() bool { return true }

// RetryableError makes the SDK try again.
func (*noResponseError) RetryableError() bool { return true }

// timeoutError reports that a call ended without a response.
type timeoutError struct {
	text string
	err  error // of the SDK, less helpful
}

// Error returns the text of the error.
func (e *timeoutError) Error() string { return e.text }

// Unwrap returns the error of the SDK.
func (e *timeoutError) Unwrap() error { return e.err }

// timeoutError returns a timeoutError that names the table and where it is reached.
func (s *store) timeoutError(err error) error {
	where := "its region, " + s.opts.Region + ","
	if endpoint := s.client.Options().BaseEndpoint; endpoint != nil {
		where = "its endpoint, " + *endpoint + ","
	}
	return &timeoutError{
		fmt.Sprintf("table %q did not answer in time; check that %s is reachable", s.table, where), err,
	}
}

// isTimeout reports whether a call ended without a response.
func isTimeout(err error) bool {
	_, ok := errors.AsType[*timeoutError](err)
	return ok
}
