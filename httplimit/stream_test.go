package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// protocols are the servers of these tests.
var protocols = []struct {
	name  string
	http2 bool
}{{"HTTP/1.1", false}, {"HTTP/2", true}}

// onServers runs a test with a handler on a real server of each protocol.
func onServers(t *testing.T, next func(*rig) http.HandlerFunc, check func(*rig, *httptest.Server)) {
	t.Helper()
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			r := newRig(t)
			server := r.server(r.handler(next(r), nil), p.http2)
			check(r, server)
		})
	}
}

// server starts a server that the test stops.
func (r *rig) server(handler http.Handler, http2 bool) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.running.Add(1)
		defer r.running.Done()
		handler.ServeHTTP(w, q)
	}))
	s.EnableHTTP2 = http2
	s.Config.ErrorLog = discardLog()
	if http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	r.Cleanup(s.Close)
	return s
}

// stop closes a server and waits for its handlers, also those of HTTP/2 streams
// and of hijacked connections.
func (r *rig) stop(s *httptest.Server) {
	s.Close()
	r.running.Wait()
}

func TestServerHasTheSameInterfaces(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			r := newRig(t)
			handler := func(found *[4]bool) http.HandlerFunc {
				return func(w http.ResponseWriter, _ *http.Request) { *found = interfaces(w) }
			}
			var bare, limited [4]bool
			mux := http.NewServeMux()
			mux.Handle("/bare", handler(&bare))
			mux.Handle("/limited", r.handler(handler(&limited), nil))
			server := r.server(mux, p.http2)
			r.get(server.Client(), http.MethodGet, server.URL+"/bare")
			r.get(server.Client(), http.MethodGet, server.URL+"/limited")
			r.equal("interfaces", limited, bare)
		})
	}
}

// TestEventsArriveAsTheyAreFlushed reads each event before the next one is sent.
func TestEventsArriveAsTheyAreFlushed(t *testing.T) {
	step := make(chan struct{})
	onServers(t, func(r *rig) http.HandlerFunc {
		return func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, event := range []string{"one", "two"} {
				_, _ = io.WriteString(w, "data: "+event+"\n")
				r.works(http.NewResponseController(w).Flush())
				<-step
			}
			_, _ = io.WriteString(w, "data: three\n")
			w.(http.Flusher).Flush()
			<-step
			r.works(httplimit.Used(q.Context(), "tpm", 300))
		}
	}, func(r *rig, server *httptest.Server) {
		resp, err := server.Client().Do(r.request(http.MethodGet, server.URL))
		r.ok(err)
		defer resp.Body.Close()
		r.equal("state", resp.Header.Get("RateLimit"), `"rpm";r=2;t=20, "tpm";r=900;t=1`)
		lines := bufio.NewScanner(resp.Body)
		for _, want := range []string{"data: one", "data: two", "data: three"} {
			r.equal("a line", lines.Scan(), true)
			r.equal("line", lines.Text(), want)
			step <- struct{}{}
		}
		r.equal("another line", lines.Scan(), false)
		r.ok(lines.Err())
		r.stop(server)
		r.available(2, 700)
		r.ended(1)
	})
}

func TestHijackedConnection(t *testing.T) {
	r := newRig(t)
	var seen httplimit.Result
	keep := func(_ *http.Request, result httplimit.Result) bool { seen = result; return result.Served() }
	server := r.server(r.handler(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			r.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString("echo " + line)
		_ = rw.Flush()
	}, &httplimit.Options{Keep: keep}), false)

	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	r.ok(err)
	defer conn.Close()
	r.ok(conn.SetDeadline(time.Now().Add(30 * time.Second)))
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhi\n")
	text, err := io.ReadAll(conn)
	r.ok(err)
	r.equal("answer", strings.HasSuffix(string(text), "\r\n\r\necho hi\n"), true)
	r.stop(server)
	r.equal("result", seen, httplimit.Result{Status: 101})
	r.available(2, 900)
}

func TestInformationalHeadersAndTrailers(t *testing.T) {
	onServers(t, func(*rig) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(w, "body")
			w.Header().Set("X-Sum", "42")
		}
	}, func(r *rig, server *httptest.Server) {
		var hints []int
		req := r.request(http.MethodGet, server.URL)
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error { hints = append(hints, code); return nil },
		}))
		resp, err := server.Client().Do(req)
		r.ok(err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		r.ok(err)
		r.equal("hints", hints, []int{103})
		r.equal("status", resp.StatusCode, 200)
		r.equal("body", string(text), "body")
		r.equal("trailer", resp.Trailer.Get("X-Sum"), "42")
		r.stop(server)
		r.available(2, 900)
		r.ended(1)
	})
}

func TestHead(t *testing.T) {
	onServers(t, func(*rig) http.HandlerFunc { return hello }, func(r *rig, server *httptest.Server) {
		for range 3 {
			resp := r.get(server.Client(), http.MethodHead, server.URL)
			r.equal("status", resp.StatusCode, 200)
			r.equal("body", resp.body, "")
			r.equal("length", resp.ContentLength, int64(5))
		}
		resp := r.get(server.Client(), http.MethodHead, server.URL)
		r.equal("status", resp.StatusCode, 429)
		r.equal("body", resp.body, "")
		r.equal("retry", resp.Header.Get("Retry-After"), "20")
	})
}

// TestSmallAnswersKeepTheirLength checks that nothing is flushed behind the
// handler's back, which would make the answer chunked.
func TestSmallAnswersKeepTheirLength(t *testing.T) {
	onServers(t, func(r *rig) http.HandlerFunc {
		return func(w http.ResponseWriter, q *http.Request) {
			_, err := io.Copy(w, strings.NewReader("hello"))
			r.works(err)
			r.works(httplimit.Used(q.Context(), "tpm", 1))
		}
	}, func(r *rig, server *httptest.Server) {
		resp := r.get(server.Client(), http.MethodGet, server.URL)
		r.equal("body", resp.body, "hello")
		r.equal("length", resp.ContentLength, int64(5))
		r.equal("encoding", resp.TransferEncoding, []string(nil))
		r.stop(server)
		r.available(2, 999)
	})
}

func TestAbortedAnswer(t *testing.T) {
	onServers(t, func(r *rig) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}, func(r *rig, server *httptest.Server) {
		resp, err := server.Client().Do(r.request(http.MethodGet, server.URL))
		r.ok(err)
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		r.equal("the client notices", err != nil, true)
		r.stop(server)
		r.available(3, 1000)
		r.ended(1)
	})
}

// TestDeadlinesReachTheConnection sets a deadline through the controller.
func TestDeadlinesReachTheConnection(t *testing.T) {
	onServers(t, func(r *rig) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			control := http.NewResponseController(w)
			r.works(control.SetWriteDeadline(time.Now().Add(-time.Second)))
			r.works(control.SetReadDeadline(time.Now().Add(time.Minute)))
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		}
	}, func(r *rig, server *httptest.Server) {
		resp, err := server.Client().Do(r.request(http.MethodGet, server.URL))
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		r.equal("the answer fails", err != nil, true)
	})
}

// TestClientThatLeavesARealServer cancels a call before the answer begins. The
// handler ran, so it has served.
func TestClientThatLeavesARealServer(t *testing.T) {
	arrived := make(chan struct{})
	onServers(t, func(*rig) http.HandlerFunc {
		return func(w http.ResponseWriter, q *http.Request) {
			arrived <- struct{}{}
			<-q.Context().Done()
			_, _ = io.WriteString(w, "too late")
		}
	}, func(r *rig, server *httptest.Server) {
		ctx, cancel := context.WithCancel(r.request(http.MethodGet, server.URL).Context())
		go func() {
			<-arrived
			cancel()
		}()
		req := r.request(http.MethodGet, server.URL).WithContext(ctx)
		resp, err := server.Client().Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		r.equal("cancelled", errors.Is(err, context.Canceled), true)
		r.stop(server)
		r.available(2, 900)
		r.ended(1)
		r.reported()
	})
}
