package server

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

// serveGRPC serves no service of its own over TCP, and returns a connection and a
// function that shuts it down.
func serveGRPC(t *testing.T, r *rig, opts *GRPCOptions) (conn *grpc.ClientConn, shutdown func()) {
	t.Helper()
	l, err := listen.Bind(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	service := r.GRPC(l, func(grpc.ServiceRegistrar) {}, opts)
	done := make(chan error, 1)
	go func() { done <- service.Serve() }()
	conn, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	shutdown = func() {
		if stopped {
			return
		}
		stopped = true
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := service.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		_ = conn.Close()
	}
	t.Cleanup(shutdown)
	return conn, shutdown
}

// Probes need no token, follow the drain, and name the services.
func TestGRPCHealth(t *testing.T) {
	tokens, _ := openTokens(t, TokenEntry{Role: RoleAcquire, Namespace: "default"})
	r := newMemoryRig(t, Options{Tokens: tokens})
	conn, shutdown := serveGRPC(t, r, nil)
	client := health1.NewHealthClient(conn)
	want := func(service string, state health1.HealthCheckResponse_ServingStatus, code codes.Code) {
		t.Helper()
		got, err := client.Check(t.Context(), &health1.HealthCheckRequest{Service: service})
		if status.Code(err) != code || got.GetStatus() != state {
			t.Errorf("%q: %v, %v; want %v, %v", service, got.GetStatus(), err, state, code)
		}
	}
	want("", health1.HealthCheckResponse_SERVING, codes.OK)
	want(healthService, health1.HealthCheckResponse_SERVING, codes.OK)
	want("other", health1.HealthCheckResponse_UNKNOWN, codes.NotFound)
	list, err := client.List(t.Context(), &health1.HealthListRequest{})
	if err != nil || len(list.GetStatuses()) != 2 {
		t.Errorf("List: %v, %v", list, err)
	}

	watch, err := client.Watch(t.Context(), &health1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func(state health1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if got, err := watch.Recv(); err != nil || got.GetStatus() != state {
			t.Errorf("Watch: %v, %v; want %v", got.GetStatus(), err, state)
		}
	}
	next(health1.HealthCheckResponse_SERVING)
	r.Quiesce(t.Context())
	want("", health1.HealthCheckResponse_NOT_SERVING, codes.OK)
	next(health1.HealthCheckResponse_NOT_SERVING)
	shutdown()
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("Watch ends with %v", err)
	}
}

// A stream that watches tells its client of the shutdown before it ends.
func TestGRPCHealthAtShutdown(t *testing.T) {
	r := newMemoryRig(t, Options{})
	conn, shutdown := serveGRPC(t, r, nil)
	watch, err := health1.NewHealthClient(conn).Watch(t.Context(), &health1.HealthCheckRequest{Service: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.GetStatus() != health1.HealthCheckResponse_SERVICE_UNKNOWN {
		t.Errorf("%v, %v", got, err)
	}
	shutdown()
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("Watch ends with %v", err)
	}
}

// The services are listed if the operator wants it, for callers with a token.
func TestGRPCReflection(t *testing.T) {
	tokens, secret := openTokens(t, TokenEntry{Role: RoleAcquire, Namespace: "default"})
	for _, test := range []struct {
		on    bool
		token string
		want  codes.Code
	}{{false, secret[0], codes.Unimplemented}, {true, "", codes.Unauthenticated}, {true, secret[0], codes.OK}} {
		r := newMemoryRig(t, Options{Tokens: tokens})
		conn, shutdown := serveGRPC(t, r, &GRPCOptions{Reflection: test.on})
		if _, err := health1.NewHealthClient(conn).Check(t.Context(), &health1.HealthCheckRequest{}); err != nil {
			t.Errorf("Check: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if test.token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+test.token)
		}
		stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
		})
		answer, err := stream.Recv()
		if status.Code(err) != test.want || err == nil && len(answer.GetListServicesResponse().GetService()) == 0 {
			t.Errorf("%v: %v, %v; want %v", test, answer, err, test.want)
		}
		cancel()
		shutdown()
	}
}

// Streams without a message displace each other, and no probe that has one.
func TestGRPCProbesDisplaceEachOther(t *testing.T) {
	r := newMemoryRig(t, Options{})
	conn, _ := serveGRPC(t, r, &GRPCOptions{receive: time.Hour})
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, grpcProbes+1)
	for range grpcProbes + 1 {
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			"/"+healthService+"/Check")
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- stream.RecvMsg(&health1.HealthCheckResponse{}) }()
	}
	if err := <-ended; status.Code(err) != codes.Canceled { // the oldest
		t.Errorf("a stream without a message: %v, want Canceled", err)
	}
	if _, err := health1.NewHealthClient(conn).Check(t.Context(), &health1.HealthCheckRequest{}); err != nil {
		t.Errorf("Check: %v", err)
	}
	leave()
}

// A message has to arrive in time, whatever the client's deadline is.
func TestGRPCReceiveIsBounded(t *testing.T) {
	r := newMemoryRig(t, Options{})
	conn, _ := serveGRPC(t, r, &GRPCOptions{receive: time.Millisecond})
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/"+healthService+"/Check")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(&health1.HealthCheckResponse{}); status.Code(err) != codes.Canceled {
		t.Errorf("a stream without a message: %v, want Canceled", err)
	}
}
