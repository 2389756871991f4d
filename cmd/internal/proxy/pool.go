package proxy

import (
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// client is the holder of a part of a pool.
type client struct {
	entity string
	// isNew is true where clients can invent entities and the upstream has not
	// accepted this one yet.
	isNew bool
}

// pool bounds an amount that calls hold for a while: of all clients together, of
// each one, and of all new ones together. So no client takes the room of the others,
// even if it invents keys.
type pool struct {
	web.Places
	what                    string // calls that hold it, in the plural
	total, share, newcomers int64
}

// newPool returns a pool that gives a client a share at most. All new clients
// have a quarter together, or a share if that is more. Of 100 places with a share of
// 10, one client has at most 10, and all new clients together at most 25.
func newPool(what string, total, share int64) *pool {
	return &pool{what: what, total: total, share: share, newcomers: max(total/4, share)}
}

// The groups of bounds.
const (
	oneClient  = "client"
	newClients = "new clients"
)

// bounds returns what bounds a client. Its own bound is the first, since the client can
// mend that alone: its own calls have to end.
func (p *pool) bounds(c client) []web.Bound {
	own := web.Bound{Group: oneClient, Name: c.entity, Most: p.share}
	if c.isNew {
		return []web.Bound{own, {Group: newClients, Most: p.newcomers}, {Most: p.total}}
	}
	return []web.Bound{own, {Most: p.total}}
}

// take adds n to what a client holds. The caller gives it back with give.
func (p *pool) take(c client, n int64) error {
	full, ok := p.Take(n, p.bounds(c)...)
	if ok {
		return nil
	}

	status, of := http.StatusServiceUnavailable, ""
	switch full.Group {
	case oneClient:
		status, of = http.StatusTooManyRequests, " of this client"
	case newClients:
		of = " of new clients"
	}
	return &busyError{httplimit.Problem{
		Status: status, Detail: "too many " + p.what + of + " are under way", RetryAfter: time.Second,
	}}
}

// give takes n from what a client holds.
func (p *pool) give(c client, n int64) { p.Give(n, p.bounds(c)...) }

// busyError refuses a call because the proxy has no room for it.
type busyError struct{ problem httplimit.Problem }

func (e *busyError) Error() string { return e.problem.Error() }

func (e *busyError) Unwrap() error { return &e.problem }
