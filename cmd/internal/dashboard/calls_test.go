package dashboard

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

// Bodies that do not come take places of their own token alone.
func TestSlowBodiesHoldUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{Authenticate: func(token string) (Session, bool) {
			return Session{Name: token, Role: RoleRead}, token != ""
		}})
		var ends []io.Closer
		done := make(chan int, maxCalls*2)
		for _, token := range []string{"a", "b", "c", "d", "e"} {
			cookie := r.login(token)
			for range maxCallsEach {
				q := request{path: "/api/explain", body: "{}", cookie: cookie}.http()
				from, to := io.Pipe()
				q.Body = from
				ends = append(ends, to)
				go func() {
					w := httptest.NewRecorder()
					r.ServeHTTP(w, q)
					done <- w.Code
				}()
			}
		}
		synctest.Wait()
		if len(done) > 0 {
			t.Fatalf("a call ends with %d before its body has come", <-done)
		}
		r.wantOf(429, request{path: "/api/info", cookie: r.login("a")})
		r.wantOf(200, request{path: "/api/info", cookie: r.login("f")})
		for _, end := range ends { // one by one, since all together have too few places
			_ = end.Close()
			if status := <-done; status != http.StatusBadRequest {
				t.Errorf("a call without a body: %d", status)
			}
		}
		r.wantOf(200, request{path: "/api/info", cookie: r.login("a")})
		if n := r.calls.Holders(); n != 0 {
			t.Errorf("places of %d holders are lost", n)
		}
		r.ok(r.Close())
	})
}

// Logins that never arrive displace each other, and not the page.
func TestUnfinishedLoginsLeaveRoomForThePage(t *testing.T) {
	r := newRig(t, Options{})
	listener, err := listen.Bind(t.Context(), "127.0.0.1:0", false)
	r.ok(err)
	server := listen.HTTP(listener, r.Handler, &listen.Options{MaxRequests: -1, MaxConns: 8, Vouching: true})
	go func() { _ = server.Serve() }()
	defer func() { _ = server.Shutdown(t.Context()) }()
	at := listener.Addr().String()
	for range 20 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", at)
		r.ok(err)
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn,
			"POST /api/session HTTP/1.1\r\nHost: "+at+"\r\nOrigin: http://"+at+
				"\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{")
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at+"/", nil)
	r.ok(err)
	res, err := http.DefaultClient.Do(q)
	r.ok(err)
	defer res.Body.Close()
	if page, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK || !strings.Contains(string(page), "<main") {
		t.Errorf("the page: %d", res.StatusCode)
	}
}
