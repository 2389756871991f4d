package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

func TestClientFailsFast(t *testing.T) {
	w := start(t)
	w.opts.FailFast = true
	c := w.limitClient()
	for range 3 {
		check(t, w.call(c))
	}
	err := w.call(c)
	wantCode(t, err, codes.ResourceExhausted)
	if refusal, ok := errors.AsType[*limiter.ExceededError](err); !ok || refusal.Decision.RetryAfter() == 0 {
		t.Errorf("%v", err)
	}
	wantCode(t, fmt.Errorf("wrapped: %w", err), codes.ResourceExhausted)
	w.left(0, 70)
}

func TestClientWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim, err := limiter.New(memory.New(nil), nil)
		check(t, err)
		check(t, lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 1), limiter.PerMinute("tpm", 100)))
		i := grpclimit.New(lim, ask, nil)
		calls := 0
		invoke := func(ctx context.Context) error {
			return i.UnaryClient(ctx, "/m", nil, nil, nil,
				func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
					calls++
					return nil
				})
		}
		began := time.Now()
		for range 3 {
			check(t, invoke(t.Context()))
		}
		if waited := time.Since(began).Round(time.Second); calls != 3 || waited != 2*time.Minute {
			t.Errorf("%d calls after %v", calls, waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = invoke(ctx) // the deadline is too near to wait
		wantCode(t, err, codes.ResourceExhausted)
		if !errors.Is(err, context.DeadlineExceeded) || calls != 3 {
			t.Errorf("%d calls, %v", calls, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		go cancel()
		wantCode(t, invoke(ctx), codes.Canceled)
	})
}

func TestClientWithoutItsStore(t *testing.T) {
	w := start(t)
	c := w.limitClient()
	w.fail("Consume", repotest.Before)
	err := w.call(c)
	wantCode(t, err, codes.Unavailable)
	if _, ok := errors.AsType[*limiter.UnavailableError](err); !ok {
		t.Errorf("%v", err)
	}
	w.left(3, 100)
}

// TestClientChargesWhatWasServed lists what the other side does, and what stays
// charged.
func TestClientChargesWhatWasServed(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		rpm  int64
	}{
		{"served", nil, 2},
		{"the caller's fault", status.Error(codes.InvalidArgument, ""), 2},
		{"late", status.Error(codes.DeadlineExceeded, ""), 2},
		{"cancelled", status.Error(codes.Canceled, ""), 2},
		{"down", status.Error(codes.Unavailable, ""), 3},
		{"broken", status.Error(codes.Internal, ""), 3},
		{"refused", status.Error(codes.ResourceExhausted, ""), 3},
	} {
		w := start(t)
		w.unary = func(context.Context) (*pb.SimpleResponse, error) { return &pb.SimpleResponse{}, test.err }
		wantCode(t, w.call(w.limitClient()), status.Code(test.err))
		w.left(test.rpm, test.rpm*10+70)
	}
}

// A call that its caller gives up may have been served.
func TestClientWhoseCallIsTooSlow(t *testing.T) {
	w := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.unary = func(ctx context.Context) (*pb.SimpleResponse, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, err := w.limitClient().UnaryCall(ctx, &pb.SimpleRequest{})
	wantCode(t, err, codes.Canceled)
	w.left(2, 90)
}

func TestClientSettlesByTheReply(t *testing.T) {
	w := start(t)
	w.unary = func(context.Context) (*pb.SimpleResponse, error) { return &pb.SimpleResponse{Username: "four"}, nil }
	w.opts.Settle = func(_ context.Context, lease *limiter.Lease, message any) error {
		return lease.Used("tpm", int64(len(message.(*pb.SimpleResponse).GetUsername())))
	}
	check(t, w.call(w.limitClient()))
	w.left(2, 96)
}

func TestClientSettlesStreams(t *testing.T) {
	for _, test := range []struct {
		name     string
		messages int
		err      error
		rpm, tpm int64
	}{
		{"served", 3, nil, 2, 70},
		{"failed before the first message", 0, status.Error(codes.Unavailable, ""), 3, 100},
		{"cut in the middle", 2, status.Error(codes.Unavailable, ""), 2, 80},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := start(t)
			n := int64(0)
			w.opts.Settle = func(_ context.Context, lease *limiter.Lease, _ any) error {
				n++
				return lease.Used("tpm", 10*n)
			}
			w.output = func(s pb.TestService_StreamingOutputCallServer) error {
				for range test.messages {
					if err := s.Send(&pb.StreamingOutputCallResponse{}); err != nil {
						return err
					}
				}
				return test.err
			}
			stream, err := w.limitClient().StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{})
			check(t, err)
			got, err := receive(stream)
			if got != test.messages || status.Code(err) != status.Code(test.err) {
				t.Errorf("%d messages, %v", got, err)
			}
			w.left(test.rpm, test.tpm)
		})
	}
}

// gRPC ends a stream of requests before it returns the reply, which settles too.
func TestClientSettlesByTheReplyToAStream(t *testing.T) {
	w := start(t)
	w.opts.Settle = func(_ context.Context, lease *limiter.Lease, message any) error {
		return lease.Used("tpm", int64(message.(*pb.StreamingInputCallResponse).GetAggregatedPayloadSize()))
	}
	w.input = func(s pb.TestService_StreamingInputCallServer) error {
		for {
			if _, err := s.Recv(); errors.Is(err, io.EOF) {
				return s.SendAndClose(&pb.StreamingInputCallResponse{AggregatedPayloadSize: 33})
			} else if err != nil {
				return err
			}
		}
	}
	stream, err := w.limitClient().StreamingInputCall(t.Context())
	check(t, err)
	check(t, stream.Send(&pb.StreamingInputCallRequest{}))
	_, err = stream.CloseAndRecv()
	check(t, err)
	w.left(2, 67)
}

// A caller may cancel a stream and never look at it again.
func TestClientThatAbandonsAStream(t *testing.T) {
	for _, receives := range []int{0, 1} {
		w := start(t)
		ended := make(chan struct{})
		w.opts.Keep = func(_ grpclimit.Call, r grpclimit.Result) bool {
			defer close(ended)
			if status.Code(r.Err) != codes.Canceled || r.Delivered != (receives > 0) {
				t.Errorf("%+v", r)
			}
			return r.Counted()
		}
		w.output = func(s pb.TestService_StreamingOutputCallServer) error {
			err := s.Send(&pb.StreamingOutputCallResponse{})
			<-s.Context().Done()
			return errors.Join(err, s.Context().Err())
		}
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := w.limitClient().StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
		check(t, err)
		for range receives {
			_, err := stream.Recv()
			check(t, err)
		}
		cancel()
		<-ended
		awaitNoCalls(t)
		w.left(2, 90)
	}
}

func TestClientOfAServerThatIsDown(t *testing.T) {
	w := start(t)
	i := grpclimit.New(w.lim, ask, &w.opts)
	conn, err := grpc.NewClient("passthrough:///down", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(i.UnaryClient), grpc.WithStreamInterceptor(i.StreamClient),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, io.ErrClosedPipe }))
	check(t, err)
	defer func() { check(t, conn.Close()) }()
	c := pb.NewTestServiceClient(conn)
	wantCode(t, w.call(c), codes.Unavailable)
	_, err = c.StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{})
	wantCode(t, err, codes.Unavailable)
	w.left(3, 100)
}
