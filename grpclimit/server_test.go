package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/grpclimit"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// details returns the details of a status.
func details(t *testing.T, err error) (retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure) {
	t.Helper()
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		default:
			t.Errorf("detail %v", d)
		}
	}
	return retry, quota
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if status.Code(err) != want {
		t.Errorf("%v, want %v", err, want)
	}
}

func TestServerRefusesWithDetails(t *testing.T) {
	w := start(t)
	c := w.limitServer(ask)
	for range 3 {
		check(t, w.call(c))
	}
	err := w.call(c)
	wantCode(t, err, codes.ResourceExhausted)
	retry, quota := details(t, err)
	if retry.GetRetryDelay().AsDuration() != 20*time.Second+time.Millisecond {
		t.Errorf("retry %v", retry)
	}
	if v := quota.GetViolations(); len(v) != 1 || v[0].GetSubject() != "limit:rpm" ||
		v[0].GetDescription() != "the call needs 1, and 0 are available" {
		t.Errorf("quota %v", quota)
	}
	if text := status.Convert(err).Message(); text != "rate limit exceeded: rpm; retry after 20s" {
		t.Error(text)
	}
	w.left(0, 70)
}

func TestServerSaysNothingAboutAParent(t *testing.T) {
	w := start(t)
	_, err := w.lim.CreateEntity(t.Context(), limiter.Entity{ID: "alice", Parent: "project-x", Cascade: true})
	check(t, err)
	check(t, w.lim.SetLimits(t.Context(), "project-x", "chat", limiter.PerMinute("tpm", 17)))
	c := w.limitServer(ask)
	check(t, w.call(c))
	err = w.call(c)
	wantCode(t, err, codes.ResourceExhausted)
	_, quota := details(t, err)
	if v := quota.GetViolations(); len(v) != 1 || v[0].GetDescription() != "a limit that others share is exceeded" {
		t.Errorf("quota %v", quota)
	}
	for _, secret := range []string{"project", "alice", "17"} {
		if text := status.Convert(err).Proto().String(); strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
}

// TestADisabledCallerIsDenied checks the code and the detail, which show neither
// the level nor the reason. Open leases still settle.
func TestADisabledCallerIsDenied(t *testing.T) {
	w := start(t)
	c := w.limitServer(ask)
	w.unary = func(ctx context.Context) (*pb.SimpleResponse, error) {
		check(t, w.lim.Disable(ctx, limiter.Scope{Entity: "alice"}, "s3cret"))
		return &pb.SimpleResponse{}, grpclimit.Used(ctx, "tpm", 30)
	}
	check(t, w.call(c))
	err := w.call(c)
	wantCode(t, err, codes.PermissionDenied)
	info, ok := status.Convert(err).Details()[0].(*errdetails.ErrorInfo)
	if !ok || info.GetReason() != "ACCESS_DISABLED" {
		t.Errorf("details %v", status.Convert(err).Details())
	}
	for _, secret := range []string{"alice", "s3cret", "2026"} {
		if text := status.Convert(err).Proto().String(); strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
	check(t, w.lim.Enable(t.Context(), limiter.Scope{Entity: "alice"}))
	w.left(2, 70)
	if w.reported() != nil {
		t.Error(w.reported())
	}
}

func TestRefusalThatNoRetryHelps(t *testing.T) {
	w := start(t)
	c := w.limitServer(func(context.Context, grpclimit.Call) (limiter.Request, error) {
		return limiter.Request{Entity: "alice", Resource: "chat", Consume: limiter.Tokens("rpm", 4)}, nil
	})
	err := w.call(c)
	wantCode(t, err, codes.ResourceExhausted)
	if retry, quota := details(t, err); retry != nil ||
		quota.GetViolations()[0].GetDescription() != "the call needs 4, above the capacity of 3" {
		t.Errorf("%v, %v", retry, quota)
	}
}

func TestServerCodes(t *testing.T) {
	for _, test := range []struct {
		name    string
		request func() (limiter.Request, error)
		want    codes.Code
		reports bool
	}{
		{"not limited", func() (limiter.Request, error) {
			return limiter.Request{}, grpclimit.ErrSkip
		}, codes.OK, false},
		{"a status of its own", func() (limiter.Request, error) {
			return limiter.Request{}, status.Error(codes.Unauthenticated, "s3cret is wrong")
		}, codes.Unauthenticated, false},
		{"an unknown error", func() (limiter.Request, error) {
			return limiter.Request{}, errors.New("s3cret")
		}, codes.InvalidArgument, true},
		{"bad input", func() (limiter.Request, error) {
			return limiter.Request{Entity: "s3cret#", Resource: "chat"}, nil
		}, codes.InvalidArgument, true},
		{"an unknown limit", func() (limiter.Request, error) {
			return limiter.Request{Entity: "s3cret", Resource: "chat", Consume: limiter.Tokens("x", 1)}, nil
		}, codes.Internal, true},
	} {
		w := start(t)
		err := w.call(w.limitServer(func(context.Context, grpclimit.Call) (limiter.Request, error) {
			return test.request()
		}))
		if status.Code(err) != test.want || (w.reported() != nil) != test.reports {
			t.Errorf("%s: %v; reported: %v", test.name, err, w.reported())
		}
		if test.want != codes.OK && test.want != codes.Unauthenticated && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestServerWithoutItsStore(t *testing.T) {
	for fault, rpm := range map[repotest.Fault]int64{repotest.Before: 3, repotest.After: 2} {
		w := start(t)
		c := w.limitServer(ask)
		w.fail("Consume", fault)
		err := w.call(c)
		wantCode(t, err, codes.Unavailable)
		if strings.Contains(err.Error(), "alice") || strings.Contains(err.Error(), repotest.ErrInjected.Error()) ||
			w.reported() == nil {
			t.Errorf("%v; reported: %v", err, w.reported())
		}
		w.left(rpm, rpm*10+70)
		check(t, w.lim.SetOnUnavailable(t.Context(), limiter.Allow))
		check(t, w.call(c)) // learns the mode
		w.fail("Consume", repotest.Before)
		check(t, w.call(c))
		w.left(rpm-1, rpm*10+60)
	}
}

// TestServerChargesWhatItServed lists the codes of a handler, and whether the call
// stays charged.
func TestServerChargesWhatItServed(t *testing.T) {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		w := start(t)
		w.unary = func(context.Context) (*pb.SimpleResponse, error) {
			return &pb.SimpleResponse{}, status.Error(code, "")
		}
		wantCode(t, w.call(w.limitServer(ask)), code)
		switch code {
		case codes.Canceled, codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal,
			codes.Unavailable, codes.DataLoss:
			w.left(3, 100)
		default:
			w.left(2, 90)
		}
	}
	for name, fail := range map[string]func() error{
		"a plain error":    func() error { return errors.New("x") },
		"an ended context": func() error { return context.Canceled },
		"a panic":          func() error { panic("x") },
	} {
		w := start(t)
		w.unary = func(context.Context) (*pb.SimpleResponse, error) { return nil, fail() }
		if err := w.call(w.limitServer(ask)); err == nil {
			t.Errorf("%s: no error", name)
		}
		w.left(3, 100)
	}
}

func TestServerSettles(t *testing.T) {
	w := start(t)
	w.unary = func(ctx context.Context) (*pb.SimpleResponse, error) {
		return &pb.SimpleResponse{Username: "x"}, grpclimit.Used(ctx, "tpm", 25)
	}
	c := w.limitServer(ask)
	check(t, w.call(c))
	w.left(2, 75)
	w.fail("Credit", repotest.Before) // the answer is the client's nevertheless
	check(t, w.call(c))
	if w.reported() == nil {
		t.Error("a lost commit was not reported")
	}
	w.left(1, 65)
}

func TestServerSettlesByItsReply(t *testing.T) {
	w := start(t)
	w.opts.Settle = func(_ context.Context, lease *limiter.Lease, message any) error {
		return lease.Used("tpm", int64(len(message.(*pb.SimpleResponse).GetUsername())))
	}
	w.unary = func(context.Context) (*pb.SimpleResponse, error) { return &pb.SimpleResponse{Username: "four"}, nil }
	check(t, w.call(w.limitServer(ask)))
	w.left(2, 96)
}

func TestUsedWithoutALease(t *testing.T) {
	if err := grpclimit.Used(t.Context(), "tpm", 1); !errors.Is(err, limiter.ErrLeaseDone) ||
		grpclimit.Lease(t.Context()) != nil {
		t.Errorf("%v", err)
	}
}

func TestKeepDecides(t *testing.T) {
	w := start(t)
	w.opts.Keep = func(c grpclimit.Call, r grpclimit.Result) bool {
		return c.Method == "/grpc.testing.TestService/UnaryCall" && c.Message != nil && r.Err != nil
	}
	c := w.limitServer(ask)
	check(t, w.call(c))
	w.left(3, 100)
	w.unary = func(context.Context) (*pb.SimpleResponse, error) { return nil, status.Error(codes.Internal, "") }
	wantCode(t, w.call(c), codes.Internal)
	w.left(2, 90)
}

func TestServerLimitsStreams(t *testing.T) {
	for _, test := range []struct {
		name     string
		messages int
		err      error
		rpm, tpm int64
	}{
		{"served", 3, nil, 2, 70},
		{"empty", 0, nil, 2, 90},
		{"failed before the first message", 0, status.Error(codes.Unavailable, ""), 3, 100},
		{"failed in the middle", 2, status.Error(codes.Unavailable, ""), 2, 80},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := start(t)
			n := int64(0)
			w.opts.Settle = func(_ context.Context, lease *limiter.Lease, _ any) error {
				n++
				return lease.Used("tpm", 10*n)
			}
			w.output = func(s pb.TestService_StreamingOutputCallServer) error {
				if grpclimit.Lease(s.Context()) == nil {
					t.Error("the stream has no lease")
				}
				for range test.messages {
					if err := s.Send(&pb.StreamingOutputCallResponse{}); err != nil {
						return err
					}
				}
				return test.err
			}
			stream, err := w.limitServer(ask).StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{})
			check(t, err)
			n2, err := receive(stream)
			if n2 != test.messages || status.Code(err) != status.Code(test.err) {
				t.Errorf("%d messages, %v", n2, err)
			}
			w.left(test.rpm, test.tpm)
		})
	}
}

func TestServerRefusesStreams(t *testing.T) {
	w := start(t)
	w.output = func(pb.TestService_StreamingOutputCallServer) error { return nil }
	c := w.limitServer(ask)
	for i := range 4 {
		stream, err := c.StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{})
		check(t, err)
		_, err = receive(stream)
		wantCode(t, err, map[bool]codes.Code{true: codes.OK, false: codes.ResourceExhausted}[i < 3])
	}
}

// A client that leaves while the handler works pays, also before the first message.
func TestServerWhoseClientLeaves(t *testing.T) {
	for sends := range 2 {
		w := start(t)
		ended := make(chan struct{})
		w.output = func(s pb.TestService_StreamingOutputCallServer) error {
			defer close(ended)
			err := s.SendHeader(nil)
			for range sends {
				err = s.Send(&pb.StreamingOutputCallResponse{})
			}
			<-s.Context().Done()
			return errors.Join(err, s.Context().Err())
		}
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := w.limitServer(ask).StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
		check(t, err)
		if sends > 0 {
			_, err = stream.Recv()
		} else {
			_, err = stream.Header()
		}
		check(t, err)
		cancel()
		<-ended
		awaitNoCalls(t)
		w.left(2, 90)
	}
}

// A client cannot make a handler work for nothing with a deadline that is too
// short. The failure of another service is free, although its code is the same.
func TestServerWhoseClientHasAShortDeadline(t *testing.T) {
	for _, end := range []func(context.Context) (context.Context, context.CancelFunc){
		func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, 0) },
		func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		},
	} {
		for _, own := range []bool{false, true} {
			w := start(t)
			ctx, leave := t.Context(), func() {}
			call := &leavingContext{Context: ctx}
			_, err := grpclimit.New(w.lim, ask, &w.opts).UnaryServer(call, nil, &grpc.UnaryServerInfo{},
				func(context.Context, any) (any, error) {
					ended, cancel := end(ctx)
					leave = cancel
					if own {
						call.Context = ended
					}
					return nil, fmt.Errorf("ask another service: %w", ended.Err())
				})
			leave()
			if err == nil {
				t.Error("no error")
			}
			if own {
				w.left(2, 90)
			} else {
				w.left(3, 100)
			}
		}
	}
}

// leavingContext is the context of a call whose end the test decides.
type leavingContext struct{ context.Context } //nolint:containedctx // it is a context itself

// A client that leaves during the charge gets it back, and its handler does not
// run.
func TestServerWhoseClientLeavesDuringTheCharge(t *testing.T) {
	for _, test := range []struct {
		fault    repotest.Fault
		code     codes.Code
		rpm, tpm int64
	}{{repotest.None, codes.Canceled, 3, 100}, {repotest.Before, codes.Unavailable, 2, 90}} {
		w := start(t)
		repo := memory.New(nil)
		ctx, leave := context.WithCancel(t.Context())
		t.Cleanup(leave)
		var err error
		w.lim, err = limiter.New(repotest.NewLeaving(repotest.NewFaulty(repo, w.plan), leave),
			&limiter.Options{Now: func() time.Time {
				return noon
			}})
		check(t, err)
		check(t, w.lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 3), limiter.PerMinute("tpm", 100)))
		w.fail("Credit", test.fault)
		_, err = grpclimit.New(w.lim, ask, &w.opts).UnaryServer(ctx, nil, &grpc.UnaryServerInfo{},
			func(context.Context, any) (any, error) {
				t.Error("the handler runs")
				return nil, nil //nolint:nilnil // it does not
			})
		if status.Code(err) != test.code || (w.reported() == nil) != (test.fault == repotest.None) {
			t.Errorf("%v, reported %v; want %v", err, w.reported(), test.code)
		}
		w.left(test.rpm, test.tpm)
	}
}
