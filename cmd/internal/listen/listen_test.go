package listen_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

func TestBindRefusesAddressesThatOthersReach(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		if l, err := listen.Bind(t.Context(), addr, false); !errors.Is(err, listen.ErrExposed) {
			t.Errorf("%s: %v, %v, want ErrExposed", addr, l, err)
		}
		l, err := listen.Bind(t.Context(), addr, true)
		if err != nil {
			t.Fatalf("%s, exposed: %v", addr, err)
		}
		_ = l.Close()
	}
	l, err := listen.Bind(t.Context(), "localhost:0", false)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

// start serves handler on a loopback address until the test ends.
func start(t *testing.T, handler http.Handler, opts *listen.Options) string {
	t.Helper()
	l, err := listen.Bind(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- listen.Run(ctx, nil, listen.HTTP(l, handler, opts)) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return l.Addr().String()
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// ask sends a request on a connection of its own and returns the answer.
func ask(t *testing.T, addr string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// A request under way keeps its connection while others come and go.
func TestBusyConnectionsStay(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	addr := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(begun)
			<-release
		}
		hello(w, r)
	}), &listen.Options{MaxConns: 2})
	slow, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	_, _ = io.WriteString(slow, "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-begun
	for range 5 {
		if status, _ := ask(t, addr); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	close(release)
	res, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("the slow request: %v, %v", res, err)
	}
	_ = res.Body.Close()
}

// Clients that send slowly hold neither connections nor a shutdown.
func TestSlowBodiesHoldNothing(t *testing.T) {
	reading := make(chan struct{}, 10)
	var conns []net.Conn
	t.Cleanup(func() { // after the server has drained
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	addr := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			reading <- struct{}{}
			listen.Receive(r, func() { _, _ = io.ReadAll(r.Body) })
		}
		hello(w, r)
	}), &listen.Options{MaxConns: 2})
	for range 6 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx")
		<-reading
		if status, _ := ask(t, addr); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
}

func TestRequestsAreLimited(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	addr := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(begun)
			<-release
		}
		hello(w, r)
	}), &listen.Options{MaxRequests: 1})
	done := make(chan error, 1)
	go func() {
		res, err := http.Get("http://" + addr + "/slow") //nolint:noctx // the handler is released below
		if err == nil {
			err = res.Body.Close()
		}
		done <- err
	}()
	<-begun
	if status, _ := ask(t, addr); status != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", status)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if status, _ := ask(t, addr); status != http.StatusOK {
		t.Errorf("afterwards: status %d", status)
	}
}

// pipes is a listener whose connections are in memory, so that their deadlines
// follow the clock of a synctest bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// A client that sends slowly, or nothing at all, is cut off.
func TestSlowClientsAreCutOff(t *testing.T) {
	for name, test := range map[string]struct {
		first string        // what the client sends at once
		then  string        // what it repeats every second
		cut   time.Duration // when it is cut off
	}{
		"nothing":          {"", "", 5 * time.Second},
		"header, bytewise": {"GET / HTTP/1.1\r\n", "X", 5 * time.Second},
		"body, bytewise": {
			"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", "x", 30 * time.Second,
		},
		"idle after answer": {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newPipes()
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.ReadAll(r.Body)
					hello(w, r)
				})
				go func() { done <- listen.Run(ctx, nil, listen.HTTP(l, handler, nil)) }()
				client := l.dial()
				begin := time.Now()
				var sending sync.WaitGroup
				sending.Go(func() {
					_, err := io.WriteString(client, test.first)
					for err == nil && test.then != "" {
						time.Sleep(time.Second)
						_, err = io.WriteString(client, test.then)
					}
				})
				_, _ = io.Copy(io.Discard, client) // until the server closes
				if took := time.Since(begin); took > test.cut+time.Second {
					t.Errorf("cut off after %v, want %v", took, test.cut)
				}
				_ = client.Close()
				sending.Wait()
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Draining waits for work under way, and cuts it off when its time is over.
func TestRunDrains(t *testing.T) {
	for name, test := range map[string]struct {
		work time.Duration
		late bool
	}{"in time": {5 * time.Second, false}, "too late": {time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newPipes()
				ctx, stop := context.WithCancel(t.Context())
				var steps []string
				done := make(chan error, 1)
				begun := make(chan struct{})
				handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					close(begun)
					select {
					case <-time.After(test.work):
						hello(w, r)
					case <-r.Context().Done():
					}
				})
				go func() {
					done <- listen.Run(ctx, &listen.RunOptions{
						DrainTimeout: 10 * time.Second,
						Quiesce:      func(context.Context) { steps = append(steps, "quiesce") },
						Settle: func(context.Context) error {
							steps = append(steps, "settle")
							return nil
						},
					}, listen.HTTP(l, handler, nil))
				}()
				client := l.dial()
				go func() { _, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") }()
				answer := make(chan string, 1)
				go func() {
					text, _ := io.ReadAll(client)
					answer <- string(text)
				}()
				<-begun
				stop()
				begin := time.Now()
				err := <-done
				if took := time.Since(begin); took > 11*time.Second {
					t.Errorf("draining took %v", took)
				}
				if (err != nil) != test.late {
					t.Errorf("Run: %v", err)
				}
				if got := <-answer; strings.HasSuffix(got, "hello") == test.late {
					t.Errorf("the answer is %q", got)
				}
				if fmt.Sprint(steps) != "[quiesce settle]" {
					t.Errorf("steps %v", steps)
				}
				_ = client.Close()
			})
		})
	}
}

// Connections without a request are closed, and those with one stay.
func TestCloseIdle(t *testing.T) {
	conns := listen.NewConns(0)
	raw, err := listen.Bind(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	l := conns.Listener(raw)
	defer func() { _ = l.Close() }()
	clients := make([]net.Conn, 2)
	for i := range clients {
		if clients[i], err = new(net.Dialer).DialContext(t.Context(), "tcp", raw.Addr().String()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = clients[i].Close() })
		served, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = served.Close() })
		if i == 0 {
			listen.ConnOf(served.RemoteAddr()).Begin()
		}
	}
	conns.CloseIdle(time.Hour)
	if conns.Len() != 2 {
		t.Errorf("%d connections are left after none was idle for an hour", conns.Len())
	}
	conns.CloseIdle(0)
	if conns.Len() != 1 || conns.Busy() != 1 {
		t.Errorf("%d connections are left, %d are busy", conns.Len(), conns.Busy())
	}
	if _, err := clients[1].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the idle client reads %v", err)
	}
}

// A request with both Content-Length and Transfer-Encoding is the last of its
// connection, since a server in front may see its end elsewhere.
func TestAmbiguousLengthEndsTheConnection(t *testing.T) {
	var mu sync.Mutex
	var paths []string
	addr := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		paths = append(paths, r.URL.Path)
		hello(w, r)
	}), nil)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = io.WriteString(conn, "POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: "+
		"chunked\r\n\r\n0\r\n\r\n"+
		"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
	answer, err := io.ReadAll(conn)
	if err != nil || strings.Count(string(answer), "HTTP/1.1 200 OK") != 1 ||
		!strings.Contains(string(answer), "Connection: close\r\n") {
		t.Errorf("%v: %q", err, answer)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(paths) != 1 || paths[0] != "/first" {
		t.Errorf("the handler saw %q", paths)
	}
}
