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
	client, newcomers, all web.Bound
}

// newPool returns a pool that gives a client a share at most. All new clients
// have a quarter together, or a share if that is more. Of 100 places with a share of
// 10, one client has at most 10, and all new clients together at most 25. The calls
// that hold it are called what, in the plural.
func newPool(what string, total, share int64) *pool {
	bound := func(group, of string, status int, most int64) web.Bound {
		return web.Bound{Group: group, Most: most, Full: &busyError{httplimit.Problem{
			Status: status, Detail: "too many " + what + of + " are under way", RetryAfter: time.Second,
		}}}
	}

	return &pool{
		client:    bound("client", " of this client", http.StatusTooManyRequests, share),
		newcomers: bound("new", " of new clients", http.StatusServiceUnavailable, max(total/4, share)),
		all:       bound("", "", http.StatusServiceUnavailable, total),
	}
}

// bounds returns what bounds a client. Its own bound is the first, since the client can
// mend that alone: its own calls have to end.
func (p *pool) bounds(c client) []web.Bound {
	own := p.client
	own.Name = c.entity
	if c.isNew {
		return []web.Bound{own, p.newcomers, p.all}
	}
	return []web.Bound{own, p.all}
}

// take adds n to what a client holds. The caller gives it back with give.
func (p *pool) take(c client, n int64) error { return p.Take(n, p.bounds(c)...) }

// give takes n from what a client holds.
func (p *pool) give(c client, n int64) { p.Give(n, p.bounds(c)...) }

// busyError refuses a call because the proxy has no room for it.
type busyError struct{ problem httplimit.Problem }

func (e *busyError) Error() string { return e.problem.Error() }

func (e *busyError) Unwrap() error { return &e.problem }
