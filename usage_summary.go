package limiter

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// UsageSummary adds snapshots up.
type UsageSummary struct {
	Windows   int // distinct windows
	Snapshots int // one for each window, entity and resource
	// Total is the tokens used, by limit. A call that cascades counts once.
	Total map[string]int64
	// Cascaded is what parents were charged for their children, by limit. Total
	// holds that usage as the children's. It is empty if the query names an entity.
	Cascaded    map[string]int64
	Average     map[string]float64 // Total over the windows that have the limit
	First, Last time.Time          // the earliest and latest Start, zero if there is none
}

// UsageSummary adds up the snapshots of a query. Windows overlap, so a query
// without one is summed by the hour.
//
// A query that names an entity sums what that entity was charged, for its
// children too. Any other query meets a cascading call twice, in the snapshot of
// the child and in that of its parent. The call counts once: of a parent's
// snapshot, UsageSummary adds what exceeds the snapshots of the children that
// cascade to it, and reports the rest as Cascaded. The entity records decide, as
// they are now. The usage of a deleted child is the parent's, since its own
// snapshots are gone.
func (l *RateLimiter) UsageSummary(ctx context.Context, q UsageQuery) (UsageSummary, error) {
	if q.Window == "" {
		q.Window = Hourly
	}
	t := newUsageTally()
	var group []UsageSnapshot // of one window and resource
	var parents map[string]string
	for s, err := range l.Usage(ctx, q) {
		if err != nil {
			return UsageSummary{}, err
		}
		if q.Entity == "" && len(group) == 1 && parents == nil && group[0].sibling(s) {
			if parents, err = l.cascades(ctx); err != nil {
				return UsageSummary{}, err
			}
		}
		if len(group) > 0 && !group[0].sibling(s) {
			t.add(group, parents)
			group = group[:0]
		}
		group = append(group, s)
	}
	t.add(group, parents)
	return t.summary(), nil
}

// sibling reports whether o is about the same window and resource.
func (s *UsageSnapshot) sibling(o UsageSnapshot) bool {
	return s.Start.Equal(o.Start) && s.Resource == o.Resource
}

// cascades maps every entity that cascades to its parent.
func (l *RateLimiter) cascades(ctx context.Context) (map[string]string, error) {
	parents := map[string]string{}
	for e, err := range l.Entities(ctx) {
		if err != nil {
			return nil, err
		}
		if e.Cascade {
			parents[e.ID] = e.Parent
		}
	}
	return parents, nil
}

// usageTally is a summary that grows.
type usageTally struct {
	sum     UsageSummary
	sums    map[string]float64   // beyond int64, where Total stops
	windows map[string]int       // windows that have the limit
	latest  map[string]time.Time // the last of those, since windows come in order
}

func newUsageTally() *usageTally {
	return &usageTally{
		sum:  UsageSummary{Total: map[string]int64{}, Cascaded: map[string]int64{}, Average: map[string]float64{}},
		sums: map[string]float64{}, windows: map[string]int{}, latest: map[string]time.Time{},
	}
}

// add adds the snapshots of one window and resource. Windows come newest first.
func (t *usageTally) add(group []UsageSnapshot, parents map[string]string) {
	if len(group) == 0 {
		return
	}
	start := group[0].Start
	if t.sum.Windows == 0 || !start.Equal(t.sum.First) {
		t.sum.Windows++
	}
	if t.sum.Windows == 1 {
		t.sum.Last = start
	}
	t.sum.First = start
	t.sum.Snapshots += len(group)
	own := ownUsage(group, parents)
	for _, s := range group {
		for limit, n := range s.Counters {
			part := own(s.Entity)[limit]
			t.sum.Total[limit] = bucket.Add(t.sum.Total[limit], part)
			t.sums[limit] += float64(part)
			if rest := bucket.Sub(n, part); rest != 0 {
				t.sum.Cascaded[limit] = bucket.Add(t.sum.Cascaded[limit], rest)
			}
			if last, ok := t.latest[limit]; !ok || !last.Equal(start) {
				t.latest[limit] = start
				t.windows[limit]++
			}
		}
	}
}

func (t *usageTally) summary() UsageSummary {
	for limit, n := range t.sums {
		t.sum.Average[limit] = n / float64(t.windows[limit])
	}
	return t.sum
}

// ownUsage returns a function that computes what an entity of the group used
// itself: its counters less what its children, which cascade to it, used
// themselves. More than an entity was charged cannot be its children's, so
// nothing falls below 0, or below a negative counter. In a circle of parents, the
// first entity asked for counts last.
func ownUsage(group []UsageSnapshot, parents map[string]string) func(entity string) map[string]int64 {
	charged := make(map[string]map[string]int64, len(group))
	for _, s := range group {
		charged[s.Entity] = s.Counters
	}
	children := map[string][]string{}
	for _, s := range group {
		if parent, ok := parents[s.Entity]; ok && charged[parent] != nil {
			children[parent] = append(children[parent], s.Entity)
		}
	}
	known := map[string]map[string]int64{}
	var own func(string) map[string]int64
	own = func(entity string) map[string]int64 {
		if part, ok := known[entity]; ok {
			return part
		}
		if len(children[entity]) == 0 {
			return charged[entity]
		}
		known[entity] = nil // until it is known, for a circle
		of := map[string]int64{}
		for _, child := range children[entity] {
			for limit, n := range own(child) {
				of[limit] = bucket.Add(of[limit], n)
			}
		}
		part := map[string]int64{}
		for limit, n := range charged[entity] {
			part[limit] = max(bucket.Sub(n, of[limit]), min(n, 0))
		}
		known[entity] = part
		return part
	}
	return own
}
