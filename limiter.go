package limiter

import (
	"context"
	"time"
)

// DefaultSettleTimeout is the default of Options.SettleTimeout.
const DefaultSettleTimeout = 5 * time.Second

// OnUnavailable is the mode in which an acquire handles an outage of the store.
// Exceeded limits and bad input refuse in either mode.
type OnUnavailable string

// Block returns an *UnavailableError in an outage. Allow admits the request: its
// lease records nothing, does no I/O and never fails, and [Lease.Outage] returns
// the error.
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
	// Now returns the current time; default time.Now. Wait and the timeouts use
	// real time.
	Now func() time.Time
	// Limits applies where no level stores limits, so that a program works before
	// anything is configured. The store does not keep it, and stored limits
	// replace it. Programs that share a store should use the same Limits:
	// otherwise each charge changes the bucket to the Limits of its caller, and
	// limits that this caller does not have stay in the bucket.
	Limits []Limit
	// OnUnavailable is the mode of requests that set none; default: the mode
	// stored with the system defaults, or Block.
	OnUnavailable OnUnavailable
	// Principal is the author of changes in the audit trail: an ID of up to 256
	// characters, or an ARN; default: the store's own identity, if it has one.
	Principal string
	// Timeout bounds the time that an Acquire, Explain or Consume spends in the
	// store; default: no bound but its context.
	Timeout time.Duration
	// SettleTimeout bounds a Commit, Flush or Rollback; default
	// DefaultSettleTimeout.
	SettleTimeout time.Duration
}

// RateLimiter limits the use of resources by entities. Most callers use Do, or
// Acquire with a deferred Rollback. Callers that prefer waiting to failing use
// Wait. A RateLimiter is safe for concurrent use.
type RateLimiter struct {
	repo          Repository
	now           func() time.Time
	mode          OnUnavailable
	principal     string
	timeout       time.Duration
	settleTimeout time.Duration
	defaults      []Limit     // by name; nil if there are none
	ids           *ulids      // shared by views, so that event IDs increase
	namespace     string      // the ID or the name of the namespace, "" if unknown
	queues        *waitQueues // shared by views
}

// New returns a limiter on a store. It does no I/O. The caller closes repo; the
// limiter itself needs no closing. The error is an *InvalidError that names the
// wrong option.
func New(repo Repository, opts *Options) (*RateLimiter, error) {
	if repo == nil {
		return nil, invalid("repository", "", "must not be nil")
	}
	if err := checkRelease(repo); err != nil {
		return nil, err
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
		repo: repo, now: o.Now, mode: o.OnUnavailable, principal: o.Principal,
		timeout: o.Timeout, settleTimeout: o.SettleTimeout, defaults: sortedByName(o.Limits),
		ids: new(ulids), namespace: namespaceID(repo, ""), queues: new(waitQueues),
	}, nil
}

// namespaceID returns the ID of the repository's namespace, or fallback if the
// store does not implement NamespaceIdentifier.
func namespaceID(repo Repository, fallback string) string {
	if r, ok := Optional[NamespaceIdentifier](repo); ok {
		return r.NamespaceID()
	}
	return fallback
}

// As returns a view of the same limiter with another principal. If the principal
// is not valid, changes through the view fail.
func (l *RateLimiter) As(principal string) *RateLimiter {
	view := *l
	view.principal = principal
	return &view
}

// Ping checks that the store is reachable.
func (l *RateLimiter) Ping(ctx context.Context) error {
	return callStore(ctx, "ping", "", "", func() error { return l.repo.Ping(ctx) })
}

// outageMode returns the mode of a request: its own, the limiter's, or the store's.
func (l *RateLimiter) outageMode(mode OnUnavailable) OnUnavailable {
	for _, m := range []OnUnavailable{mode, l.mode, l.repo.OnUnavailable()} {
		if m == Allow || m == Block {
			return m
		}
	}
	return Block
}

// newEvent returns the audit event of a change that is about to be stored.
func (l *RateLimiter) newEvent(action, entity, resource string, details map[string]any) (AuditEvent, error) {
	// As does not return an error, so its principal is checked here.
	if err := validPrincipal(l.principal); err != nil {
		return AuditEvent{}, err
	}

	now := l.now().UTC()
	return AuditEvent{
		ID: l.ids.next(now), Action: action, Entity: entity, Principal: l.principal, Resource: resource,
		At: now.Truncate(time.Millisecond), Details: details,
	}, nil
}
