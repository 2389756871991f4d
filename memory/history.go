package memory

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/exact"
)

// retention is how long audit events and usage are kept.
const retention = 90 * 24 * time.Hour

// record keeps an event. The caller holds mu.
func (n *namespace) record(ev limiter.AuditEvent) {
	ev.Details = exact.CloneDetails(ev.Details)
	events := n.audit[ev.Entity]
	for len(events) > 0 && events[0].At.Before(ev.At.Add(-retention)) {
		events = events[1:]
	}
	at, _ := slices.BinarySearchFunc(events, ev.ID, func(e limiter.AuditEvent, id string) int { return strings.Compare(e.ID, id) })
	n.audit[ev.Entity] = slices.Insert(events, at, ev)
}

// AuditEvents are those of an entity, newest first.
func (r *Repository) AuditEvents(ctx context.Context, entity, after string) iter.Seq2[limiter.AuditEvent, error] {
	return exact.Sequence(func() ([]limiter.AuditEvent, error) {
		if err := r.usable(ctx); err != nil {
			return nil, err
		}
		r.mu.RLock()
		defer r.mu.RUnlock()
		var all []limiter.AuditEvent
		for _, ev := range slices.Backward(r.audit[entity]) {
			if after == "" || ev.ID < after {
				ev.Details = exact.CloneDetails(ev.Details)
				all = append(all, ev)
			}
		}
		return all, nil
	})
}

// window is one usage window of an entity and resource.
type window struct {
	kind  limiter.Window
	start int64 // milliseconds
}

type snapshot struct {
	counters map[string]int64
	events   int64
	expires  int64
}

// book adds a bucket's usage to the snapshots of the three windows. The caller
// holds the shard's mutex.
func (s *shard) book(account *limiter.Account, u exact.Usage) error {
	key := limiter.Scope{Entity: account.Entity, Resource: account.Resource}
	if s.usage[key] == nil {
		s.usage[key] = map[window]*snapshot{}
	}
	addUsage(s.usage[key], account, u)
	return nil
}

func addUsage(to map[window]*snapshot, account *limiter.Account, u exact.Usage) {
	for _, part := range exact.Snapshots(account, u) {
		w := window{part.Window, part.Start.UnixMilli()}
		snap := to[w]
		if snap == nil {
			snap = &snapshot{counters: map[string]int64{}, expires: u.Hour + retention.Milliseconds()}
			to[w] = snap
		}
		for limit, n := range part.Counters {
			snap.counters[limit] += n
		}
		snap.events += part.Events
	}
}

// Usage are the snapshots of a query, newest first.
func (r *Repository) Usage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[limiter.UsageSnapshot, error] {
	return exact.Sequence(func() ([]limiter.UsageSnapshot, error) {
		if err := r.usable(ctx); err != nil {
			return nil, err
		}
		var all []limiter.UsageSnapshot
		for i := range r.shards {
			if q.Entity == "" || i == r.index(q.Entity) {
				all = append(all, r.shards[i].snapshots(q)...)
			}
		}
		slices.SortFunc(all, exact.NewestFirst)
		return all, nil
	})
}

// snapshots are those of a query, with what buckets have not booked yet.
func (s *shard) snapshots(q limiter.UsageQuery) (all []limiter.UsageSnapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := limiter.Scope{Entity: q.Entity, Resource: q.Resource}
	keys := map[limiter.Scope]bool{}
	for key := range s.usage {
		keys[key] = within(key, of)
	}
	for key := range s.buckets {
		keys[key] = within(key, of)
	}
	for key, wanted := range keys {
		if !wanted {
			continue
		}
		windows := map[window]*snapshot{}
		for w, snap := range s.usage[key] {
			windows[w] = &snapshot{maps.Clone(snap.counters), snap.events, snap.expires}
		}
		if b := s.buckets[key]; b != nil && b.Events > 0 {
			addUsage(windows, b.Account, b.Bucket.Usage)
		}
		for w, snap := range windows {
			start, end := w.kind.Bounds(time.UnixMilli(w.start))
			u := limiter.UsageSnapshot{
				Entity: key.Entity, Resource: key.Resource, Window: w.kind, Start: start, End: end,
				Counters: snap.counters, Events: snap.events,
			}
			if q.Match(u) {
				all = append(all, u)
			}
		}
	}
	return all
}
