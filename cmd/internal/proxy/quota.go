package proxy

import (
	"net/http"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// client is the holder of a part of a quota.
type client struct {
	entity string
	// isNew is true where clients can invent entities and the upstream has not
	// accepted this one yet.
	isNew bool
}

// quota bounds an amount that calls hold for a while: of all clients together, of
// each one, and of all new ones together. So no client takes the room of the others,
// even if it invents keys.
type quota struct {
	what                    string // calls that hold it, in the plural
	total, share, newcomers int64

	mu            sync.Mutex
	used, usedNew int64
	by            map[string]int64 // what an entity holds
}

// newQuota returns a quota that gives a client a share at most. All new clients
// have a quarter together, or a share if that is more. Of 100 places with a share of
// 10, one client has at most 10, and all new clients together at most 25.
func newQuota(what string, total, share int64) *quota {
	return &quota{what: what, total: total, share: share, newcomers: max(total/4, share), by: map[string]int64{}}
}

// take adds n to what a client holds. The caller gives it back with give.
func (q *quota) take(c client, n int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()

	switch {
	// The client can mend this alone: its own calls have to end.
	case q.by[c.entity]+n > q.share:
		return &busyError{httplimit.Problem{
			Status: http.StatusTooManyRequests, Detail: "too many " + q.what + " of this client are under way",
			RetryAfter: time.Second,
		}}
	case c.isNew && q.usedNew+n > q.newcomers:
		return &busyError{httplimit.Problem{
			Status: http.StatusServiceUnavailable,
			Detail: "too many " + q.what + " of new clients are under way", RetryAfter: time.Second,
		}}
	case q.used+n > q.total:
		return &busyError{httplimit.Problem{
			Status: http.StatusServiceUnavailable, Detail: "too many " + q.what + " are under way",
			RetryAfter: time.Second,
		}}
	}
	q.add(c, n)
	return nil
}

// give takes n from what a client holds.
func (q *quota) give(c client, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(c, -n)
}

// A zero entry goes, or invented keys would fill the map.
func (q *quota) add(c client, n int64) {
	q.used += n
	if c.isNew {
		q.usedNew += n
	}
	if q.by[c.entity] += n; q.by[c.entity] == 0 {
		delete(q.by, c.entity)
	}
}

// inUse returns what all entities hold.
func (q *quota) inUse() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used
}

// busyError refuses a call because the proxy has no room for it.
type busyError struct{ problem httplimit.Problem }

func (e *busyError) Error() string { return e.problem.Error() }

func (e *busyError) Unwrap() error { return &e.problem }
