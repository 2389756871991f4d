package memory

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/exact"
)

// DefaultRetention is how long audit events are kept, and usage unless options
// say otherwise.
const DefaultRetention = 90 * 24 * time.Hour

// record keeps an event, and drops old ones now and then. The caller holds mu.
func (n *namespace) record(ev limiter.AuditEvent) {
	n.forget(ev.At.UnixMilli())
	ev.Details, ev.At = exact.CloneDetails(ev.Details), exact.WholeSecond(ev.At)
	events := n.audit[ev.Entity]
	at, _ := slices.BinarySearchFunc(events, ev.ID, func(e limiter.AuditEvent, id string) int { return strings.Compare(e.ID, id) })
	n.audit[ev.Entity] = slices.Insert(events, at, ev)
}

// forget drops events that are older than their retention.
func (n *namespace) forget(now int64) {
	if now < n.forgetAt && now > n.forgetAt-exact.SweepJump {
		return
	}
	n.forgetAt = now + sweepEvery
	oldest := time.UnixMilli(n.horizon.At(now)).Add(-DefaultRetention)
	for entity, events := range n.audit {
		events = slices.DeleteFunc(events, func(ev limiter.AuditEvent) bool { return ev.At.Before(oldest) })
		if n.audit[entity] = events; len(events) == 0 {
			delete(n.audit, entity)
		}
	}
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

// history is the usage of one entity and resource. Most calls are about its
// end.
type history []*snapshot

// snapshot is kept small: there is one for every hour that something was used.
type snapshot struct {
	window                 limiter.Window
	start, events, expires int64
	counters               []counter
}

type counter struct {
	limit string
	n     int64
}

// at is the snapshot of a window, which is made if there is none.
func (h *history) at(w limiter.Window, hour int64, retention time.Duration) *snapshot {
	begin, end := w.Bounds(time.UnixMilli(hour))
	start := begin.UnixMilli()
	for _, s := range slices.Backward(*h) {
		if s.window == w && s.start == start {
			return s
		}
	}
	s := &snapshot{window: w, start: start, expires: end.Add(retention).UnixMilli()}
	*h = append(*h, s)
	return s
}

func (s *snapshot) add(limit string, n int64) {
	for i := range s.counters {
		if s.counters[i].limit == limit {
			s.counters[i].n = bucket.Add(s.counters[i].n, n)
			return
		}
	}
	s.counters = append(s.counters, counter{limit, n})
}

// book adds a bucket's usage to the snapshots of the three windows. The caller
// holds the shard's mutex.
func (s *shard) book(account *limiter.Account, u exact.Usage) error {
	key := limiter.Scope{Entity: account.Entity, Resource: account.Resource}
	h := s.usage[key]
	for _, w := range exact.Windows {
		snap := h.at(w, u.Hour, s.retention)
		for i, n := range u.Used {
			if n != 0 {
				snap.add(account.Limits[i].Name, n)
			}
		}
		snap.events += u.Events
	}
	s.usage[key] = h
	return nil
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

// snapshots are those of a query. What buckets have not booked yet is booked
// first: it is the same usage, elsewhere.
func (s *shard) snapshots(q limiter.UsageQuery) (all []limiter.UsageSnapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := limiter.Scope{Entity: q.Entity, Resource: q.Resource}
	for e := range s.each(of) {
		_ = e.Flush(s.book) // the book of this store does not fail
	}
	for key, h := range s.usage {
		if !within(key, of) {
			continue
		}
		for _, snap := range h {
			if u := snap.public(key); q.Match(u) {
				all = append(all, u)
			}
		}
	}
	return all
}

func (s *snapshot) public(key limiter.Scope) limiter.UsageSnapshot {
	u := limiter.UsageSnapshot{
		Entity: key.Entity, Resource: key.Resource, Window: s.window,
		Counters: make(map[string]int64, len(s.counters)), Events: s.events,
	}
	u.Start, u.End = s.window.Bounds(time.UnixMilli(s.start))
	for _, c := range s.counters {
		if c.n != 0 { // given back as much as taken
			u.Counters[c.limit] = c.n
		}
	}
	return u
}
