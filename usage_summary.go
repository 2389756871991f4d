package limiter

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/chain"
)

// UsageSummary is the sum of usage snapshots.
type UsageSummary struct {
	Windows   int // distinct windows
	Snapshots int // one for each window, entity and resource
	// Total is the number of tokens used, by limit. A call that cascades counts
	// once.
	Total map[string]int64
	// Cascaded is the part that ancestors paid for their descendants, by limit. Total
	// counts it as usage of the children. It is empty if the query names an entity.
	Cascaded map[string]int64
	Average  map[string]float64 // Total over the windows that have the limit
	// WouldRefuse counts the charges that shadow limits would have refused, by
	// limit. A parent adds only what exceeds the counts of the children that
	// cascade to it, as in Total, so that a call that cascades never counts twice.
	// It is nil if there were none.
	WouldRefuse map[string]int64
	First, Last time.Time // the earliest and latest Start, zero if there are no snapshots
}

// UsageSummary adds up the snapshots that q selects. Windows overlap, so it sums
// hourly snapshots if q sets no window.
//
// If q names an entity, the sum includes the charges for its children. Any other
// query finds a cascading call twice, in the snapshots of the child and of its
// parent, and counts it once: from a parent's snapshot it adds only the part that
// exceeds the snapshots of the children that cascade to it, and reports the rest
// as Cascaded. The current entity records decide which children cascade. The
// usage of a deleted child counts as usage of its parent, since the child's
// snapshots are gone.
func (l *RateLimiter) UsageSummary(ctx context.Context, q UsageQuery) (UsageSummary, error) {
	if q.Window == "" {
		q.Window = Hourly
	}

	t := newUsageTally()
	var group []UsageSnapshot // one window and resource
	var trees *usageTrees
	for s, err := range l.Usage(ctx, q) {
		if err != nil {
			return UsageSummary{}, err
		}
		// Only a group of several entities can hold a parent beside its
		// children, so most queries read no entities.
		if q.Entity == "" && len(group) == 1 && trees == nil && group[0].sameGroup(s) {
			if trees, err = l.usageTrees(ctx); err != nil {
				return UsageSummary{}, err
			}
		}
		// Snapshots come newest first, and by resource within a window. A group
		// ends where one of the two changes.
		if len(group) > 0 && !group[0].sameGroup(s) {
			if err := t.add(group, trees); err != nil {
				return UsageSummary{}, err
			}
			group = group[:0]
		}

		group = append(group, s)
	}
	// The last group has no successor that would end it.
	if err := t.add(group, trees); err != nil {
		return UsageSummary{}, err
	}
	return t.summary(), nil
}

// sameGroup reports whether s and o have the same window and resource.
func (s *UsageSnapshot) sameGroup(o UsageSnapshot) bool {
	return s.Start.Equal(o.Start) && s.Resource == o.Resource
}

// usageTrees knows which ancestors pay for which entities.
type usageTrees struct {
	places map[string]chain.Place // of the entities that cascade
	// limited reports whether limits are stored for an entity, by entity and resource.
	limited map[Scope]bool
	config  func(Scope) (Config, error)
}

// usageTrees returns the trees of the stored entities.
func (l *RateLimiter) usageTrees(ctx context.Context) (*usageTrees, error) {
	t := &usageTrees{places: map[string]chain.Place{}, limited: map[Scope]bool{}}
	t.config = func(s Scope) (Config, error) {
		cfg, err := l.repo.Config(ctx, s)
		return cfg, translateError(ctx, "usage summary", s.Entity, s.Resource, err)
	}

	for e, err := range l.Entities(ctx) {
		if err != nil {
			return nil, err
		}
		if e.Cascade {
			t.places[e.ID] = chain.Place{Parent: e.Parent, Cascade: true, Generation: e.Generation}
		}
	}
	return t, nil
}

// paysOwn reports whether limits are stored for an entity, so that it pays for its
// descendants beyond its children.
func (t *usageTrees) paysOwn(entity, resource string) (bool, error) {
	key := Scope{entity, resource}
	if limited, known := t.limited[key]; known {
		return limited, nil
	}

	for _, s := range []Scope{key, {Entity: entity}} {
		cfg, err := t.config(s)
		if err != nil {
			return false, err
		}
		t.limited[key] = t.limited[key] || len(cfg.Limits) > 0
	}
	return t.limited[key], nil
}

// below maps each entity of a group to those whose charges it pays too. Only entities in
// the group can have caused what their ancestors paid.
func (t *usageTrees) below(group []UsageSnapshot) (map[string][]string, error) {
	below := map[string][]string{}
	if t == nil {
		return below, nil
	}

	present := make(map[string]bool, len(group))
	for _, s := range group {
		present[s.Entity] = true
	}

	for _, s := range group {
		climb := chain.Begin(s.Entity)
		for next := s.Entity; next != ""; {
			next, _ = climb.Next(t.places[next])
			if !present[next] {
				continue
			}

			// The climb has added next, so a parent makes two.
			pays := len(climb.Entities) == 2
			if !pays {
				var err error
				if pays, err = t.paysOwn(next, s.Resource); err != nil {
					return nil, err
				}
			}
			if pays {
				below[next] = append(below[next], s.Entity)
			}
		}
	}
	return below, nil
}

// usageTally accumulates a UsageSummary.
type usageTally struct {
	sum     UsageSummary
	sums    map[string]float64   // like Total, which saturates at int64
	windows map[string]int       // windows that have the limit
	latest  map[string]time.Time // the last window counted in windows
}

func newUsageTally() *usageTally {
	return &usageTally{
		sum:  UsageSummary{Total: map[string]int64{}, Cascaded: map[string]int64{}, Average: map[string]float64{}},
		sums: map[string]float64{}, windows: map[string]int{}, latest: map[string]time.Time{},
	}
}

// add adds the snapshots of one window and resource. The caller passes windows
// newest first.
func (t *usageTally) add(group []UsageSnapshot, trees *usageTrees) error {
	if len(group) == 0 {
		return nil
	}

	below, err := trees.below(group)
	if err != nil {
		return err
	}

	start := group[0].Start
	// Groups of one window follow each other, so the last start is enough
	// to count windows.
	if t.sum.Windows == 0 || !start.Equal(t.sum.First) {
		t.sum.Windows++
	}
	if t.sum.Windows == 1 {
		t.sum.Last = start
	}
	t.sum.First = start
	t.sum.Snapshots += len(group)

	own := ownPart(group, below, func(s UsageSnapshot) map[string]int64 { return s.Counters })
	spared := ownPart(group, below, func(s UsageSnapshot) map[string]int64 { return s.WouldRefuse })
	for _, s := range group {
		t.addShadow(spared(s.Entity))
		// A call that cascades is in the snapshots of each payer, and counts for
		// the entity of the call.
		for limit, n := range s.Counters {
			part := own(s.Entity)[limit]
			t.sum.Total[limit] = bucket.Add(t.sum.Total[limit], part)
			t.sums[limit] += float64(part)
			if rest := bucket.Sub(n, part); rest != 0 {
				t.sum.Cascaded[limit] = bucket.Add(t.sum.Cascaded[limit], rest)
			}
			// Several entities of a group may have the limit, which counts
			// their window once.
			if last, ok := t.latest[limit]; !ok || !last.Equal(start) {
				t.latest[limit] = start
				t.windows[limit]++
			}
		}
	}
	return nil
}

// addShadow adds the counts of shadow limits.
func (t *usageTally) addShadow(counts map[string]int64) {
	for limit, n := range counts {
		if n == 0 {
			continue
		}
		if t.sum.WouldRefuse == nil {
			t.sum.WouldRefuse = map[string]int64{}
		}
		t.sum.WouldRefuse[limit] = bucket.Add(t.sum.WouldRefuse[limit], n)
	}
}

func (t *usageTally) summary() UsageSummary {
	for limit, n := range t.sums {
		t.sum.Average[limit] = n / float64(t.windows[limit])
	}
	return t.sum
}

// ownPart returns a function that computes the own part of an entity in the group:
// its counters less the own parts of the descendants whose charges reach it. The result
// is never below 0, or below a negative counter, since descendants cannot have caused
// more than the entity paid. In a cycle of parents, the first entity requested is
// computed last.
func ownPart(
	group []UsageSnapshot, below map[string][]string, counters func(UsageSnapshot) map[string]int64,
) func(entity string) map[string]int64 {
	charged := make(map[string]map[string]int64, len(group))
	for _, s := range group {
		charged[s.Entity] = counters(s)
	}

	known := map[string]map[string]int64{}
	var own func(string) map[string]int64
	own = func(entity string) map[string]int64 {
		if part, ok := known[entity]; ok {
			return part
		}
		// Most entities have no descendants, and all that was charged is their
		// own.
		if len(below[entity]) == 0 {
			return charged[entity]
		}

		known[entity] = nil // ends the recursion in a cycle
		caused := map[string]int64{}
		for _, descendant := range below[entity] {
			for limit, n := range own(descendant) {
				caused[limit] = bucket.Add(caused[limit], n)
			}
		}

		part := map[string]int64{}
		for limit, n := range charged[entity] {
			part[limit] = max(bucket.Sub(n, caused[limit]), min(n, 0))
		}

		known[entity] = part
		return part
	}
	return own
}
