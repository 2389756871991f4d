package proxy

import (
	"net/http"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// quota bounds an amount that calls hold for a while: of all entities together,
// and of each one, so that no client takes the room of the others.
type quota struct {
	what         string // calls that hold it, in the plural
	total, share int64

	mu   sync.Mutex
	used int64
	by   map[string]int64 // what an entity holds
}

func newQuota(what string, total, share int64) *quota {
	return &quota{what: what, total: total, share: share, by: map[string]int64{}}
}

// take adds n to what an entity holds. The caller gives it back with give.
func (q *quota) take(entity string, n int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.by[entity]+n > q.share:
		return &busyError{httplimit.Problem{Status: http.StatusTooManyRequests, Detail: "too many " + q.what + " of this client are under way", RetryAfter: time.Second}}
	case q.used+n > q.total:
		return &busyError{httplimit.Problem{Status: http.StatusServiceUnavailable, Detail: "too many " + q.what + " are under way", RetryAfter: time.Second}}
	}
	q.used += n
	q.by[entity] += n
	return nil
}

func (q *quota) give(entity string, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= n
	if q.by[entity] -= n; q.by[entity] == 0 {
		delete(q.by, entity)
	}
}

// inUse returns what all entities hold.
func (q *quota) inUse() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used
}

// busyError refuses a call because the proxy has no room for it now.
type busyError struct{ problem httplimit.Problem }

func (e *busyError) Error() string { return e.problem.Error() }

func (e *busyError) Unwrap() error { return &e.problem }
