package httplimit

import (
	"context"
	"errors"
	"net/http"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/outlive"
)

// ErrSkip makes a request pass without a limit. The function that maps requests
// returns it, for example for a health check.
var ErrSkip = errors.New("request is not limited")

// Options configures [New]. The zero value of a field is its default.
type Options struct {
	// Fields configures the fields that describe limits.
	Fields Fields
	// Keep reports whether an answer is charged; default Result.Served. If it is
	// not, the lease is rolled back, including what Used recorded.
	Keep func(*http.Request, Result) bool
	// Refuse answers a request that was not admitted, after Fields were set;
	// default: the NewProblem of err. Clients must not see the text of err.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
	// Challenge is the value of WWW-Authenticate in the answer to a request without
	// an entity, such as `Bearer realm="api"`; default: ApiKey.
	Challenge string
	// OnError receives what no client sees: the cause of a status 400, 500 or
	// 503, an outage under [limiter.Allow], and a failed commit or rollback. It
	// is called by the goroutine of the request. Default: dropped.
	OnError func(*http.Request, error)
}

// Result describes an answer, for Options.Keep.
type Result struct {
	Status   int  // as sent; 101 if the handler took the connection over
	Panicked bool // the handler panicked, also with http.ErrAbortHandler
	Gone     bool // the first write or flush of the answer failed, so that nothing was delivered
	Left     bool // the request ended after the answer had begun
}

// Served reports whether the handler did its work: the status is below 500, the
// handler did not panic, and its first write or flush did not fail. A client that
// leaves during the answer is charged, also if the handler panics then, as
// httputil.ReverseProxy does. So is a client whose request ended before the
// answer: it may have closed its sending side alone, and read on.
func (r Result) Served() bool {
	return !r.Gone && r.Status < http.StatusInternalServerError && (!r.Panicked || r.Left)
}

// Middleware limits the requests of HTTP handlers. It is safe for concurrent use.
type Middleware struct {
	lim     *limiter.RateLimiter
	request func(*http.Request) (limiter.Request, error)
	opts    Options
}

// New returns a middleware that charges each HTTP request with the limiter's
// request that the function returns. If the function fails, the client gets the
// [Problem] that it returned, or status 400. If the request has no entity, the
// client gets status 401. New panics if lim or request is nil.
func New(lim *limiter.RateLimiter, request func(*http.Request) (limiter.Request, error), opts *Options) *Middleware {
	if lim == nil || request == nil {
		panic("httplimit: New needs a limiter and a function")
	}

	m := &Middleware{lim: lim, request: request}
	if opts != nil {
		m.opts = *opts
	}

	if m.opts.Keep == nil {
		m.opts.Keep = func(_ *http.Request, result Result) bool { return result.Served() }
	}
	if m.opts.Refuse == nil {
		m.opts.Refuse = func(w http.ResponseWriter, r *http.Request, err error) { NewProblem(err).ServeHTTP(w, r) }
	}
	if m.opts.OnError == nil {
		m.opts.OnError = func(*http.Request, error) {}
	}
	return m
}

// Handler returns next behind the limits. It acquires before next runs, and does
// not run next if the client surely left by then, by resetting its HTTP/2 stream.
// After next has returned it commits the lease, or rolls it back where
// Options.Keep says so.
//
// The handler's goroutine settles, before net/http sends the rest of the answer.
// A commit needs the store only if the handler changed the lease, for example with
// [Used]. It is not lost if the client leaves, and a server's Shutdown waits for
// it.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, err := m.acquire(r)
		switch {
		case errors.Is(err, ErrSkip):
			next.ServeHTTP(w, r)
		case err != nil:
			m.refuse(w, r, err)
		default:
			m.opts.Fields.Set(w.Header(), lease.Decision())
			m.serve(next, w, r, lease)
		}
	})
}

// acquire returns the lease of a request. If the client leaves in the meantime, the
// charge goes on and is rolled back.
func (m *Middleware) acquire(r *http.Request) (*limiter.Lease, error) {
	req, err := m.request(r)
	if err != nil {
		return nil, mappingError(err)
	}

	if req.Entity == "" {
		return nil, &Problem{
			Status: http.StatusUnauthorized, Challenge: m.opts.Challenge,
			Detail: "the request has no key, or no other sign of who sends it",
		}
	}

	// A client that has reset its stream pays nothing, since its handler does
	// not run.
	if err := departure(r); err != nil {
		return nil, err
	}

	// A charge that is cut off may be stored or not. One that may linger has an
	// outcome, which can be rolled back.
	ctx, cancel := outlive.Context(r.Context(), outlive.DefaultTime)
	defer cancel()

	lease, err := m.lim.Acquire(ctx, req)

	// The client left during the charge, so its handler does not run.
	if gone := departure(r); err == nil && gone != nil {
		if err := lease.Rollback(ctx); err != nil {
			m.opts.OnError(r, err)
		}
		return nil, gone
	}

	return lease, err
}

// departure returns the error of a request that needs no answer, or nil. A cancelled
// context of an HTTP/1.1 request proves nothing: net/http cancels it when the client
// closes its sending side, and the client may still wait for the answer.
func departure(r *http.Request) error {
	err := r.Context().Err()
	if r.ProtoMajor < 2 && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// mappingError returns the error for a request that could not be mapped. A cause
// that this package does not know is bad input.
func mappingError(err error) error {
	_, invalid := errors.AsType[*limiter.InvalidError](err)

	// NewProblem knows every error to which it gives another status.
	if invalid || errors.Is(err, ErrSkip) || NewProblem(err).Status != http.StatusInternalServerError {
		return err
	}

	return &badRequest{err}
}

// badRequest is the error of a function that maps requests.
type badRequest struct{ cause error }

func (e *badRequest) Error() string { return "request has no limits: " + e.cause.Error() }

func (e *badRequest) Unwrap() []error {
	return []error{e.cause, &Problem{
		Status: http.StatusBadRequest, Detail: "the request cannot be assigned to a limit",
	}}
}

// refuse answers a request that was not admitted.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if isReportable(err) {
		m.opts.OnError(r, err)
	}

	m.opts.Fields.setRefused(w.Header(), err)
	m.opts.Refuse(w, r, err)
}

// isReportable reports whether err says more than the client's answer.
func isReportable(err error) bool {
	if _, ok := errors.AsType[*badRequest](err); ok {
		return true
	}

	_, refusal := errors.AsType[*limiter.ExceededError](err)
	_, disabled := errors.AsType[*limiter.DisabledError](err)
	_, chosen := errors.AsType[*Problem](err)

	return !refusal && !disabled && !chosen && !errors.Is(err, context.Canceled)
}

// serve runs next with a lease and settles it, also if next panics.
func (m *Middleware) serve(next http.Handler, w http.ResponseWriter, r *http.Request, lease *limiter.Lease) {
	observed := &writer{ResponseWriter: w, request: r}
	defer m.settle(r, lease, observed)

	next.ServeHTTP(observed.asBelow(), r.WithContext(WithLease(r.Context(), lease)))

	// A panic skips this.
	observed.returned = true
}

// settle ends the lease of an answer.
func (m *Middleware) settle(r *http.Request, lease *limiter.Lease, observed *writer) {
	if err := settle(r.Context(), lease, m.opts.Keep(r, observed.result())); err != nil {
		m.opts.OnError(r, err)
	}
}

// settle ends the lease unless the caller has ended it. It returns the error, or
// the outage that the limiter allowed.
func settle(ctx context.Context, lease *limiter.Lease, keep bool) error {
	end := lease.Rollback
	if keep {
		end = lease.Commit
	}

	if err := end(ctx); err != nil && !errors.Is(err, limiter.ErrLeaseDone) {
		return err
	}

	return lease.Outage()
}

type leaseKey struct{}

// WithLease returns a context that carries lease, for [Lease] and [Used].
func WithLease(ctx context.Context, lease *limiter.Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, lease)
}

// Lease returns the lease of the request with this context. It returns nil if
// there is none. A nil lease has ended, so its methods do nothing.
func Lease(ctx context.Context) *limiter.Lease {
	lease, _ := ctx.Value(leaseKey{}).(*limiter.Lease)
	return lease
}

// Used records that the request with this context used n tokens of limit in
// total. It returns the errors of [limiter.Lease.Used], and
// [limiter.ErrLeaseDone] if ctx carries no lease.
func Used(ctx context.Context, limit string, n int64) error {
	return Lease(ctx).Used(limit, n)
}
