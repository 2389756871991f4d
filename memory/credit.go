package memory

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Credit gives tokens back or takes more. It skips buckets that were deleted. For
// an expired bucket it gives nothing back, and charges what it takes to the
// bucket that replaces it.
func (r *Repository) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	if err := r.requireOpen(ctx); err != nil {
		return err
	}

	if ms := now.UnixMilli(); r.sweeper.due(ms) {
		r.sweeper.run(ms, r.machine)
	}

	for _, c := range credits {
		if err := r.credit(now.UnixMilli(), c); err != nil {
			return err
		}
	}
	return nil
}

func (n *namespace) credit(now int64, c limiter.Credit) error {
	e, ok := c.Account.Ref.(*entry)
	if !ok {
		return &limiter.InvalidError{Field: "account", Value: c.Account.Entity, Reason: "must come from this store"}
	}

	s := n.shard(c.Account.Entity)
	s.mu.Lock()
	// Buckets are numbered in order of creation: the number separates a bucket
	// that was deleted from one that has expired.
	deleted := n.purged.Load() || e.seq <= s.deleted[c.Account.Entity].last
	local, back := n.machine.Local(&e.Bucket, now)

	// A sweep may have removed a bucket that is not gone by the clock of this
	// caller. Its successor counts then.
	if deleted || !e.swept && !e.Gone(local) {
		defer s.mu.Unlock()
		if deleted {
			return nil
		}
		e.PullBack(back)
		if c.Starts != nil {
			c.Amounts = e.InWindow(&c, local)
		}
		return e.Credit(local, &c.Amounts, c.Spared, c.Account.Limits, s.book)
	}

	// The bucket has expired, so it was full, and giving back adds nothing. The
	// lock is released, because takeFromReplacement takes mu first.
	s.mu.Unlock()
	if takes, some := rules.Takes(&c.Amounts); some {
		return n.takeFromReplacement(now, c.Account, &takes, c.Spared)
	}
	return nil
}

// takeFromReplacement takes amounts of an expired bucket from the bucket that
// replaced it. If there is none, it creates one under the current limits, or
// under those of the lease.
func (n *namespace) takeFromReplacement(now int64, of *limiter.Account, takes *limiter.Amounts, spared []string) error {
	n.mu.RLock()

	defer n.mu.RUnlock()
	key := limiter.Scope{Entity: of.Entity, Resource: of.Resource}
	s := n.shard(key.Entity)
	s.mu.Lock()
	defer s.mu.Unlock()

	current, local := n.lookup(s, key, now, true)
	// The lease may be the last trace of the limits if no level holds any.
	if current == nil {
		in := n.resolve(key)
		if in.limits == nil {
			in = limitSet{of.Limits, of.Source, of.Default}
		}
		current = n.newEntry(now, key, in)
		current.generation = 0
		s.put(current)
	}

	return current.Credit(local, takes, spared, of.Limits, s.book)
}
