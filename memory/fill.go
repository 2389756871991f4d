package memory

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// topUp identifies a top-up of a bucket.
type topUp struct {
	bucket limiter.Scope
	id     string
}

// Fill resets or tops up a bucket, and stores the audit event.
func (r *Repository) Fill(
	ctx context.Context, now time.Time, f limiter.Fill, ev limiter.AuditEvent,
) (done bool, err error) {
	if err := r.requireActive(ctx); err != nil {
		return false, err
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	ms := now.UnixMilli()
	once := topUp{limiter.Scope{Entity: f.Entity, Resource: f.Resource}, f.ID}
	if f.ID != "" && r.topUps[once] > ms {
		return false, nil
	}

	limits, err := r.fill(ms, once.bucket, &f)
	if err != nil {
		return false, err
	}

	if f.ID != "" {
		r.rememberTopUp(once, ms)
	}
	r.record(rules.FillEvent(ev, &f, limits))
	return true, nil
}

// fill fills the bucket at a key, if there is one, and returns its limits. The
// caller holds mu.
func (n *namespace) fill(now int64, key limiter.Scope, f *limiter.Fill) ([]limiter.Limit, error) {
	s := n.shard(key.Entity)
	s.mu.Lock()
	defer s.mu.Unlock()

	e, local := n.lookup(s, key, now, true)
	in := n.resolve(key).withDefaults(f.Defaults, e)
	limits := in.limits
	switch {
	// The limits in force need no bucket.
	case limits != nil:
	// A missing bucket without limits is a mistake of the caller.
	case e == nil:
		return nil, rules.NoLimits(key.Entity, key.Resource)
	// No level holds limits: the bucket keeps those that it was last charged
	// with.
	default:
		limits = e.Account.Limits
	}

	// A missing bucket starts full, so nothing has to be filled.
	if err := rules.CheckFill(f, limits); err != nil || e == nil {
		return limits, err
	}

	if in.limits != nil {
		if _, err := e.Repair(local, account(key, in, e), in.idle(n.ttl), s.book); err != nil {
			return nil, err
		}
	}

	e.Fill(local, f)
	return limits, nil
}

// rememberTopUp keeps the ID of a top-up for limiter.TopUpLife. It drops older IDs
// when their number has doubled. The caller holds mu.
func (n *namespace) rememberTopUp(t topUp, now int64) {
	const few = 64
	// The number doubles between two cleanings, so that a cleaning costs each
	// top-up a constant time.
	if len(n.topUps) >= max(few, n.keptTopUps*2) {
		// Callers whose clocks are behind may still repeat an ID, so it stays
		// for a margin.
		horizon := n.machine.Horizon(now) - rules.SweepMargin
		for id, until := range n.topUps {
			if until <= horizon {
				delete(n.topUps, id)
			}
		}
		n.keptTopUps = len(n.topUps)
	}

	n.topUps[t] = now + limiter.TopUpLife.Milliseconds()
}
