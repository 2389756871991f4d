package server

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/listen"
)

// spender is a service that spends one rpm of the caller for each check.
type spender struct {
	grpc_health_v1.UnimplementedHealthServer
	server *Server
}

func (s spender) Check(ctx context.Context, req *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	lim, err := s.server.CallerLimiter(ctx)
	if err != nil {
		return nil, err
	}
	lease, err := lim.Acquire(ctx, limiter.Request{Entity: req.GetService(), Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1)})
	if err != nil {
		return nil, err
	}
	return &grpc_health_v1.HealthCheckResponse{}, lease.Commit(ctx)
}

// dialGRPC serves a spender over TCP until the test ends, and returns a client
// that sends a token.
func dialGRPC(t *testing.T, r *rig) (check func(token, entity string) codes.Code, addr string) {
	t.Helper()
	l, err := listen.Bind(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	service := r.GRPC(l, func(to grpc.ServiceRegistrar) { grpc_health_v1.RegisterHealthServer(to, spender{server: r.Server}) }, &GRPCOptions{MaxConns: 50})
	go func() { done <- listen.Run(ctx, nil, service) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	client := grpc_health_v1.NewHealthClient(conn)
	return func(token, entity string) codes.Code {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		}
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: entity}, grpc.WaitForReady(true))
		return status.Code(err)
	}, l.Addr().String()
}

func TestGRPCChecksTokens(t *testing.T) {
	tokens, secret := openTokens(t, TokenEntry{Role: RoleAcquire, Namespace: "default"}, TokenEntry{Role: RoleRead, Namespace: "default"}, TokenEntry{Role: RoleAdmin, Namespace: "missing"})
	r := newMemoryRig(t, Options{Tokens: tokens})
	check, _ := dialGRPC(t, r)
	for _, test := range []struct {
		token string
		want  codes.Code
	}{{"", codes.Unauthenticated}, {"wrong", codes.Unauthenticated}, {secret[1], codes.PermissionDenied}, {secret[2], codes.PermissionDenied}, {secret[0], codes.OK}} {
		if got := check(test.token, "key"); got != test.want {
			t.Errorf("token %.8q: %v, want %v", test.token, got, test.want)
		}
	}
	if r.left("key") != "rpm=9 tpm=1000" {
		t.Errorf("%s is left", r.left("key"))
	}
}

// Idle connections displace each other, and not the client that works.
func TestGRPCWithManyIdleConnections(t *testing.T) {
	r := newMemoryRig(t, Options{})
	check, addr := dialGRPC(t, r)
	if got := check("", "key"); got != codes.OK {
		t.Fatal(got)
	}
	for range 3 {
		for range 100 {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
		if got := check("", "key"); got != codes.OK {
			t.Fatal(got)
		}
	}
}
