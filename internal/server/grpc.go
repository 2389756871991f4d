package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/internal/listen"
)

// GRPCOptions configures GRPC. The zero value of a field is its default.
type GRPCOptions struct {
	TLS         *tls.Config // nil for none
	MaxConns    int         // connections at a time; default 4096
	MaxRequests int         // calls at a time; default 1024
	Before      func()      // runs before each call, for changes that it must see; nil for nothing
}

// GRPCService serves gRPC on one listener. It is a listen.Service.
type GRPCService struct {
	listener net.Listener
	conns    *listen.Conns
	server   *grpc.Server
}

// Bounds of gRPC clients.
const (
	grpcHandshake  = 5 * time.Second
	grpcIdle       = 15 * time.Minute
	grpcHeaderSize = 128 << 10 // more than Envoy accepts from a client, whose headers for tracing it passes on
	grpcMessage    = 16 << 20  // more than Envoy makes of a client's headers
	grpcStreams    = 256       // calls of one connection at a time
	grpcMaxCalls   = 1024
)

// GRPC returns a server of the services that register adds, for the callers and
// namespaces of s. Their calls find the caller's limiter with CallerLimiter.
func (s *Server) GRPC(listener net.Listener, register func(grpc.ServiceRegistrar), opts *GRPCOptions) *GRPCService {
	if opts == nil {
		opts = &GRPCOptions{}
	}
	most := opts.MaxRequests
	if most <= 0 {
		most = grpcMaxCalls
	}
	free := make(chan struct{}, most)
	options := []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return s.admit(ctx, free, func(ctx context.Context) (any, error) {
				if opts.Before != nil {
					opts.Before()
				}
				return next(ctx, req)
			})
		}),
		grpc.StreamInterceptor(func(any, grpc.ServerStream, *grpc.StreamServerInfo, grpc.StreamHandler) error {
			return status.Error(codes.Unimplemented, "streams are not served")
		}),
		grpc.ConnectionTimeout(grpcHandshake), grpc.MaxHeaderListSize(grpcHeaderSize), grpc.MaxConcurrentStreams(grpcStreams),
		grpc.MaxRecvMsgSize(grpcMessage), grpc.ForceServerCodecV2(newTolerantCodec()),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: grpcIdle, Time: time.Minute, Timeout: grpcHandshake}),
	}
	if opts.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(opts.TLS)))
	}
	server := grpc.NewServer(options...)
	register(server)
	conns := listen.NewConns(opts.MaxConns)
	return &GRPCService{conns.Listener(listener), conns, server}
}

type callerKey struct{}

// admit authenticates a call, and bounds how many run at a time.
func (s *Server) admit(ctx context.Context, free chan struct{}, next func(context.Context) (any, error)) (any, error) {
	by := anonymous
	if s.opts.Tokens != nil {
		var ok bool
		if by, ok = s.opts.Tokens.CheckBearer(metadata.ValueFromIncomingContext(ctx, "authorization")); !ok {
			return nil, status.Error(codes.Unauthenticated, "a valid token is required: authorization: Bearer TOKEN")
		}
	}
	if !by.Role.Allows(RoleAcquire) {
		return nil, status.Error(codes.PermissionDenied, "this call needs a token with the role acquire or admin")
	}
	select {
	case free <- struct{}{}:
		defer func() { <-free }()
	default:
		return nil, status.Error(codes.Unavailable, "too many calls are under way; retry in a second")
	}
	if from, ok := peer.FromContext(ctx); ok {
		if conn := listen.ConnOf(from.Addr); conn != nil {
			conn.Begin()
			defer conn.End()
		}
	}
	return next(context.WithValue(ctx, callerKey{}, by))
}

// CallerLimiter returns the limiter of the namespace of a gRPC call's caller. Its
// errors are gRPC statuses.
func (s *Server) CallerLimiter(ctx context.Context) (*limiter.RateLimiter, error) {
	by, ok := ctx.Value(callerKey{}).(Identity)
	if !ok {
		return nil, status.Error(codes.Internal, "the call has no caller")
	}
	lim, err := s.Limiter(ctx, by)
	switch {
	case errors.Is(err, errNamespace):
		return nil, status.Error(codes.PermissionDenied, errNamespace.Detail)
	case err != nil:
		return nil, grpclimit.Error(err)
	}
	return lim, nil
}

// Addr returns the address that the service is bound to.
func (g *GRPCService) Addr() net.Addr { return g.listener.Addr() }

// Serve serves until Shutdown. It returns nil then.
func (g *GRPCService) Serve() error {
	if err := g.server.Serve(g.listener); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// grpcGrace is the time for which a client without a call may take note of the
// shutdown.
const grpcGrace = time.Second

// Shutdown stops accepting, waits for the calls under way until ctx ends, and
// then cuts them off. Connections without a call get a moment to leave.
func (g *GRPCService) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		g.server.GracefulStop()
		close(done)
	}()
	const perGrace = 4
	check := time.NewTicker(grpcGrace / perGrace)
	defer check.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-check.C:
			g.conns.CloseIdle(grpcGrace)
		case <-ctx.Done():
			busy := g.conns.Busy()
			g.conns.CloseIdle(0) // or Stop waits for their handshakes
			g.server.Stop()
			<-done
			if busy > 0 {
				return fmt.Errorf("calls are still under way on %s: %w", g.Addr(), ctx.Err())
			}
			return nil
		}
	}
}
