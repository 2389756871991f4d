package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	r.ok.Store(ping(ctx) == nil)
	r.until.Store(time.Now().Add(readyAge).UnixNano())
	return r.ok.Load()
}

// serveReady answers whether the server can take work.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.draining.Load():
		answerProbe(w, http.StatusServiceUnavailable, "draining")
	case !s.ready.check(r.Context(), s.home.lim.Ping):
		answerProbe(w, http.StatusServiceUnavailable, "the store does not answer")
	default:
		answerProbe(w, http.StatusOK, "ready")
	}
}

func answerProbe(w http.ResponseWriter, status int, text string) {
	_ = newReply(w.Header(), status, typeJSON, fmt.Appendf(nil, `{"status":%q}`+"\n", text)).write(w)
}
