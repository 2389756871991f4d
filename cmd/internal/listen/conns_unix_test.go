//go:build unix

package listen_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

// Ten thousand idle connections, or as many as this process may open, leave room
// for a client that works.
func TestManyIdleConnectionsDoNotStopIt(t *testing.T) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	const most, spare = 500, 300
	n := min(10_000, int(files.Cur)-most-spare)
	if n < most*2 {
		t.Fatalf("this process may open %d files; the test needs %d", files.Cur, most*3+spare)
	}
	addr := start(t, http.HandlerFunc(hello), &listen.Options{MaxConns: most})
	for i := range n {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if i%2 == 0 { // half of them begin a request and go silent
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n"); err != nil &&
				!errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
		}
		if i%1000 == 999 {
			if status, body := ask(t, addr); status != http.StatusOK || body != "hello" {
				t.Fatalf("after %d connections: %d %q", i+1, status, body)
			}
		}
	}
}
