package httplimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// TransportOptions configures [NewTransport]. The zero value of a field is its
// default.
type TransportOptions struct {
	// Base makes the calls; default http.DefaultTransport.
	Base http.RoundTripper
	// FailFast returns an error where the transport would wait. The default is to
	// wait for room until the deadline of the request, which http.Client.Timeout
	// sets as well.
	FailFast bool
	// Used returns the amounts that a call used in total, for the limits that it
	// names. It is called once, when the response's body is closed. It may read
	// the header and, if the body was read to its end, the trailer.
	Used func(*http.Response) limiter.Amounts
	// Keep reports whether a call is charged; default Exchange.Served. If it is
	// not, the lease is rolled back.
	Keep func(*http.Request, Exchange) bool
	// OnError receives what no caller sees: a failed commit or rollback, an
	// amount that Used returned for an unknown limit, and an outage under
	// [limiter.Allow]. Default: dropped.
	OnError func(*http.Request, error)
}

// Exchange describes a call, for TransportOptions.Keep.
type Exchange struct {
	Response *http.Response // nil if there was none; its body is closed
	Err      error          // the error of Base
	Sent     bool           // the server may have seen the request
}

// Served reports whether the server may have done the work: it may have seen the
// request, and did not answer with status 429 or 5xx.
func (e Exchange) Served() bool {
	if e.Response == nil {
		return e.Sent
	}
	return e.Response.StatusCode != http.StatusTooManyRequests && e.Response.StatusCode < http.StatusInternalServerError
}

// Transport is an [http.RoundTripper] that limits calls to other services. It
// acquires before a call, and settles when the caller closes the response's body.
// Until then the caller may correct the amounts with Used and the context of
// http.Response.Request.
//
// If a server answers 429 or 503 with Retry-After, calls for the same host, entity
// and resource wait until then, at most [MaxRetryAfter]. Other processes do not
// learn of it. A Transport never repeats a request.
//
// An error is an *[limiter.ExceededError], an *[limiter.UnavailableError], an
// *[RetryAfterError], the error of the function that maps requests, or an error of
// Base. If the deadline leaves no time to wait, it also wraps
// [context.DeadlineExceeded]. A Transport is safe for concurrent use.
type Transport struct {
	lim     *limiter.RateLimiter
	request func(*http.Request) (limiter.Request, error)
	opts    TransportOptions
	pauses  pauses
}

// NewTransport returns a transport that charges each call with the limiter's
// request that the function returns. The function must not change the call or read
// its body. NewTransport panics if lim or request is nil.
func NewTransport(
	lim *limiter.RateLimiter, request func(*http.Request) (limiter.Request, error), opts *TransportOptions,
) *Transport {
	if lim == nil || request == nil {
		panic("httplimit: NewTransport needs a limiter and a function")
	}

	t := &Transport{lim: lim, request: request}
	if opts != nil {
		t.opts = *opts
	}

	if t.opts.Base == nil {
		t.opts.Base = http.DefaultTransport
	}
	if t.opts.Used == nil {
		t.opts.Used = func(*http.Response) limiter.Amounts { return limiter.Amounts{} }
	}
	if t.opts.Keep == nil {
		t.opts.Keep = func(_ *http.Request, e Exchange) bool { return e.Served() }
	}
	if t.opts.OnError == nil {
		t.opts.OnError = func(*http.Request, error) {}
	}
	return t
}

// RoundTrip makes a call once there is room for it.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	req, err := t.request(r)
	if errors.Is(err, ErrSkip) {
		return t.opts.Base.RoundTrip(r)
	}

	if err != nil {
		closeBody(r)
		return nil, fmt.Errorf("assign a limit: %w", err)
	}

	key := pauseKey{r.URL.Host, req.Entity, req.Resource}
	lease, err := t.acquire(r.Context(), key, req)
	if err != nil {
		closeBody(r)
		return nil, err
	}

	return t.call(r, key, lease)
}

// acquire returns a lease for a call that may begin at once. A pause may begin while
// the call waits for room. The call then waits for its end without a lease.
func (t *Transport) acquire(ctx context.Context, key pauseKey, req limiter.Request) (*limiter.Lease, error) {
	acquire := t.lim.Wait
	if t.opts.FailFast {
		acquire = t.lim.Acquire
	}

	for {
		if err := t.pauses.await(ctx, key, t.opts.FailFast); err != nil {
			return nil, err
		}

		lease, err := acquire(ctx, req)
		if err != nil || t.pauses.end(key, time.Now()).IsZero() {
			return lease, err
		}

		// A call that waits for the end of a pause must not hold tokens.
		if err := lease.Rollback(ctx); err != nil {
			return nil, err
		}
	}
}

// call makes the call and leaves the lease to the body of its response.
func (t *Transport) call(r *http.Request, key pauseKey, lease *limiter.Lease) (*http.Response, error) {
	sent := new(sending)
	r = r.WithContext(WithLease(sent.watch(r.Context()), lease))

	resp, err := t.opts.Base.RoundTrip(r)
	if err != nil {
		t.settle(r, lease, Exchange{Err: err, Sent: sent.possible()})
		return nil, err
	}

	t.pauses.record(key, resp, time.Now())

	// The caller finds the lease in the context of this request.
	resp.Request = r

	end := func() { t.settle(r, lease, Exchange{Response: resp, Sent: true}) }

	// Without a body there is nothing for the caller to close.
	if resp.Body == nil || resp.Body == http.NoBody {
		end()
	} else {
		resp.Body = onClose(resp.Body, end)
	}
	return resp, nil
}

// settle ends the lease of a call.
func (t *Transport) settle(r *http.Request, lease *limiter.Lease, e Exchange) {
	keep := t.opts.Keep(r, e)

	// Usage counts only if the call is charged. The caller may have ended the
	// lease already.
	if keep && e.Response != nil {
		for limit, n := range t.opts.Used(e.Response).All() {
			if err := lease.Used(limit, n); err != nil && !errors.Is(err, limiter.ErrLeaseDone) {
				t.opts.OnError(r, err)
			}
		}
	}

	if err := settle(r.Context(), lease, keep); err != nil {
		t.opts.OnError(r, err)
	}
}

// CloseIdleConnections closes the idle connections of Base, if it can.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.opts.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// closeBody closes the body of a call that is not made, as RoundTripper requires.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// sending observes whether a request left this process.
type sending struct {
	traced, wrote atomic.Bool
}

// watch returns a context for the request. Hooks of the caller run as well.
func (s *sending) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { s.traced.Store(true) },
		WroteHeaders: func() { s.wrote.Store(true) },
	})
}

// possible reports whether the server may have seen the request. A RoundTripper
// that reports no events may have sent anything.
func (s *sending) possible() bool { return s.wrote.Load() || !s.traced.Load() }

// body is a response's body that calls end after it is closed.
type body struct {
	io.ReadCloser
	end func() // runs once
}

// Close closes the body and settles the lease.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// duplex is a body that can be written, after status 101.
type duplex struct {
	*body
	io.Writer
}

// onClose returns a body that calls end once when it is closed.
func onClose(below io.ReadCloser, end func()) io.ReadCloser {
	b := &body{below, sync.OnceFunc(end)}
	if w, ok := below.(io.Writer); ok {
		return duplex{b, w}
	}
	return b
}
