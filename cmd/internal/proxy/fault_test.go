package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// faulty is a store whose faults can be switched on.
type faulty struct {
	method atomic.Value // the method that fails
	fault  atomic.Int64
}

func (f *faulty) set(method string, fault repotest.Fault) {
	f.method.Store(method)
	f.fault.Store(int64(fault))
}

func (f *faulty) plan(method string) repotest.Fault {
	if wanted, _ := f.method.Load().(string); wanted == method || wanted == "*" {
		return repotest.Fault(f.fault.Load())
	}
	return repotest.None
}

func newFaultyRig(t *testing.T, answer http.HandlerFunc, opts limiter.Options, change func(*Options)) (*rig, *faulty) {
	t.Helper()
	f := &faulty{}
	opts.Now = func() time.Time { return noon }
	lim, err := limiter.New(repotest.NewFaulty(memory.New(nil), f.plan), &opts)
	if err != nil {
		t.Fatal(err)
	}
	return newRigOn(t, lim, answer, change), f
}

// wantNothingLeft checks that no lease, no call and no goroutine is left.
func (r *rig) wantNothingLeft(goroutines int) {
	r.t.Helper()
	r.proxy.calls.Wait()
	if n := r.proxy.open.Load(); n != 0 {
		r.t.Errorf("%d leases are open", n)
	}
	if n := inUse(r.proxy.bodies); n != 0 {
		r.t.Errorf("%d bytes of the budget are held", n)
	}
	r.server.Close()
	r.upstream.Close()
	if transport, ok := r.proxy.opts.Transport.(*http.Transport); ok {
		transport.CloseIdleConnections()
	}
	for range 1000 { // they end on their own, a moment after their connections
		if runtime.NumGoroutine() <= goroutines {
			return
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	buf := make([]byte, 1<<16)
	r.t.Errorf("%d goroutines, want %d:\n%s", runtime.NumGoroutine(), goroutines, buf[:runtime.Stack(buf, true)])
}

const estimated = 3 + 512 // tokens of plainCall: the prompt and the default for an answer

func TestStoreFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		opts             limiter.Options
		method           string
		fault            repotest.Fault
		status, upstream int
		requests, tokens int64
		reported         bool // an error is reported to the operator
	}{
		"down": {limiter.Options{}, "*", repotest.Before, 503, 0, 0, 0, true},
		"down, allowed": {
			limiter.Options{OnUnavailable: limiter.Allow}, "*", repotest.Before, 200, 1, 0, 0, true,
		},
		"acquire fails after write":   {limiter.Options{}, "Consume", repotest.After, 503, 0, 1, estimated, true},
		"commit fails before write":   {limiter.Options{}, "Credit", repotest.Before, 200, 1, 1, estimated, true},
		"commit fails after write":    {limiter.Options{}, "Credit", repotest.After, 200, 1, 1, 42, true},
		"status fails, limits do not": {limiter.Options{}, "Buckets", repotest.Before, 200, 1, 1, 42, false},
	} {
		t.Run(name, func(t *testing.T) {
			goroutines := runtime.NumGoroutine()
			r, faults := newFaultyRig(t, answerJSON(plainChat), tc.opts, nil)
			faults.set(tc.method, tc.fault)
			resp, body := r.post(chatPath, plainCall)
			r.wantStatus(resp, tc.status)
			if tc.status == 503 && resp.Header.Get("Retry-After") == "" || strings.Contains(body, "injected") {
				t.Errorf("answer %v %s", resp.Header, body)
			}
			r.proxy.calls.Wait()
			if r.calls() != tc.upstream || len(r.errs) > 0 != tc.reported {
				t.Errorf("%d calls upstream, errors %v", r.calls(), r.errs)
			}
			faults.set("", repotest.None)
			r.wantUsed("m", tc.requests, tc.tokens)
			r.server.Client().CloseIdleConnections()
			r.wantNothingLeft(goroutines)
		})
	}
}

// slowStore blocks every charge until its context ends.
type slowStore struct{ limiter.Repository }

func (slowStore) Consume(ctx context.Context, _ time.Time, _ limiter.Charge) (limiter.Outcome, error) {
	<-ctx.Done()
	return limiter.Outcome{}, ctx.Err()
}

func TestSlowStoreIsAnOutage(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	lim, err := limiter.New(slowStore{memory.New(nil)}, &limiter.Options{
		Timeout: 10 * time.Millisecond,
		Now: func() time.Time {
			return noon
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRigOn(t, lim, answerJSON(plainChat), nil)
	resp, _ := r.post(chatPath, plainCall)
	r.wantStatus(resp, 503)
	if r.calls() != 0 {
		t.Error("the call reached the upstream")
	}
	r.server.Client().CloseIdleConnections()
	r.wantNothingLeft(goroutines)
}

func TestUpstreamFaults(t *testing.T) {
	block := make(chan bool)
	hang := func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-req.Context().Done():
		case <-block:
		}
	}
	hijack := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		_ = conn.Close()
	}
	for name, tc := range map[string]struct {
		answer  http.HandlerFunc
		down    bool
		timeout time.Duration
		status  int
		tokens  int64
	}{
		"down":                     {down: true, status: 502},
		"slow":                     {answer: hang, timeout: 50 * time.Millisecond, status: 504, tokens: estimated},
		"closed without an answer": {answer: hijack, status: 502, tokens: estimated},
		"answer is not HTTP at all": {answer: func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(conn, "hello\n")
			_ = conn.Close()
		}, status: 502, tokens: estimated},
		"no status": {answer: func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(conn, "HTTP/1.1 000 None\r\nContent-Length: 0\r\n\r\n")
			_ = conn.Close()
		}, status: 502, tokens: estimated},
	} {
		t.Run(name, func(t *testing.T) {
			goroutines := runtime.NumGoroutine()
			r := newRig(t, tc.answer, func(o *Options) { o.UpstreamTimeout = tc.timeout })
			if tc.down {
				r.upstream.Close()
			}
			resp, body := r.post(chatPath, plainCall)
			r.wantStatus(resp, tc.status)
			if !strings.Contains(
				resp.Header.Get("Content-Type"), "problem+json",
			) || strings.Contains(body, "127.0.0.1") {
				t.Errorf("answer %v %s", resp.Header, body)
			}
			r.wantUsed("m", min(tc.tokens, 1), tc.tokens)
			r.server.Client().CloseIdleConnections()
			r.wantNothingLeft(goroutines)
		})
	}
}

// TestCutStream checks that the client notices a stream that the upstream cuts,
// and that the longer of estimate and answer is charged.
func TestCutStream(t *testing.T) {
	for name, tc := range map[string]struct {
		body   string
		tokens int64
	}{
		"shorter than the estimate": {chatCall, estimated},
		"longer":                    {`{"model":"m","stream":true,"max_tokens":4}`, 3 * 4},
	} {
		t.Run(name, func(t *testing.T) {
			goroutines := runtime.NumGoroutine()
			r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
				answerStream(delta, delta, delta, delta)(w, req)
				panic(http.ErrAbortHandler)
			}, nil)
			r.upstream.Config.ErrorLog = nil
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL+chatPath,
				strings.NewReader(tc.body))
			req.Header.Set("Authorization", "Bearer "+aliceKey)
			resp, err := r.server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != strings.Repeat(delta, 4) {
				t.Errorf("read %q, error %v", body, err)
			}
			r.wantUsed("m", 1, tc.tokens)
			if !strings.Contains(r.log.String(), `"outcome":"cut"`) {
				t.Errorf("log %s", r.log)
			}
			r.server.Client().CloseIdleConnections()
			r.wantNothingLeft(goroutines)
		})
	}
}

// TestClientLeaves checks a client that leaves before the answer and one that
// leaves in the middle. The upstream notices both.
func TestClientLeaves(t *testing.T) {
	for name, first := range map[string]string{"before the answer": "", "in the middle": delta} {
		t.Run(name, func(t *testing.T) {
			goroutines := runtime.NumGoroutine()
			arrived, gone := make(chan bool), make(chan bool)
			r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
				if first != "" {
					answerStream(first)(w, req)
				}
				arrived <- true
				<-req.Context().Done()
				close(gone)
			}, nil)
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			raw := "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\n" + auth + "Transfer-Encoding: chunked\r\n\r\n4a\r\n" +
				chatCall + "\r\n0\r\n\r\n"
			if _, err := io.WriteString(conn, raw); err != nil {
				t.Fatal(err)
			}
			<-arrived
			if first != "" {
				if _, err := bufio.NewReader(conn).Peek(1); err != nil {
					t.Fatal(err)
				}
			}
			_ = conn.Close()
			<-gone
			r.wantUsed("m", 1, estimated)
			if !strings.Contains(r.log.String(), `"outcome":"gone"`) {
				t.Errorf("log %s", r.log)
			}
			r.wantNothingLeft(goroutines)
		})
	}
}

func TestDrainCutsAndSettles(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	arrived := make(chan bool)
	r := newRig(t, func(w http.ResponseWriter, req *http.Request) {
		answerStream(delta)(w, req)
		arrived <- true
		<-req.Context().Done()
	}, nil)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL+chatPath,
		strings.NewReader(chatCall))
	req.Header.Set("Authorization", "Bearer "+aliceKey)
	resp, err := r.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	<-arrived
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r.proxy.Drain(ended)
	if n := r.proxy.open.Load(); n != 0 {
		t.Errorf("%d leases are open after the drain", n)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the client takes the cut stream for a whole one")
	}
	_ = resp.Body.Close()
	r.wantUsed("m", 1, estimated)
	r.server.Client().CloseIdleConnections()
	r.wantNothingLeft(goroutines)
}
