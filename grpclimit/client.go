package grpclimit

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"
)

// UnaryClient limits the unary calls of a client, as a
// grpc.UnaryClientInterceptor. It never repeats a call.
func (i *Interceptor) UnaryClient(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) (err error) {
	r, err := i.begin(ctx, Call{method, req}, i.client())
	if err != nil {
		return err
	}
	if r == nil {
		return invoker(ctx, method, req, reply, cc, opts...)
	}

	// After a panic, finish runs with panicked still set.
	panicked := true
	defer func() { r.finish(ctx, err, panicked) }()
	if err = invoker(ctx, method, req, reply, cc, opts...); err == nil {
		r.observe(ctx, reply)
	}

	panicked = false
	return err
}

// StreamClient limits the streams of a client, as a grpc.StreamClientInterceptor.
// A stream is one call, which ends when gRPC says that the stream has ended: the
// last message was received, an error was, or its context ended.
func (i *Interceptor) StreamClient(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer,
	opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	r, err := i.begin(ctx, Call{Method: method}, i.client())
	if err != nil {
		return nil, err
	}

	if r == nil {
		return streamer(ctx, desc, cc, method, opts...)
	}

	s := &clientStream{running: r, ctx: ctx}

	// Clip, since the caller may append to the same options.
	stream, err := streamer(ctx, desc, cc, method, append(slices.Clip(opts), grpc.OnFinish(s.onFinish))...)
	if err != nil {
		// Another interceptor may fail before gRPC has a stream to finish.
		r.finish(ctx, err, false)
		return nil, err
	}

	s.ClientStream = stream
	return s, nil
}

// clientStream is a stream whose messages settle its lease.
type clientStream struct {
	grpc.ClientStream
	running *running
	ctx     context.Context //nolint:containedctx // the lease ends when the stream does

	mu        sync.Mutex
	receiving int
	ended     bool
	err       error
}

// RecvMsg settles by the message that it receives.
func (s *clientStream) RecvMsg(m any) error {
	s.mu.Lock()
	s.receiving++
	s.mu.Unlock()

	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.running.deliver()
		s.running.observe(s.ctx, m)
	}

	// onFinish may have run inside of this call. The last receiver then ends
	// the lease, after its message was observed.
	s.mu.Lock()
	s.receiving--
	ended, cause := s.ended && s.receiving == 0, s.err
	s.mu.Unlock()

	if ended {
		s.running.finish(s.ctx, cause, false)
	}

	return err
}

// onFinish ends the lease. gRPC calls it inside of RecvMsg, before the last
// message of some streams is returned, so RecvMsg ends the lease then.
func (s *clientStream) onFinish(err error) {
	s.mu.Lock()
	s.ended, s.err = true, err
	receiving := s.receiving > 0
	s.mu.Unlock()

	if !receiving {
		s.running.finish(s.ctx, err, false)
	}
}
