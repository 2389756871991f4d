package grpclimit

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/outlive"
)

// ErrSkip makes a call pass without a limit. The function that maps calls returns
// it, for example for a health check.
var ErrSkip = errors.New("call is not limited")

// Call describes a gRPC call.
type Call struct {
	Method  string // such as /chat.v1.Chat/Complete
	Message any    // the request of a unary call; nil for a stream
}

// Options configures [New]. The zero value of a field is its default.
type Options struct {
	// Keep reports whether a call is charged; default Result.Served for servers and
	// Result.Counted for clients. If it is not, the lease is rolled back, including
	// what Used and Settle recorded.
	Keep func(Call, Result) bool
	// Settle corrects the lease from a message of the answer, for example with the
	// tokens that it counts. It is called with the reply of a unary call, and with
	// each message of a stream: before the server sends it, or after the client
	// received it. Default: nothing.
	Settle func(ctx context.Context, lease *limiter.Lease, message any) error
	// FailFast makes clients fail where they would wait for room. Servers never
	// wait.
	FailFast bool
	// OnError receives what no client sees: the cause of a status that is not a
	// refusal, an outage under [limiter.Allow], an error of Settle, and a failed
	// commit or rollback. Default: dropped.
	OnError func(context.Context, Call, error)
}

// Result describes how a call ended, for Options.Keep.
type Result struct {
	Err       error // of the handler or the call
	Panicked  bool  // the handler panicked
	Delivered bool  // a message of the answer was sent or received
	Left      bool  // the caller had cancelled the call, or its deadline had passed, when it ended
}

// Served reports whether a server did the work of a call: it did not panic, and it
// delivered a message, or its code says that the fault was the caller's. The codes
// Unknown, Unimplemented, Internal, Unavailable and DataLoss are the faults of
// others, and so are Canceled and DeadlineExceeded unless the caller left: then the
// handler had begun to work for it.
func (r Result) Served() bool {
	if r.Panicked {
		return false
	}
	if r.Delivered {
		return true
	}

	switch code(r.Err) {
	case codes.Canceled, codes.DeadlineExceeded:
		return r.Left
	case codes.Unknown, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		return false
	}
	return true
}

// Counted reports whether the other side may have counted a call of a client: it
// delivered a message, or did not fail with ResourceExhausted, Unknown,
// Unimplemented, Internal, Unavailable or DataLoss. A call that was cancelled or
// late may have been served.
func (r Result) Counted() bool {
	if r.Delivered {
		return true
	}
	switch code(r.Err) {
	case codes.ResourceExhausted, codes.Unknown, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		return false
	}
	return true
}

// code returns the code that gRPC makes of an error.
func code(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}

	// An error without a status may be the end of a context.
	return status.FromContextError(err).Code()
}

// Interceptor limits calls. Its methods UnaryServer, StreamServer, UnaryClient and
// StreamClient are interceptors of gRPC. It is safe for concurrent use.
type Interceptor struct {
	lim     *limiter.RateLimiter
	request func(context.Context, Call) (limiter.Request, error)
	opts    Options
}

// New returns an interceptor that charges each call with the request that the
// function returns. If the function fails, the caller gets the gRPC status of its
// error, or InvalidArgument. New panics if lim or request is nil.
func New(
	lim *limiter.RateLimiter, request func(context.Context, Call) (limiter.Request, error), opts *Options,
) *Interceptor {
	if lim == nil || request == nil {
		panic("grpclimit: New needs a limiter and a function")
	}

	i := &Interceptor{lim: lim, request: request}
	if opts != nil {
		i.opts = *opts
	}

	if i.opts.Settle == nil {
		i.opts.Settle = func(context.Context, *limiter.Lease, any) error { return nil }
	}
	if i.opts.OnError == nil {
		i.opts.OnError = func(context.Context, Call, error) {}
	}
	return i
}

// side is what differs between servers and clients.
type side struct {
	acquire func(context.Context, limiter.Request) (*limiter.Lease, error)
	keep    func(Result) bool // the default of Options.Keep
}

// server returns how servers acquire: at once or not at all.
func (i *Interceptor) server() side { return side{i.acquire, Result.Served} }

// acquire acquires for a caller that may leave in the meantime. The charge of such a
// caller goes on and is rolled back.
func (i *Interceptor) acquire(ctx context.Context, req limiter.Request) (*limiter.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	// A charge that is cut off may be stored or not. One that may linger has an
	// outcome, which can be rolled back.
	lingering, cancel := outlive.Context(ctx, outlive.DefaultTime)
	defer cancel()

	lease, err := i.lim.Acquire(lingering, req)

	// The caller left during the charge, so its handler does not run.
	if gone := ctx.Err(); err == nil && gone != nil {
		return nil, errors.Join(gone, lease.Rollback(lingering))
	}

	return lease, err
}

// client returns how clients acquire: they wait, until the deadline of the call,
// unless they fail fast.
func (i *Interceptor) client() side {
	if i.opts.FailFast {
		return side{i.lim.Acquire, Result.Counted}
	}
	return side{i.lim.Wait, Result.Counted}
}

// begin acquires the lease of a call. The result is nil if the call is not
// limited. The error has a gRPC status.
func (i *Interceptor) begin(ctx context.Context, c Call, on side) (*running, error) {
	req, err := i.request(ctx, c)
	if errors.Is(err, ErrSkip) {
		return nil, nil //nolint:nilnil // documented
	}

	if err != nil {
		return nil, i.refuse(ctx, c, mappingError(err))
	}

	lease, err := on.acquire(ctx, req)
	if err != nil {
		return nil, i.refuse(ctx, c, Error(err))
	}

	// Under Allow an outage admits the call, so nothing else shows it.
	if outage := lease.Outage(); outage != nil {
		i.opts.OnError(ctx, c, outage)
	}

	keep := i.opts.Keep
	if keep == nil {
		keep = func(_ Call, result Result) bool { return on.keep(result) }
	}

	return &running{Interceptor: i, call: c, lease: lease, keep: keep}, nil
}

// mappingError returns the error for a call that could not be mapped. A cause that
// this package does not know is bad input.
func mappingError(err error) error {
	// Error makes Internal of what it does not know, and also of an
	// *InvalidError about the configuration of the server.
	_, invalid := errors.AsType[*limiter.InvalidError](err)
	if mapped := Error(err); invalid || code(mapped) != codes.Internal {
		return mapped
	}

	return &statusError{status.New(codes.InvalidArgument, "the call cannot be assigned to a limit"), err}
}

// refuse reports an error that says more than its status.
func (i *Interceptor) refuse(ctx context.Context, c Call, err error) error {
	if own, ok := errors.AsType[*statusError](err); ok && !isPlain(own) {
		i.opts.OnError(ctx, c, own.err)
	}
	return err
}

// isPlain reports whether a status says all that operators need: a refusal, a
// switch that is off, or a caller who left.
func isPlain(err *statusError) bool {
	switch err.status.Code() {
	case codes.ResourceExhausted, codes.PermissionDenied, codes.Canceled:
		return true
	}
	return false
}

// running is an admitted call. It ends once.
type running struct {
	*Interceptor
	call  Call
	lease *limiter.Lease
	keep  func(Call, Result) bool

	mu        sync.Mutex
	delivered bool
	once      sync.Once
}

// observe settles by a message of the answer.
func (r *running) observe(ctx context.Context, message any) {
	if err := r.opts.Settle(ctx, r.lease, message); err != nil {
		r.opts.OnError(ctx, r.call, err)
	}
}

// deliver records that the peer has a message of the answer.
func (r *running) deliver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delivered = true
}

// finish ends the lease.
func (r *running) finish(ctx context.Context, err error, panicked bool) {
	r.once.Do(func() {
		r.mu.Lock()
		result := Result{Err: err, Panicked: panicked, Delivered: r.delivered, Left: ctx.Err() != nil}
		r.mu.Unlock()

		end := r.lease.Rollback
		if r.keep(r.call, result) {
			end = r.lease.Commit
		}

		if err := end(ctx); err != nil {
			r.opts.OnError(ctx, r.call, err)
		}
	})
}
