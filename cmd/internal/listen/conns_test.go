package listen_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

// request sends a request on a connection and reports whether it was answered.
func request(conn net.Conn, path string) bool {
	return exchange(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

// exchange sends the text of a request and reports whether it was answered.
func exchange(conn net.Conn, sent string) bool {
	if _, err := io.WriteString(conn, sent); err != nil {
		return false
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.Body.Close() == nil
}

// Requests that no caller vouches for protect no connection, however often they
// come, and a client that has just connected has time for its request.
func TestStrangersDisplaceEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/known" {
				listen.Vouch(r)
			}
			hello(w, r)
		})
		server := listen.HTTP(l, handler, &listen.Options{MaxConns: 4, Vouching: true})
		go func() { done <- listen.Run(ctx, nil, server) }()
		client := l.dial()
		if !request(client, "/known") {
			t.Fatal("the client is not served")
		}
		var strangers []net.Conn
		for range 10 {
			time.Sleep(2 * time.Second)
			stranger := l.dial()
			strangers = append(strangers, stranger)
			for _, s := range strangers[max(0, len(strangers)-3):] {
				request(s, "/healthz")
			}
		}
		if !request(client, "/known") {
			t.Error("strangers displaced a client")
		}
		// Three more clients, and then the set is full of them.
		clients := []net.Conn{client}
		for range 3 {
			c := l.dial()
			synctest.Wait()
			time.Sleep(time.Millisecond)
			if !request(c, "/known") {
				t.Error("strangers displaced a fresh connection")
			}
			clients = append(clients, c)
		}
		fresh, second := l.dial(), l.dial()
		if !request(fresh, "/known") || !request(second, "/known") {
			t.Error("fresh connections displace each other before they can send")
		}
		for _, c := range append(append(clients, strangers...), fresh, second) {
			_ = c.Close()
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Everything after the end of the context fits in the drain time, even if each
// step takes all that it gets.
func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		begin := time.Now()
		var ends []time.Duration
		wait := func(ctx context.Context) {
			<-ctx.Done()
			ends = append(ends, time.Since(begin))
		}
		late := func(ctx context.Context) error {
			wait(ctx)
			return ctx.Err()
		}
		err := listen.Run(ctx, &listen.RunOptions{
			DrainTimeout: 20 * time.Second, Quiesce: wait, Settle: late, Close: late,
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: %v", err)
		}
		want := []time.Duration{10 * time.Second, 18 * time.Second, 20 * time.Second}
		if len(ends) != len(want) || ends[0] != want[0] || ends[1] != want[1] || ends[2] != want[2] {
			t.Errorf("the steps end after %v, want %v", ends, want)
		}
	})
}

// An IPv4 address does not open IPv6 too.
func TestBindIPv4Alone(t *testing.T) {
	l, err := listen.Bind(t.Context(), "0.0.0.0:0", true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if at, ok := l.Addr().(*net.TCPAddr); !ok || at.IP.To4() == nil {
		t.Errorf("it listens on %v", l.Addr())
	}
}

// heldConn announces the writes of a server, and holds them back.
type heldConn struct {
	net.Conn
	writes, goOn chan struct{}
}

func (c *heldConn) Write(b []byte) (int, error) {
	c.writes <- struct{}{}
	<-c.goOn
	return c.Conn.Write(b)
}

// An answer that is on its way when the server shuts down arrives.
func TestDrainCutsNoAnswer(t *testing.T) {
	for name, sent := range map[string]string{
		"GET":            "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"POST":           "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody",
		"POST in chunks": "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			held := &heldConn{far, make(chan struct{}, 10), make(chan struct{})}
			l := newPipes()
			server := listen.HTTP(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				listen.Receive(r, func() { _, _ = io.ReadAll(r.Body) })
				hello(w, r)
			}), nil)
			served := make(chan error, 1)
			go func() { served <- server.Serve() }()
			l.conns <- held
			answered := make(chan bool, 1)
			go func() { answered <- exchange(near, sent) }()
			<-held.writes // the handler has returned
			down := make(chan error, 1)
			go func() { down <- server.Shutdown(t.Context()) }()
			<-l.done // after the connections without a request
			close(held.goOn)
			if !<-answered {
				t.Error("the answer is cut off")
			}
			for _, done := range []chan error{down, served} {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}
