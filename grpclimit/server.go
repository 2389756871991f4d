package grpclimit

import (
	"context"

	"google.golang.org/grpc"

	"github.com/zeroae/zae-limiter-go"
)

// UnaryServer limits the unary calls of a server, as a grpc.UnaryServerInterceptor.
func (i *Interceptor) UnaryServer(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (reply any, err error) {
	r, err := i.begin(ctx, Call{info.FullMethod, req}, i.server())
	if err != nil {
		return nil, err
	}
	if r == nil {
		return handler(ctx, req)
	}

	// After a panic, finish runs with panicked still set.
	panicked := true
	defer func() { r.finish(ctx, err, panicked) }()
	if reply, err = handler(WithLease(ctx, r.lease), req); err == nil {
		r.observe(ctx, reply)
	}

	panicked = false
	return reply, err
}

// StreamServer limits the streams of a server, as a grpc.StreamServerInterceptor.
// A stream is one call, which ends with its handler.
func (i *Interceptor) StreamServer(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) (err error) {
	ctx := stream.Context()
	r, err := i.begin(ctx, Call{Method: info.FullMethod}, i.server())
	if err != nil {
		return err
	}
	if r == nil {
		return handler(srv, stream)
	}

	// After a panic, finish runs with panicked still set.
	panicked := true
	defer func() { r.finish(ctx, err, panicked) }()

	err = handler(srv, &serverStream{stream, r, WithLease(ctx, r.lease)})
	panicked = false
	return err
}

// serverStream is a stream whose messages settle its lease.
type serverStream struct {
	grpc.ServerStream
	running *running
	ctx     context.Context //nolint:containedctx // the interface of gRPC has it
}

// Context returns the context of the stream, with its lease.
func (s *serverStream) Context() context.Context { return s.ctx }

// SendMsg settles by the message before it sends it, so that a client which has
// the message has paid for it.
func (s *serverStream) SendMsg(m any) error {
	s.running.observe(s.ctx, m)
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.running.deliver()
	}
	return err
}

type leaseKey struct{}

// WithLease returns a context that carries lease, for [Lease] and [Used].
func WithLease(ctx context.Context, lease *limiter.Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, lease)
}

// Lease returns the lease of the call with this context, on the side of the
// server. It returns nil if there is none. A nil lease has ended, so its methods
// do nothing.
func Lease(ctx context.Context) *limiter.Lease {
	lease, _ := ctx.Value(leaseKey{}).(*limiter.Lease)
	return lease
}

// Used records that the call with this context used n tokens of limit in total. It
// returns the errors of [limiter.Lease.Used], and [limiter.ErrLeaseDone] if ctx
// carries no lease.
func Used(ctx context.Context, limit string, n int64) error {
	return Lease(ctx).Used(limit, n)
}
