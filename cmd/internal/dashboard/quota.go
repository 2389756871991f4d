package dashboard

import (
	"net/http"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

// quota bounds what is under way at a time: in all, and with one token, so that no
// viewer takes the places of others. Viewers without a session share all places.
type quota struct {
	all, each int
	// full is the error if there is no place at all.
	full error
	// mu guards the fields below.
	mu   sync.Mutex
	used int
	by   map[string]int // by token
}

var errGreedy = &httplimit.Problem{
	Status:     http.StatusTooManyRequests,
	Detail:     "too many requests with this token are under way; close other tabs, or retry in a second",
	RetryAfter: time.Second,
}

func newQuota(all, each int, full error) *quota {
	return &quota{all: all, each: each, full: full, by: map[string]int{}}
}

// enter takes a place until leave.
func (q *quota) enter(l *login) error {
	if err := q.reserve(l); err != nil {
		return err
	}

	if err := q.begin(); err != nil {
		q.release(l)
		return err
	}

	return nil
}

func (q *quota) leave(l *login) {
	q.end()
	q.release(l)
}

// reserve takes a place of a token until release.
func (q *quota) reserve(l *login) error {
	// A viewer without a session has no token by which to count.
	if l.ended == nil {
		return nil
	}

	q.mu.Lock()
	defer q.mu.Unlock()
	if q.by[l.bearer] >= q.each {
		return errGreedy
	}

	q.by[l.bearer]++
	return nil
}

func (q *quota) release(l *login) {
	if l.ended == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.by[l.bearer]--; q.by[l.bearer] == 0 {
		delete(q.by, l.bearer)
	}
}

// begin takes a place of all until end.
func (q *quota) begin() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used >= q.all {
		return q.full
	}
	q.used++
	return nil
}

func (q *quota) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used--
}
