package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/grpclimit"
)

// GRPCOptions configures GRPC. The zero value of a field is its default.
type GRPCOptions struct {
	TLS         *tls.Config // nil for none
	MaxConns    int         // connections at a time; default 4096
	MaxRequests int         // calls at a time; default 1024
	// Reflection lets callers with a token list the services.
	Reflection bool
	// Before runs before each call, for changes that the call must see; nil for
	// nothing.
	Before func()
	// receive bounds the time for a message to arrive; default 10 s.
	receive time.Duration
}

// GRPCService serves gRPC on one listener. It is a listen.Service.
type GRPCService struct {
	listener net.Listener
	conns    *listen.Conns
	server   *grpc.Server
	health   *health
}

// Bounds of gRPC clients.
const (
	grpcHandshake = 5 * time.Second
	grpcIdle      = 15 * time.Minute
	// grpcHeaderSize is more than Envoy accepts from a client, whose headers for
	// tracing it passes on.
	grpcHeaderSize = 128 << 10
	// grpcMessage is more than Envoy makes of a client's headers.
	grpcMessage = 16 << 20
	// grpcStreams bounds the calls of one connection at a time.
	grpcStreams  = 256
	grpcMaxCalls = 1024
	// grpcWindow bounds the bytes of a stream that are accepted before it is read. A
	// fixed window does not grow by itself.
	grpcWindow = 64 << 10
	// grpcReceive is the time for a message to arrive.
	grpcReceive = 10 * time.Second
	// grpcBytes bounds all messages that are under way, and grpcStrange those without
	// a token.
	grpcBytes   = 64 << 20
	grpcStrange = 256 << 10
	// grpcProbes bounds the messages without a token that are awaited at a time.
	grpcProbes = 64
)

// GRPC returns a server of the services that register adds, for the callers and
// namespaces of s, and of grpc.health.v1 for everyone. Their calls find the
// caller's limiter with CallerLimiter.
func (s *Server) GRPC(listener net.Listener, register func(grpc.ServiceRegistrar), opts *GRPCOptions) *GRPCService {
	if opts == nil {
		opts = &GRPCOptions{}
	}

	most := opts.MaxRequests
	if most <= 0 {
		most = grpcMaxCalls
	}

	g := &gate{
		server: s, before: opts.Before, free: make(chan struct{}, most), waiting: make(chan struct{}, 2*most),
		bytes: newByteBudget(grpcBytes, 0), lobby: &lobby{most: lobbyBytes}, receive: cmp.Or(opts.receive, grpcReceive),
	}

	creds := insecure.NewCredentials()
	if opts.TLS != nil {
		creds = credentials.NewTLS(opts.TLS)
	}

	server := grpc.NewServer(
		grpc.Creds(metered{creds, g.bytes, newByteBudget(grpcStrange, grpcProbes), g.lobby}),
		grpc.InTapHandle(g.tap), grpc.StreamInterceptor(g.admit),
		// The meter has a buffer once its caller is known.
		grpc.ReadBufferSize(0),
		grpc.InitialWindowSize(grpcWindow),
		grpc.RPCDecompressor(smallGzip{}), //nolint:staticcheck // the registry has no bound
		grpc.ConnectionTimeout(grpcHandshake), grpc.MaxHeaderListSize(grpcHeaderSize),
		grpc.MaxConcurrentStreams(grpcStreams),
		grpc.MaxRecvMsgSize(grpcMessage), grpc.ForceServerCodecV2(newTolerantCodec()),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: grpcIdle, Time: time.Minute, Timeout: grpcHandshake,
		}),
	)

	services := registrar{server, g}
	register(services)
	h := newHealth(s, server)

	// The program may have registered a health service of its own, whose
	// methods then need a token.
	if _, taken := server.GetServiceInfo()[healthService]; !taken {
		grpc_health_v1.RegisterHealthServer(services, h)
		g.open = "/" + healthService + "/"
	}

	if opts.Reflection {
		reflection.Register(server)
	}

	conns := listen.NewConns(opts.MaxConns)
	return &GRPCService{conns.Listener(listener), conns, server, h}
}

type callerKey struct{}

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
	g.health.stop()

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
			// GracefulStop waits for clients to close their connections, which
			// a silent one never does.
			g.conns.CloseIdle(grpcGrace)
		case <-ctx.Done():
			busy := g.conns.Busy()
			// Stop would wait for handshakes on idle connections.
			g.conns.CloseIdle(0)
			g.server.Stop()
			<-done
			if busy > 0 {
				return fmt.Errorf("calls are still under way on %s: %w", g.Addr(), ctx.Err())
			}
			return nil
		}
	}
}
