package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

// readiness caches the answer of the store, since anyone may ask for it.
type readiness struct {
	asking sync.Mutex
	ok     atomic.Bool
	until  atomic.Int64 // when to ask again, in nanoseconds
}

// Times of a readiness check: how long it may take, and how long its result is
// used.
const readyTimeout, readyAge = 2 * time.Second, time.Second

// check reports whether the store answers. It asks at most once in readyAge, and
// meanwhile others get the last result.
func (r *readiness) check(ctx context.Context, ping func(context.Context) error) bool {
	if time.Now().UnixNano() < r.until.Load() || !r.asking.TryLock() {
		return r.ok.Load()
	}

	defer r.asking.Unlock()
	// The result is for other probes too, so this one must not cut the question
	// off.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()

	r.ok.Store(ping(ctx) == nil)
	r.until.Store(time.Now().Add(readyAge).UnixNano())
	return r.ok.Load()
}

// writeHealth knows whether charges reach the store. A store can answer reads
// while it refuses writes.
type writeHealth struct {
	// failed counts the failures since the last success, and last is when the last
	// one was, in nanoseconds.
	failed atomic.Int64
	last   atomic.Int64
}

// A server is not ready after writeFailures failures in a row, until writeFailureAge
// after the last one. Then it takes calls again, since only a call shows that the
// store has recovered.
const writeFailures, writeFailureAge = 3, 5 * time.Second

// note records the result of a call that wrote to the store. A failure after the end
// of the context says nothing about the store.
func (w *writeHealth) note(ctx context.Context, err error) {
	switch {
	case err == nil:
		// All calls share the counter, so the usual success does not write to
		// it.
		if w.failed.Load() != 0 {
			w.failed.Store(0)
		}
	case ctx.Err() == nil && errors.As(err, new(*limiter.UnavailableError)):
		w.last.Store(time.Now().UnixNano())
		w.failed.Add(1)
	}
}

// down reports whether writes fail.
func (w *writeHealth) down() bool {
	return w.failed.Load() >= writeFailures && time.Since(time.Unix(0, w.last.Load())) < writeFailureAge
}

// serveReady answers whether the server can take work.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	if why := s.unready(r.Context()); why != "" {
		answerProbe(w, http.StatusServiceUnavailable, why)
		return
	}
	answerProbe(w, http.StatusOK, "ready")
}

// unready returns why the server can take no work, or "" if it can.
func (s *Server) unready(ctx context.Context) string {
	switch {
	case s.draining.Load():
		return "draining"
	case !s.ready.check(ctx, s.home.lim.Ping):
		return "the store does not answer"
	case s.writes.down():
		return "the store does not take charges"
	}
	return ""
}

func answerProbe(w http.ResponseWriter, status int, text string) {
	_ = web.NewAnswer(w.Header(), status, web.TypeJSON, fmt.Appendf(nil, `{"status":%q}`+"\n", text)).Write(w)
}
