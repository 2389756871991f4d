package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

func TestStreamsEnd(t *testing.T) {
	var mu sync.Mutex
	revoked := false
	serve := Options{Authenticate: func(token string) (Session, bool) {
		mu.Lock()
		defer mu.Unlock()
		return Session{Name: "ann", Role: RoleRead}, token == "t" && !revoked
	}}
	for name, end := range map[string]func(r *rig, v *viewing){
		"logout": func(r *rig, v *viewing) {
			r.send(request{path: "/api/session", method: http.MethodDelete, cookie: v.cookie})
		},
		"revoked": func(*rig, *viewing) {
			mu.Lock()
			defer mu.Unlock()
			revoked = true
		},
		"closed":      func(r *rig, _ *viewing) { r.ok(r.Close()) },
		"client gone": func(_ *rig, v *viewing) { v.cancel() },
		"namespace":   func(r *rig, _ *viewing) { r.drop(r.spaces["default"]) },
		"next session": func(r *rig, v *viewing) {
			r.send(request{path: "/api/session", body: `{"token":"t"}`, cookie: v.cookie})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				revoked = false
				r, _ := newCountedRig(t, serve)
				v := r.view(r.login("t"))
				v.watch("a")
				v.rows()
				begun := time.Now()
				end(r, v)
				v.drain()
				<-v.ended
				if took := time.Since(begun); took > 2*time.Second {
					t.Errorf("the stream ended after %v", took)
				}
				r.ok(r.Close()) // the bubble fails if a goroutine stays
				if name != "revoked" {
					r.wantOf(503, request{path: "/api/stream", cookie: r.login("t")})
				}
			})
		})
	}
}

func TestStreamsBelongToTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newCountedRig(t, Options{Authenticate: func(token string) (Session, bool) {
			return Session{Name: token, Role: RoleRead}, token != ""
		}})
		v := r.view(r.login("ann"))
		body := `{"id":"` + v.id + `","keys":[["a","gpt-4"]]}`
		r.wantOf(404, request{path: "/api/watch", body: body, cookie: r.login("bob")})
		r.wantOf(404, request{path: "/api/watch", body: body, cookie: r.login("ann")}) // another session of ann
		r.wantOf(200, request{path: "/api/watch", body: body, cookie: v.cookie})
		r.wantOf(401, request{path: "/api/stream"})
		v.leave()
		r.wantOf(404, request{path: "/api/watch", body: body, cookie: v.cookie})
		r.ok(r.Close())
	})
}

func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newCountedRig(t, Options{Authenticate: func(token string) (Session, bool) {
			return Session{Name: token, Role: RoleRead}, token != ""
		}})
		var all []*viewing
		for i := range maxStreams {
			v := r.view(r.login(fmt.Sprint("token-", i/maxStreamsEach)))
			go v.drain()
			all = append(all, v)
		}
		r.wantOf(429, request{path: "/api/stream", cookie: r.login("token-0")})
		r.wantOf(503, request{path: "/api/stream", cookie: r.login("another")})
		r.wantOf(200, request{path: "/api/info", cookie: r.login("token-0")})
		for _, v := range all {
			v.leave()
		}
		v := r.view(r.login("token-0"))
		v.leave()
		r.ok(r.Close())
	})
}

func TestNamesComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newCountedRig(t, Options{})
		r.use("a", "gpt-4", "rpm", 1)
		v := r.watching("a")
		r.create(limiter.Entity{ID: "a", Name: "Ann"})
		begun := time.Now()
		for {
			if d := v.rows(); len(d.Rows) == 1 && d.Rows[0].Name == "Ann" {
				break
			}
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the name was seen after %v", took)
		}
		v.leave()
		r.ok(r.Close())
	})
}

// TestAStreamOutlivesTheTimeouts runs the real server, whose timeouts are for
// answers that end.
func TestAStreamOutlivesTheTimeouts(t *testing.T) {
	r := newRig(t, Options{Now: time.Now})
	r.use("a", "gpt-4", "rpm", 10)
	listener, err := listen.Bind(t.Context(), "127.0.0.1:0", false)
	r.ok(err)
	const short = 50 * time.Millisecond
	server := listen.HTTP(listener, r.Handler, &listen.Options{ReadTimeout: short, WriteTimeout: short})
	go func() { _ = server.Serve() }()
	defer func() { _ = server.Shutdown(t.Context()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+listener.Addr().String()+r.cookie.Path+"api/stream", nil)
	r.ok(err)
	q.AddCookie(&http.Cookie{Name: "zael-" + listener.Addr().String()[len("127.0.0.1:"):], Value: r.cookie.Value})
	answer, err := http.DefaultClient.Do(q)
	r.ok(err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, %v", answer.StatusCode, answer.Header)
	}
	v := &viewing{r: r, events: bufio.NewReader(answer.Body), cookie: r.cookie}
	var hello struct{ ID string }
	v.next("hello", &hello)
	v.id = hello.ID
	v.watch("a")
	for range 3 { // half a second apart
		v.rows()
	}
	r.ok(r.Close())
	v.drain()
}

// TestAQuietStreamOutlivesTheTimeouts runs HTTP/2, where a deadline of a write that
// passes ends the stream even if nothing is written.
func TestAQuietStreamOutlivesTheTimeouts(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.times = streamTimes{heartbeat: 700 * time.Millisecond, write: 400 * time.Millisecond}
	server := httptest.NewUnstartedServer(r.Handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	defer r.Close()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+r.cookie.Path+"api/stream", nil)
	r.ok(err)
	q.AddCookie(&http.Cookie{Name: cookieName(&http.Request{Host: q.URL.Host}), Value: r.cookie.Value})
	answer, err := server.Client().Do(q)
	r.ok(err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 {
		t.Fatalf("status %d, %s", answer.StatusCode, answer.Proto)
	}
	beats := 0
	for lines := bufio.NewScanner(answer.Body); beats < 2 && lines.Scan(); {
		if lines.Text() == ":" {
			beats++
		}
	}
	if beats < 2 {
		t.Errorf("the stream ended after %d comments", beats)
	}
}
