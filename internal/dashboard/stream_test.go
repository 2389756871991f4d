package dashboard

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/listen"
)

func TestAViewerSeesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newCountedRig(t, Options{})
		r.use("a", "gpt-4", "rpm", 10)
		v := r.view(r.cookie)
		v.watch("a", "b", "a")
		first := v.rows()
		if len(first.Rows) != 1 || len(first.Gone) != 1 || first.Gone[0] != [2]string{"b", "gpt-4"} || first.At.IsZero() {
			t.Fatalf("first rows: %+v", first)
		}
		begun := time.Now()
		r.use("b", "gpt-4", "rpm", 10)
		for {
			if d := v.rows(); len(d.Rows) > 0 && d.Rows[len(d.Rows)-1].Entity == "b" {
				break
			}
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("a change was seen after %v", took)
		}
		v.leave()
		r.ok(r.Close())
	})
}

func TestFullBucketsSendNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newCountedRig(t, Options{})
		r.use("a", "gpt-4", "rpm", 1)
		time.Sleep(30 * time.Second) // full again
		v := r.view(r.cookie)
		v.watch("a")
		v.rows()
		var events atomic.Int64
		go func() {
			for {
				name, _, err := v.read()
				if err != nil {
					return
				}
				if name == "rows" {
					events.Add(1)
				}
			}
		}()
		before := store.reads.Load()
		time.Sleep(10 * time.Second)
		if got := events.Load(); got != 0 {
			t.Errorf("%d events about a bucket that does not change", got)
		}
		if got := store.reads.Load() - before; got < 19 || got > 21 {
			t.Errorf("%d reads in 10 s, want 20", got)
		}
		v.leave()
		r.ok(r.Close())
	})
}

func TestViewersShareOneReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newCountedRig(t, Options{})
		r.use("a", "gpt-4", "rpm", 1)
		var all []*viewing
		for i := range 20 {
			v := r.view(r.cookie)
			v.watch("a", fmt.Sprintf("own-%d", i%3))
			v.rows()
			go v.drain()
			all = append(all, v)
		}
		synctest.Wait()
		reads, keys := store.reads.Load(), store.keys.Load()
		time.Sleep(10 * time.Second)
		reads, keys = store.reads.Load()-reads, store.keys.Load()-keys
		if reads > 21 || keys > 21*4 {
			t.Errorf("20 viewers of 4 rows: %d reads of %d keys in 10 s", reads, keys)
		}
		for _, v := range all {
			v.leave()
		}
		synctest.Wait()
		reads = store.reads.Load()
		time.Sleep(time.Minute)
		if got := store.reads.Load(); got != reads {
			t.Errorf("%d reads without viewers", got-reads)
		}
		if s := r.spaces["default"]; len(s.hub.cells) != 0 || len(s.hub.viewers) != 0 || s.hub.running {
			t.Errorf("left behind: %d rows, %d viewers, running %v", len(s.hub.cells), len(s.hub.viewers), s.hub.running)
		}
		v := r.view(r.cookie) // the reader starts again
		v.watch("a")
		v.rows()
		v.leave()
		r.ok(r.Close())
	})
}

func TestWatchingLessReadsLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newCountedRig(t, Options{})
		v := r.view(r.cookie)
		v.watch("a", "b", "c")
		v.rows()
		go v.drain()
		v.watch("b")
		synctest.Wait()
		keys := store.keys.Load()
		time.Sleep(10 * time.Second)
		if got := store.keys.Load() - keys; got > 21 {
			t.Errorf("%d keys were read for one row in 10 s", got)
		}
		v.leave()
		r.ok(r.Close())
	})
}

func TestAViewerThatDoesNotReadIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newCountedRig(t, Options{})
		r.use("a", "gpt-4", "rpm", 10)
		good, lazy := r.view(r.cookie), r.view(r.cookie)
		good.watch("a")
		lazy.watch("a")
		go good.drain()
		begun := time.Now()
		<-lazy.ended
		if took := time.Since(begun); took > 2*usualTimes.write {
			t.Errorf("the viewer was dropped after %v", took)
		}
		select {
		case <-good.ended:
			t.Error("the other viewer was dropped too")
		default:
		}
		good.leave()
		r.ok(r.Close())
	})
}

func TestASlowViewerGetsTheLastState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newCountedRig(t, Options{})
		r.use("a", "gpt-4", "rpm", 10)
		v := r.view(r.cookie)
		v.watch("a")
		v.rows()
		time.Sleep(usualTimes.write - time.Second) // while the bucket refills
		events := 0
		for v.rows().Rows[0].Limits[0].Available < 1 {
			if events++; events > 2 {
				t.Fatal("old events were kept for the viewer")
			}
		}
		v.leave()
		r.ok(r.Close())
	})
}

func TestTroubleDoesNotEndAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newCountedRig(t, Options{})
		r.use("a", "gpt-4", "rpm", 1)
		v := r.view(r.cookie)
		v.watch("a")
		v.rows()
		store.fail.Store(true)
		var s Status
		for s.Trouble == "" {
			v.next("status", &s)
		}
		if strings.Contains(s.Trouble, "network") || !strings.HasSuffix(s.Trouble, ".") {
			t.Errorf("trouble: %q", s.Trouble)
		}
		go func() {
			time.Sleep(5 * time.Minute)
			store.fail.Store(false)
			r.use("a", "gpt-4", "rpm", 5)
		}()
		before := store.reads.Load()
		begun := time.Now()
		for s.Trouble != "" {
			v.next("status", &s)
		}
		if got := store.reads.Load() - before; got > 20 {
			t.Errorf("%d reads of a broken store in 5 min", got)
		}
		if took := time.Since(begun); took > 5*time.Minute+2*maxBackOff {
			t.Errorf("the end of the trouble was seen after %v", took)
		}
		v.leave()
		r.ok(r.Close())
	})
}

func TestADamagedRowHidesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported atomic.Int64
		r, store := newCountedRig(t, Options{OnError: func(error) { reported.Add(1) }})
		store.damaged = "c"
		all := []string{"a", "b", "c", "d", "e"}
		for _, id := range all {
			r.use(id, "gpt-4", "rpm", 1)
		}
		v := r.view(r.cookie)
		v.watch(all...)
		var s Status
		for s.Trouble == "" {
			v.next("status", &s)
		}
		other := r.view(r.cookie) // the rows are known
		other.watch(all...)
		d := other.rows()
		if len(d.Rows) != 4 || len(d.Gone) != 1 || d.Gone[0][0] != "c" {
			t.Errorf("rows: %+v", d)
		}
		other.leave()
		if !strings.Contains(s.Trouble, "damaged") || s.Interval != 500 {
			t.Errorf("status: %+v", s)
		}
		go v.drain()
		time.Sleep(time.Minute)
		if got := reported.Load(); got != 1 {
			t.Errorf("the damage was reported %d times", got)
		}
		v.leave()
		r.ok(r.Close())
	})
}

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
		v := r.view(r.cookie)
		v.watch("a")
		v.rows()
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
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listener.Addr().String()+r.cookie.Path+"api/stream", nil)
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
