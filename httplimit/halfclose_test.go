package httplimit_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// send connects to a server and sends a request.
func (r *rig) send(server *httptest.Server, text string) *net.TCPConn {
	r.Helper()
	conn, err := new(net.Dialer).DialContext(r.Context(), "tcp", server.Listener.Addr().String())
	r.ok(err)
	r.Cleanup(func() { _ = conn.Close() })
	r.ok(conn.SetDeadline(time.Now().Add(30 * time.Second)))
	_, err = io.WriteString(conn, text)
	r.ok(err)
	return conn.(*net.TCPConn)
}

const getRequest = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// receive returns the status and the body of the answer on a connection.
func (r *rig) receive(conn net.Conn) (int, string) {
	r.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	r.ok(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	r.ok(err)
	return resp.StatusCode, string(body)
}

// A client that closes its sending side while the handler works still reads the
// whole answer, so it pays for it. net/http ends the request's context then.
func TestHalfClosedClientPays(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"small": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") },
		"large": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		},
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"flushed": func(w http.ResponseWriter, q *http.Request) {
			_ = http.NewResponseController(w).Flush()
			hello(w, q)
		},
		"created": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			arrived := make(chan struct{}, 6)
			server := r.server(r.handler(func(w http.ResponseWriter, q *http.Request) {
				arrived <- struct{}{}
				<-q.Context().Done()
				answer(w, q)
			}, nil), false)
			for i := range 6 {
				conn := r.send(server, getRequest)
				if i < 3 {
					<-arrived
					r.ok(conn.CloseWrite())
				}
				status, body := r.receive(conn)
				if want := i >= 3; (status == http.StatusTooManyRequests) != want {
					t.Errorf("answer %d has status %d: %.40q", i, status, body)
				}
			}
			r.stop(server)
			r.available(0, 700)
		})
	}
}

// A client may close its sending side at once, before the charge. It is served
// like any other.
func TestHalfClosedClientIsServed(t *testing.T) {
	r := newRig(t)
	closed := make(chan struct{})
	handler := r.handler(hello, nil)
	server := r.server(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		<-q.Context().Done()
		handler.ServeHTTP(w, q)
	}), false)
	var all sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 20 {
		conn := r.send(server, getRequest)
		all.Go(func() {
			<-closed
			r.works(conn.CloseWrite())
			status, body := r.receive(conn)
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
			if status == http.StatusOK && body != "hello" {
				t.Errorf("the body is %q", body)
			}
		})
	}
	close(closed)
	all.Wait()
	r.equal("statuses", statuses, map[int]int{200: 3, 429: 17})
}

// A client that resets its connection before the first byte gets its tokens back:
// the first flush fails.
func TestResetBeforeTheFirstFlush(t *testing.T) {
	r := newRig(t)
	arrived := make(chan struct{}, 6)
	var seen httplimit.Result
	server := r.server(r.handler(func(w http.ResponseWriter, q *http.Request) {
		arrived <- struct{}{}
		<-q.Context().Done()
		if err := http.NewResponseController(w).Flush(); err == nil {
			t.Error("the flush of a connection that was reset succeeds")
		}
		_, _ = io.WriteString(w, "late")
	}, &httplimit.Options{Keep: func(_ *http.Request, result httplimit.Result) bool {
		seen = result
		return result.Served()
	}}), false)
	conn := r.send(server, getRequest)
	<-arrived
	r.ok(conn.SetLinger(0))
	r.ok(conn.Close())
	r.stop(server)
	r.equal("result", seen, httplimit.Result{Status: 200, Gone: true})
	r.available(3, 1000)
}

// A mistake of the handler is no failure of the connection.
func TestRejectedWritesAreCharged(t *testing.T) {
	for name, next := range map[string]http.HandlerFunc{
		"a body after 204": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			_, _ = io.WriteString(w, "body")
		},
		"more than the length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1")
			_, _ = io.WriteString(w, "body")
		},
	} {
		t.Run(name, func(t *testing.T) {
			onServers(t, func(*rig) http.HandlerFunc { return next }, func(r *rig, server *httptest.Server) {
				resp, err := server.Client().Do(r.request(http.MethodGet, server.URL))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				r.stop(server)
				r.available(2, 900)
			})
		})
	}
}

// A client of HTTP/2 reads all but the last bytes of an answer, and then resets its
// stream. The write of the handler fails without a count of bytes.
func TestResetInTheFirstWrite(t *testing.T) {
	r := newRig(t)
	const size = 3 << 20
	var failed error
	server := r.server(r.handler(func(w http.ResponseWriter, _ *http.Request) {
		_, failed = io.WriteString(w, strings.Repeat("x", size))
	}, nil), true)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 20, MaxReceiveBufferPerConnection: 1 << 20}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(r.request(http.MethodGet, server.URL).WithContext(ctx))
	r.ok(err)
	_, err = io.ReadFull(resp.Body, make([]byte, 1<<20))
	r.ok(err)
	leave()
	_ = resp.Body.Close()
	r.stop(server)
	r.equal("the write fails", failed != nil, true)
	r.available(2, 900)
}
