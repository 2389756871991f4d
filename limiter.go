package limiter

import (
	"context"
	"time"
)

// DefaultSettleTimeout is how long a Commit, Flush or Rollback may take when
// Options says nothing.
const DefaultSettleTimeout = 5 * time.Second

// OnUnavailable says what an outage of the store means for an acquire. Exceeded
// limits and bad input refuse in either mode.
type OnUnavailable string

// Block answers an outage with an *UnavailableError. Allow admits: the lease
// has no accounts, records nothing, does no I/O, never fails, and its Outage
// says why.
const (
	Block OnUnavailable = "block"
	Allow OnUnavailable = "allow"
)

func (m OnUnavailable) validate() error {
	switch m {
	case "", Block, Allow:
		return nil
	}
	return invalid("on_unavailable", string(m), `must be "block" or "allow"`)
}

// Options configures [New]. The zero value of a field is its default.
type Options struct {
	// Now is the only clock of the limiter; default time.Now. Timers of Wait
	// and of the timeouts run in real time.
	Now func() time.Time
	// Limits rule where no stored level holds limits, so that a program works
	// before anything is configured. They are stored nowhere; buckets follow
	// stored limits as soon as there are some. Programs that share a store should
	// have the same: a bucket follows the limits of the last caller, and keeps
	// those that this caller lacks.
	Limits []Limit
	// OnUnavailable is the mode of requests that carry none; default: the mode
	// stored with the system defaults, else Block.
	OnUnavailable OnUnavailable
	// Principal signs changes in the audit trail: an id of up to 256
	// characters, or an ARN; default: the store's own identity, if it has one.
	Principal string
	// Timeout is the most an Acquire or Explain may take in the store; default:
	// until its context ends.
	Timeout time.Duration
	// SettleTimeout is the most a Commit, Flush or Rollback may take; default
	// DefaultSettleTimeout.
	SettleTimeout time.Duration
}

// RateLimiter limits what entities use of resources. Most callers want Do, or
// Acquire with a deferred Rollback; workers that rather wait than fail want
// Wait. It is safe for concurrent use.
type RateLimiter struct {
	repo            Repository
	now             func() time.Time
	mode            OnUnavailable
	principal       string
	timeout, settle time.Duration
	defaults        []Limit // by name; nil if there are none
	ids             *ulids  // shared by views, so that events rise
	space           string  // which namespace this is, as far as is known
	lines           *lines  // of waiters, shared by views
}

// New makes a limiter on a store. It does no I/O and there is nothing to close:
// whoever opened repo closes it. An *InvalidError says which option is wrong.
func New(repo Repository, opts *Options) (*RateLimiter, error) {
	if repo == nil {
		return nil, invalid("repository", "", "must not be nil")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.OnUnavailable.validate(); err != nil {
		return nil, err
	}
	if err := validPrincipal(o.Principal); err != nil {
		return nil, err
	}
	if len(o.Limits) > 0 {
		if err := validLimits(o.Limits); err != nil {
			return nil, err
		}
	}
	for _, t := range []struct {
		field string
		time.Duration
	}{{"timeout", o.Timeout}, {"settle_timeout", o.SettleTimeout}} {
		if t.Duration < 0 {
			return nil, invalid(t.field, t.String(), "must not be negative; 0 is the default")
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.SettleTimeout == 0 {
		o.SettleTimeout = DefaultSettleTimeout
	}
	return &RateLimiter{
		space: spaceOf(repo, ""), repo: repo, now: o.Now, mode: o.OnUnavailable, principal: o.Principal,
		timeout: o.Timeout, settle: o.SettleTimeout, defaults: byName(o.Limits), ids: new(ulids), lines: new(lines),
	}, nil
}

// spaceOf is the identity of a repository's namespace, if the store has one.
func spaceOf(repo Repository, otherwise string) string {
	if r, ok := repo.(interface{ NamespaceID() string }); ok {
		return r.NamespaceID()
	}
	return otherwise
}

// As is a view of the same limiter that signs its changes with another
// principal. A principal that is not valid fails the changes, not this call.
func (l *RateLimiter) As(principal string) *RateLimiter {
	view := *l
	view.principal = principal
	return &view
}

// Ping is nil when the store answers.
func (l *RateLimiter) Ping(ctx context.Context) error {
	return guarded(ctx, "ping", "", "", func() error { return l.repo.Ping(ctx) })
}

// outageMode is what an outage means for a request that asked for mode.
func (l *RateLimiter) outageMode(mode OnUnavailable) OnUnavailable {
	for _, m := range []OnUnavailable{mode, l.mode, l.repo.OnUnavailable()} {
		if m == Allow || m == Block {
			return m
		}
	}
	return Block
}

// event is a change about to be stored, or why its author may not be recorded.
func (l *RateLimiter) event(action, entity, resource string, details map[string]any) (AuditEvent, error) {
	if err := validPrincipal(l.principal); err != nil {
		return AuditEvent{}, err
	}
	now := l.now().UTC()
	return AuditEvent{
		ID: l.ids.next(now), Action: action, Entity: entity, Principal: l.principal, Resource: resource,
		At: now.Truncate(time.Millisecond), Details: details,
	}, nil
}
