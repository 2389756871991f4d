package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// world is a limiter whose clock stands still, and a gRPC server and client. Calls
// take 1 rpm and 10 tpm.
type world struct {
	t    *testing.T
	lim  *limiter.RateLimiter
	opts grpclimit.Options
	service

	mu     sync.Mutex
	faults func(method string) repotest.Fault
	errors []error
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	w.opts.OnError = func(_ context.Context, _ grpclimit.Call, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.errors = append(w.errors, err)
	}
	var err error
	w.lim, err = limiter.New(repotest.NewFaulty(memory.New(nil), w.plan), &limiter.Options{Now: func() time.Time {
		return noon
	}})
	check(t, err)
	check(t, w.lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 3), limiter.PerMinute("tpm", 100)))
	return w
}

func (w *world) plan(method string) repotest.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults == nil {
		return repotest.None
	}
	return w.faults(method)
}

// fail makes a method of the store fail, or none if it is "".
func (w *world) fail(method string, fault repotest.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = func(m string) repotest.Fault {
		if m == method {
			return fault
		}
		return repotest.None
	}
}

func (w *world) reported() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.errors...)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask returns the request of every call.
func ask(context.Context, grpclimit.Call) (limiter.Request, error) {
	return limiter.Request{Entity: "alice", Resource: "chat", Consume: limiter.Tokens("rpm", 1).And("tpm", 10)}, nil
}

// left checks both balances of alice.
func (w *world) left(rpm, tpm int64) {
	w.t.Helper()
	w.fail("", repotest.None)
	got, err := w.lim.Available(w.t.Context(), "alice", "chat")
	check(w.t, err)
	if got.Get("rpm") != rpm || got.Get("tpm") != tpm {
		w.t.Errorf("%v are left, want rpm=%d tpm=%d; reported: %v", got, rpm, tpm, w.reported())
	}
}

// service is a gRPC service whose methods a test chooses.
type service struct {
	pb.UnimplementedTestServiceServer
	unary  func(context.Context) (*pb.SimpleResponse, error)
	output func(pb.TestService_StreamingOutputCallServer) error
	input  func(pb.TestService_StreamingInputCallServer) error
}

func (s *service) UnaryCall(ctx context.Context, _ *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	if s.unary == nil {
		return &pb.SimpleResponse{}, nil
	}
	return s.unary(ctx)
}

func (s *service) StreamingOutputCall(
	_ *pb.StreamingOutputCallRequest, stream pb.TestService_StreamingOutputCallServer,
) error {
	return s.output(stream)
}

func (s *service) StreamingInputCall(stream pb.TestService_StreamingInputCallServer) error {
	return s.input(stream)
}

// recoverPanics answers a panic with Internal.
func recoverPanics(
	ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (_ any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = status.Errorf(codes.Internal, "panic: %v", p)
		}
	}()
	return handler(ctx, req)
}

// serve starts the server and connects a client.
func (w *world) serve(server []grpc.ServerOption, client []grpc.DialOption) pb.TestServiceClient {
	w.t.Helper()
	listener := bufconn.Listen(1 << 16)
	s := grpc.NewServer(server...)
	pb.RegisterTestServiceServer(s, &w.service)
	go func() { _ = s.Serve(listener) }()
	client = append(client, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))
	conn, err := grpc.NewClient("passthrough:///test", client...)
	check(w.t, err)
	w.t.Cleanup(func() {
		check(w.t, conn.Close())
		s.Stop()
		awaitNoCalls(w.t)
	})
	return pb.NewTestServiceClient(conn)
}

// limitServer starts a server with limits.
func (w *world) limitServer(
	request func(context.Context, grpclimit.Call) (limiter.Request, error),
) pb.TestServiceClient {
	w.t.Helper()
	i := grpclimit.New(w.lim, request, &w.opts)
	return w.serve(
		[]grpc.ServerOption{
			grpc.ChainUnaryInterceptor(recoverPanics, i.UnaryServer), grpc.StreamInterceptor(i.StreamServer),
		},
		nil,
	)
}

// limitClient starts a client with limits.
func (w *world) limitClient() pb.TestServiceClient {
	w.t.Helper()
	i := grpclimit.New(w.lim, ask, &w.opts)
	return w.serve(nil, []grpc.DialOption{
		grpc.WithUnaryInterceptor(i.UnaryClient), grpc.WithStreamInterceptor(i.StreamClient),
	})
}

func (w *world) call(c pb.TestServiceClient) error {
	w.t.Helper()
	_, err := c.UnaryCall(w.t.Context(), &pb.SimpleRequest{})
	return err
}

// receive reads a stream to its end and returns the number of messages.
func receive(stream pb.TestService_StreamingOutputCallClient) (n int, err error) {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
		n++
	}
}

// awaitNoCalls checks that no goroutine of the package is left.
func awaitNoCalls(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !strings.Contains(string(stacks), "zae-limiter-go/grpclimit.(") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a call is still running:\n%s", stacks)
		}
	}
}
