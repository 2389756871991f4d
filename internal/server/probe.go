package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// readiness caches the answer of the store, since anyone may ask for it.
type readiness struct {
	mu   sync.Mutex
	at   time.Time
	last error
}

// Times of a readiness check: how long it may take, and how long its result is
// used.
const readyTimeout, readyAge = 2 * time.Second, time.Second

// check asks the store, at most once in readyAge.
func (r *readiness) check(ctx context.Context, ping func(context.Context) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < readyAge {
		return r.last
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	r.last = ping(ctx)
	r.at = time.Now()
	return r.last
}

// serveReady answers whether the server can take work.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.draining.Load():
		answerProbe(w, http.StatusServiceUnavailable, "draining")
	case s.ready.check(r.Context(), s.home.lim.Ping) != nil:
		answerProbe(w, http.StatusServiceUnavailable, "the store does not answer")
	default:
		answerProbe(w, http.StatusOK, "ready")
	}
}

func answerProbe(w http.ResponseWriter, status int, text string) {
	_ = newReply(w.Header(), status, typeJSON, fmt.Appendf(nil, `{"status":%q}`+"\n", text)).write(w)
}
