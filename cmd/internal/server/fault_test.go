package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// serveOnLoopback serves a rig over TCP until the test ends, when it checks that
// no goroutine is left.
func serveOnLoopback(t *testing.T, r *rig) string {
	t.Helper()
	before := runtime.NumGoroutine()
	l, err := listen.Bind(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- listen.Run(ctx, &listen.RunOptions{DrainTimeout: 20 * time.Second, Settle: r.Settle},
			listen.HTTP(l, r, nil))
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if n := r.Leases(); n != 0 {
			t.Errorf("%d leases are left", n)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:forcetypeassert // it is one
		deadline := time.Now().Add(10 * time.Second)
		for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
			runtime.Gosched()
		}
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines, %d before", n, before)
		}
	})
	return "http://" + l.Addr().String()
}

// postJSON sends a POST over TCP.
func postJSON(t *testing.T, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// The fault matrix: what a client sees and what is charged when the store fails.
func TestStoreFaults(t *testing.T) {
	for _, test := range []struct {
		name      string
		method    string // that fails
		fault     repotest.Fault
		verb      string // "acquire", or the call on a lease of 100 tpm
		body      string
		status    int
		left      string // afterwards, of 1,000 tpm
		stillOpen int
	}{
		{
			"down on acquire", "Consume", repotest.Before, "acquire", acquireJSON("key", `{"tpm":200}`), 503,
			"rpm=10 tpm=900", 1,
		},
		{
			"down on acquire, allowed", "Consume", repotest.Before, "acquire",
			`{"entity_id":"key","resource":"gpt-4","consume":{"tpm":200},"on_unavailable":"allow"}`, 200,
			"rpm=10 tpm=900", 1,
		},
		{
			"lost answer of acquire", "Consume", repotest.After, "acquire", acquireJSON("key", `{"tpm":200}`),
			503, "rpm=10 tpm=700", 1,
		},
		{"down on consume", "Consume", repotest.Before, "consume", `{"consume":{"tpm":200}}`, 503, "rpm=10 tpm=900", 1},
		{
			"lost answer of consume", "Consume", repotest.After, "consume", `{"consume":{"tpm":200}}`, 503,
			"rpm=10 tpm=700", 1,
		},
		{"down on adjust", "Credit", repotest.Before, "adjust", `{"used":{"tpm":50}}`, 200, "rpm=10 tpm=900", 1},
		{"down on commit", "Credit", repotest.Before, "commit", `{"used":{"tpm":50}}`, 503, "rpm=10 tpm=900", 0},
		{"lost answer of commit", "Credit", repotest.After, "commit", `{"used":{"tpm":50}}`, 503, "rpm=10 tpm=950", 0},
		{"commit without changes", "Credit", repotest.Before, "commit", `{}`, 200, "rpm=10 tpm=900", 0},
		{"down on rollback", "Credit", repotest.Before, "rollback", `{}`, 503, "rpm=10 tpm=900", 0},
		{"lost answer of rollback", "Credit", repotest.After, "rollback", `{}`, 503, "rpm=10 tpm=1000", 0},
		{
			"down on explain", "Peek", repotest.Before, "explain", acquireJSON("key", `{"tpm":1}`), 503,
			"rpm=10 tpm=900", 1,
		},
		{
			"down on levels", "Config", repotest.Before, "explain", acquireJSON("key", `{"tpm":1}`), 503,
			"rpm=10 tpm=900", 1,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var failing atomic.Bool
			store := memory.New(nil)
			faulty := repotest.NewFaulty(store, func(method string) repotest.Fault {
				if failing.Load() && method == test.method {
					return test.fault
				}
				return repotest.None
			})
			reported := 0
			r := newRig(t, faulty, Options{OnError: func(error) { reported++ }})
			url := serveOnLoopback(t, r)
			path := "/v1/" + test.verb
			id := r.acquire("", "key", `{"tpm":100}`)
			if test.verb != "acquire" && test.verb != "explain" {
				path = "/v1/leases/" + id + "/" + test.verb
			}
			failing.Store(true)
			status, body := postJSON(t, url+path, test.body)
			failing.Store(false)
			if status != test.status || strings.Contains(body, "injected") {
				t.Errorf("%d %s, want %d", status, body, test.status)
			}
			if got := r.left("key"); got != test.left || r.Leases() != test.stillOpen {
				t.Errorf("%s is left and %d leases are open, want %s and %d", got, r.Leases(), test.left,
					test.stillOpen)
			}
			if (status == 503 || strings.Contains(test.name, "allowed")) != (reported == 1) {
				t.Errorf("%d errors are reported", reported)
			}
		})
	}
}

// A store that does not answer costs its timeout, and its calls come to an end.
func TestSlowStore(t *testing.T) {
	store := &heldStore{memory.New(nil), make(chan struct{}, 1), make(chan struct{})}
	r := newRig(t, store, Options{Timeout: 50 * time.Millisecond})
	url := serveOnLoopback(t, r)
	if status, body := postJSON(t, url+"/v1/acquire", acquireJSON("key", `{"tpm":1}`)); status != 503 {
		t.Errorf("%d %s", status, body)
	}
	if r.left("key") != "rpm=10 tpm=1000" || r.Leases() != 0 {
		t.Errorf("%s is left, %d leases", r.left("key"), r.Leases())
	}
}

// slowAnswer makes charges, and then waits before it says so. A call whose context
// ends meanwhile does not hear that it was charged.
type slowAnswer struct {
	limiter.Repository
	charged, release chan struct{}
}

func (s *slowAnswer) Consume(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
	out, err := s.Repository.Consume(ctx, now, c)
	s.charged <- struct{}{}
	<-s.release
	if ctx.Err() != nil {
		return limiter.Outcome{}, ctx.Err()
	}
	return out, err
}

// A client that resets its connection before the answer gets its tokens back, since
// it does not know its lease. With a key it may come back for it. A client that
// closes its sending side alone gets the whole answer, and pays.
func TestClientGone(t *testing.T) {
	for _, test := range []struct {
		name, header, field, left string
		half                      bool
		leases                    int
	}{
		{"with a lease", "", "", "rpm=10 tpm=1000", false, 0},
		{"with a commit", "", `,"commit":true`, "rpm=10 tpm=1000", false, 0},
		{"with a key", "Idempotency-Key: k\r\n", `,"commit":true`, "rpm=10 tpm=900", false, 0},
		{"half with a lease", "", "", "rpm=10 tpm=900", true, 1},
		{"half with a commit", "", `,"commit":true`, "rpm=10 tpm=900", true, 0},
		{"half with a key", "Idempotency-Key: k\r\n", `,"commit":true`, "rpm=10 tpm=900", true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := &slowAnswer{memory.New(nil), make(chan struct{}), make(chan struct{})}
			r := newRig(t, store, Options{})
			gone := make(chan struct{})
			seen := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				context.AfterFunc(q.Context(), func() { close(gone) })
				r.ServeHTTP(w, q)
			})
			l, err := listen.Bind(t.Context(), "127.0.0.1:0", false)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- listen.Run(ctx, nil, listen.HTTP(l, seen, nil)) }()
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			client := conn.(*net.TCPConn)
			body := strings.TrimSuffix(acquireJSON("key", `{"tpm":100}`), "}") + test.field + "}"
			_, _ = io.WriteString(client,
				"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\n"+test.header+
					"Content-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
			<-store.charged
			if test.half {
				_ = client.CloseWrite()
			} else {
				_ = client.SetLinger(0)
				_ = client.Close()
			}
			<-gone
			close(store.release)
			if test.half {
				answer, err := io.ReadAll(client)
				if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") ||
					!strings.Contains(string(answer), `"consumed":{"tpm":100}`) {
					t.Errorf("%v: %q", err, answer)
				}
				_ = client.Close()
			}
			stop()
			if err := <-done; err != nil { // waits for the handler
				t.Error(err)
			}
			if r.left("key") != test.left || r.Leases() != test.leases {
				t.Errorf("%s is left, %d leases; want %s and %d", r.left("key"), r.Leases(), test.left, test.leases)
			}
		})
	}
}

// A client that closes its sending side before the server looks at its request gets
// the answer of every route.
func TestHalfClosedReads(t *testing.T) {
	r := newMemoryRig(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.want(200, request{path: "/v1/explain", body: acquireJSON("key", `{"tpm":1}`), ctx: ctx})
	r.want(200, request{path: "/v1/acquire", body: acquireJSON("key", `{"tpm":1}`), ctx: ctx})
	if w := r.send(request{method: http.MethodGet, path: "/v1/entities", ctx: ctx}); w.Code != 200 {
		t.Errorf("a list: %d %s", w.Code, w.Body)
	}
}

// A client that resets its HTTP/2 stream before the answer pays nothing. One that
// resets it later may have seen the status, so it pays although the write fails.
func TestResetStream(t *testing.T) {
	for _, test := range []struct {
		early bool
		left  string
	}{{true, "rpm=10 tpm=1000"}, {false, "rpm=10 tpm=900"}} {
		r := newMemoryRig(t, Options{})
		ctx, reset := context.WithCancel(t.Context())
		t.Cleanup(reset)
		q := request{path: "/v1/acquire", body: acquireJSON("key", `{"tpm":100}`), ctx: ctx}.http(t)
		q.ProtoMajor = 2
		w := &brokenWriter{ResponseRecorder: httptest.NewRecorder()}
		if test.early {
			q.Body = io.NopCloser(&endReader{q.Body, reset})
		}
		r.ServeHTTP(w, q)
		if left := r.left("key"); left != test.left || w.written == test.early {
			t.Errorf("early %v: %s is left, want %s; written: %v", test.early, left, test.left, w.written)
		}
	}
}

// brokenWriter fails to write a body.
type brokenWriter struct {
	*httptest.ResponseRecorder
	written bool
}

func (w *brokenWriter) Write([]byte) (int, error) {
	w.written = true
	return 0, io.ErrClosedPipe
}

// endReader calls a function at its end.
type endReader struct {
	io.Reader
	end func()
}

func (r *endReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.end()
	return n, err
}

// A client that is gone during a consume has a lease that knows of it.
func TestClientGoneDuringConsume(t *testing.T) {
	store := &slowAnswer{memory.New(nil), make(chan struct{}, 1), make(chan struct{}, 1)}
	store.release <- struct{}{}
	r := newRig(t, store, Options{})
	id := r.acquire("", "key", `{"tpm":100}`)
	<-store.charged
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-store.charged
		leave()
		store.release <- struct{}{}
	}()
	r.send(request{path: "/v1/leases/" + id + "/consume", body: `{"consume":{"tpm":200}}`, ctx: ctx})
	got := r.want(200, request{path: "/v1/leases/" + id + "/rollback", body: `{}`})
	if r.left("key") != "rpm=10 tpm=1000" {
		t.Errorf("%s is left: %v", r.left("key"), got)
	}
}

// panicking panics at every charge.
type panicking struct{ limiter.Repository }

func (panicking) Consume(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error) {
	panic("secret text")
}

// A panic is 500 for the client, a report for the operator, and holds nothing.
func TestPanic(t *testing.T) {
	var reported error
	r := newRig(t, panicking{memory.New(nil)}, Options{MaxLeases: 1, MaxRequests: 1, OnError: func(err error) {
		reported = err
	}})
	for range 3 {
		w := r.send(request{path: "/v1/acquire", key: "k", body: acquireJSON("key", `{"tpm":1}`)})
		if w.Code != 500 || strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), ".go") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if reported == nil || !strings.Contains(reported.Error(), "secret text") || r.Leases() != 0 || r.keys.len() != 0 {
		t.Errorf("%v, %d leases, %d keys", reported, r.Leases(), r.keys.len())
	}
}

// Calls beyond the bound are refused, and clients that send slowly do not count.
func TestRequestsAreBounded(t *testing.T) {
	store := &heldStore{memory.New(nil), make(chan struct{}, 1), make(chan struct{})}
	r := newRig(t, store, Options{MaxRequests: 1})
	url := serveOnLoopback(t, r)
	for range 20 { // bodies that never arrive
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn,
			"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
				"application/json\r\nContent-Length: 100\r\n\r\n{")
	}
	first := make(chan int, 1)
	go func() { first <- r.send(request{path: "/v1/acquire", body: acquireJSON("key", `{"tpm":1}`)}).Code }()
	<-store.begun
	if status, body := postJSON(
		t, url+"/v1/acquire", acquireJSON("key", `{"tpm":1}`),
	); status != 503 || !strings.Contains(body, "too many requests") {
		t.Errorf("%d %s", status, body)
	}
	close(store.hold)
	if status := <-first; status != 200 {
		t.Errorf("status %d", status)
	}
	if status, body := postJSON(t, url+"/v1/acquire", acquireJSON("key", `{"tpm":1}`)); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}
