package loadtest

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Client calls a limiter and reports each call as an [Event]. The methods have
// the meaning and the errors of the methods of [limiter.RateLimiter] with the
// same purpose. The Client of a [User] is not safe for concurrent use, since the
// tasks of a user run one after the other. The Client of a [Test] is, and reports
// nothing.
type Client struct {
	*session
	name string // replaces the name of events; "" for the default
}

// session is the state that a client shares with its copies.
type session struct {
	limiter *limiter.RateLimiter
	record  func(Event) // nil to report nothing
	stopped func() bool // whether calls are being cancelled
	// intended is the start from which the next call counts, or zero for its
	// real start.
	intended time.Time
	failed   error                  // the error of the last failed call
	refused  *limiter.ExceededError // the last refusal
}

// As returns a client whose events have the given name. Choose names that are
// bounded in number: each one is a row of the statistics.
func (c *Client) As(name string) *Client { return &Client{c.session, name} }

// Limiter returns the limiter that the client calls. Its calls are not measured.
func (c *Client) Limiter() *limiter.RateLimiter { return c.limiter }

// begin returns the start of a call. The first call of a task in the open model
// begins at the intended start of the task.
func (s *session) begin() time.Time {
	if s.record == nil || s.intended.IsZero() {
		return time.Now()
	}

	start := s.intended
	s.intended = time.Time{}
	return start
}

// end reports a call that ends now. It reports nothing if the test cancelled the
// call.
func (c *Client) end(kind, name string, start time.Time, err error) {
	if c.record == nil {
		return
	}

	// The limits for all resources of an entity have no resource to name the
	// event.
	name = cmp.Or(c.name, name, EntityName)

	if err != nil {
		// A task may return the error, which must not count a second time.
		c.failed = err
		// A call that the test itself cancelled says nothing about the store.
		if errors.Is(err, context.Canceled) && c.stopped() {
			return
		}
	}

	now := time.Now()
	c.record(Event{Type: kind, Name: name, At: now, Latency: now.Sub(start), Err: err})
}

// counted reports whether err is the error of a call that was reported.
func (s *session) counted(err error) bool {
	return s.failed != nil && errors.Is(err, s.failed) || s.refused != nil && errors.Is(err, s.refused)
}

// Acquire takes the amounts of req. It reports ACQUIRE, or RATE_LIMITED if a
// limit is exceeded, which is no failure. An outage is a failure even if the
// limiter admits the request. The caller ends the lease.
func (c *Client) Acquire(ctx context.Context, req limiter.Request) (*Lease, error) {
	start := c.begin()
	inner, err := c.limiter.Acquire(ctx, req)
	if err == nil {
		c.end(Acquire, req.Resource, start, inner.Outage())
		return &Lease{Lease: inner, client: c, resource: req.Resource}, nil
	}

	if refused, ok := errors.AsType[*limiter.ExceededError](err); ok {
		// The client of a Test records nothing and serves several goroutines,
		// so it must not write.
		if c.record != nil {
			c.refused = refused
		}
		c.end(RateLimited, req.Resource, start, nil)
		return nil, err
	}

	c.end(Acquire, req.Resource, start, err)
	return nil, err
}

// Do acquires req, calls work, and commits the lease if work returns nil or rolls
// it back if work returns an error. If a limit is exceeded, Do returns nil without
// calling work.
func (c *Client) Do(ctx context.Context, req limiter.Request, work func(*Lease) error) error {
	lease, err := c.Acquire(ctx, req)
	if err != nil {
		if _, refused := errors.AsType[*limiter.ExceededError](err); refused {
			return nil
		}
		return err
	}

	if err := work(lease); err != nil {
		return errors.Join(err, lease.Rollback(ctx))
	}
	return lease.Commit(ctx)
}

// Available returns the tokens that the entity can take of each limit.
func (c *Client) Available(ctx context.Context, entity, resource string) (limiter.Amounts, error) {
	return measured(c, Available, resource, func() (limiter.Amounts, error) {
		return c.limiter.Available(ctx, entity, resource)
	})
}

// TimeUntilAvailable returns how long until req fits. A request that never fits
// is an *ExceededError, which counts as success.
func (c *Client) TimeUntilAvailable(ctx context.Context, req limiter.Request) (time.Duration, error) {
	start := c.begin()
	wait, err := c.limiter.TimeUntil(ctx, req)

	if refused, ok := errors.AsType[*limiter.ExceededError](err); ok {
		if c.record != nil {
			c.refused = refused
		}
		c.end(TimeUntilAvailable, req.Resource, start, nil)
		return wait, err
	}

	c.end(TimeUntilAvailable, req.Resource, start, err)
	return wait, err
}

// IsAvailable checks that the store is reachable.
func (c *Client) IsAvailable(ctx context.Context) error {
	return c.measure(IsAvailable, SystemName, func() error { return c.limiter.Ping(ctx) })
}
