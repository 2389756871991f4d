package memory

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// DefaultRetention is how long audit events are kept. It is also the default of
// Options.UsageRetention.
const DefaultRetention = 90 * 24 * time.Hour

// record stores an event and drops old ones from time to time. The caller holds
// mu.
func (n *namespace) record(ev limiter.AuditEvent) {
	n.forgetEvents(ev.At.UnixMilli())

	ev.Details, ev.At = rules.CloneDetails(ev.Details), rules.WholeSecond(ev.At)
	// Events of clocks that differ arrive out of order, so each is inserted by
	// its ID.
	events := n.audit[ev.Entity]
	at, _ := slices.BinarySearchFunc(events, ev.ID, func(e limiter.AuditEvent, id string) int {
		return strings.Compare(e.ID, id)
	})
	n.audit[ev.Entity] = slices.Insert(events, at, ev)
}

// forgetEvents drops events that are past their retention.
func (n *namespace) forgetEvents(now int64) {
	// A time that is too far ahead was set by a wrong clock.
	if now < n.forgetAt && now > n.forgetAt-rules.SweepJump {
		return
	}

	n.forgetAt = now + sweepEvery
	// A caller whose clock is ahead must not remove events that others need.
	oldest := time.UnixMilli(n.machine.Horizon(now)).Add(-DefaultRetention)
	for entity, events := range n.audit {
		events = slices.DeleteFunc(events, func(ev limiter.AuditEvent) bool { return ev.At.Before(oldest) })
		if n.audit[entity] = events; len(events) == 0 {
			delete(n.audit, entity)
		}
	}
}

// AuditEvents iterates over the audit events of an entity, or of all if entity is
// empty, newest first. If after is not empty, it begins with the event that
// follows after in this order.
func (r *Repository) AuditEvents(ctx context.Context, entity, after string) iter.Seq2[limiter.AuditEvent, error] {
	return rules.Sequence(func() ([]limiter.AuditEvent, error) {
		if err := r.requireActive(ctx); err != nil {
			return nil, err
		}

		r.mu.RLock()
		defer r.mu.RUnlock()

		var all []limiter.AuditEvent
		add := func(events []limiter.AuditEvent) {
			for _, ev := range slices.Backward(events) {
				if after == "" || ev.ID < after {
					ev.Details = rules.CloneDetails(ev.Details)
					all = append(all, ev)
				}
			}
		}

		if entity != "" {
			add(r.audit[entity])
			return all, nil
		}
		for _, events := range r.audit {
			add(events)
		}
		slices.SortFunc(all, func(a, b limiter.AuditEvent) int { return strings.Compare(b.ID, a.ID) })
		return all, nil
	})
}

// Usage iterates over the snapshots that match a query, newest first.
func (r *Repository) Usage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[limiter.UsageSnapshot, error] {
	return rules.Sequence(func() ([]limiter.UsageSnapshot, error) {
		if err := r.requireActive(ctx); err != nil {
			return nil, err
		}

		var all []limiter.UsageSnapshot
		for i := range r.shards {
			if q.Entity == "" || i == r.index(q.Entity) {
				all = append(all, r.shards[i].snapshots(q)...)
			}
		}
		slices.SortFunc(all, rules.NewestFirst)
		return all, nil
	})
}
