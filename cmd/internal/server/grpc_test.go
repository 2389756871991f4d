package server

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/memory"
)

// spender is a service that spends one rpm of the caller for each check.
type spender struct {
	grpc_health_v1.UnimplementedHealthServer
	server *Server
}

func (s spender) Check(
	ctx context.Context, req *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	lim, err := s.server.CallerLimiter(ctx)
	if err != nil {
		return nil, err
	}
	lease, err := lim.Acquire(ctx, limiter.Request{
		Entity: req.GetService(), Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1),
	})
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
	service := r.GRPC(l, func(to grpc.ServiceRegistrar) {
		grpc_health_v1.RegisterHealthServer(to, spender{server: r.Server})
	}, &GRPCOptions{MaxConns: 50})
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
	tokens, secret := openTokens(t, TokenEntry{Role: RoleAcquire, Namespace: "default"},
		TokenEntry{Role: RoleRead, Namespace: "default"}, TokenEntry{Role: RoleAdmin, Namespace: "missing"})
	r := newMemoryRig(t, Options{Tokens: tokens})
	check, _ := dialGRPC(t, r)
	for _, test := range []struct {
		token string
		want  codes.Code
	}{
		{"", codes.Unauthenticated},
		{"wrong", codes.Unauthenticated},
		{secret[1], codes.PermissionDenied},
		{secret[2], codes.PermissionDenied},
		{secret[0], codes.OK},
	} {
		if got := check(test.token, "key"); got != test.want {
			t.Errorf("token %.8q: %v, want %v", test.token, got, test.want)
		}
	}
	if r.left("key") != "rpm=9 tpm=1000" {
		t.Errorf("%s is left", r.left("key"))
	}
}

// Idle connections, however many, do not keep a client out. Between two calls the
// connection of the client may go, since a new one has a second for its first request.
// The client learns that from its next call, and connects again.
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

		got := check("", "key")
		if got == codes.Unavailable {
			got = check("", "key")
		}
		if got != codes.OK {
			t.Fatal(got)
		}
	}
}

// A connection without a call does not hold a shutdown up: neither one that never
// spoke, nor one whose client does not react.
func TestGRPCShutdownWithSilentConnections(t *testing.T) {
	for name, preface := range map[string]string{
		"silent":            "",
		"after the preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newMemoryRig(t, Options{})
			l, err := listen.Bind(t.Context(), "127.0.0.1:0", false)
			if err != nil {
				t.Fatal(err)
			}
			service := r.GRPC(l, func(to grpc.ServiceRegistrar) {
				grpc_health_v1.RegisterHealthServer(to, spender{server: r.Server})
			}, nil)
			done := make(chan error, 1)
			go func() { done <- service.Serve() }()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err := io.WriteString(conn, preface); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn, make([]byte, 9)); err != nil { // the server's settings: it is served
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // gRPC itself waits for 5 s
			defer cancel()
			if err := service.Shutdown(ctx); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			if err := <-done; err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
}

// A shutdown whose time is over reports the calls under way.
func TestGRPCShutdownReportsCalls(t *testing.T) {
	store := &heldStore{memory.New(nil), make(chan struct{}, 1), make(chan struct{})}
	r := newRig(t, store, Options{})
	l, err := listen.Bind(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	service := r.GRPC(l, func(to grpc.ServiceRegistrar) {
		grpc_health_v1.RegisterHealthServer(to, spender{server: r.Server})
	}, nil)
	done := make(chan error, 1)
	go func() { done <- service.Serve() }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = grpc_health_v1.NewHealthClient(conn).Check(t.Context(),
			&grpc_health_v1.HealthCheckRequest{Service: "key"}, grpc.WaitForReady(true))
	}()
	<-store.begun
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := service.Shutdown(ended); err == nil || !strings.Contains(err.Error(), "calls are still under way") {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) {
	text, _ := v.(string)
	return []byte(text), nil
}

func (rawCodec) Unmarshal([]byte, any) error { return nil }

// A text that is not UTF-8 or long must reach the service, since Envoy admits a
// client whose call fails.
func TestGRPCDecodesAnyText(t *testing.T) {
	r := newMemoryRig(t, Options{MaxBody: 1000})
	l, err := listen.Bind(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 1)
	service := r.GRPC(l, func(to grpc.ServiceRegistrar) {
		grpc_health_v1.RegisterHealthServer(to, listener{heard: heard})
	}, nil)
	done := make(chan error, 1)
	go func() { done <- service.Serve() }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 5<<20)
	for _, test := range []struct {
		message, want string
		code          codes.Code
	}{
		{"\x0a\x03key", "key", codes.OK},
		{"\x0a\x05k\xff\xfeey", "k\uFFFDey", codes.OK},
		{"\x0a" + string(binary.AppendUvarint(nil, uint64(len(long)))) + long, long, codes.OK},
		{"\x0a\x05k", "", codes.Internal},
	} {
		err := conn.Invoke(t.Context(), "/grpc.health.v1.Health/Check", test.message, new(string),
			grpc.WaitForReady(true))
		if status.Code(err) != test.code {
			t.Errorf("%.20q: %v, want %v", test.message, err, test.code)
			continue
		}
		if test.code != codes.OK {
			continue
		}
		if got := <-heard; got != test.want {
			t.Errorf("%.20q: the service heard %.20q, want %.20q", test.message, got, test.want)
		}
	}
	_ = conn.Close()
	if err := service.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// listener is a service that passes on what it hears.
type listener struct {
	grpc_health_v1.UnimplementedHealthServer
	heard chan string
}

func (s listener) Check(
	_ context.Context, req *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	s.heard <- req.GetService()
	return &grpc_health_v1.HealthCheckResponse{}, nil
}
