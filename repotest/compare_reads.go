package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func (h *history) readBuckets() { h.bucketsOf(h.clock(), h.scope()) }

func (h *history) bucketsOf(now time.Time, of limiter.Scope) {
	h.note("%s Buckets %v", stamp(now), of)
	_, _ = both(h, "Buckets", func(_ int, repo limiter.Repository) ([]balance, error) {
		buckets, err := toSlice(repo.Buckets(h.ctx, now, of))
		return h.balancesOf(buckets), err
	})
}

// balancesOf returns the balances of listed buckets, without what is undefined
// there.
func (h *history) balancesOf(buckets []limiter.Bucket) (all []balance) {
	for _, b := range buckets {
		listed := balanceOf(b, false)

		if listed.Default {
			listed.Source = limiter.Scope{}
		}
		all = append(all, listed)
	}
	return all
}

func (h *history) readUsage() {
	q := limiter.UsageQuery{Entity: pick(h.rng, someEntities), Resource: pick(h.rng, someResources)}

	switch h.rng.IntN(3) {
	case 0:
		q.Entity = ""
	case 1:
		q.Resource = ""
	}

	if h.chance(2) {
		q.Window = pick(h.rng, []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly})
	}

	if h.chance(3) {
		q.From = h.now.Add(-time.Hour)
	}

	if h.countsUsage {
		h.usageOf(q)
	}
}

// usageOf compares snapshots, and their sums if the query selects all.
func (h *history) usageOf(q limiter.UsageQuery) {
	h.note("Usage %v", q)

	all, _ := both(h, "Usage", func(_ int, repo limiter.Repository) ([]limiter.UsageSnapshot, error) {
		return toSlice(repo.Usage(h.ctx, q))
	})

	// Hours, days and months cover the same calls only in an answer that
	// selects all of them.
	if q.Window != "" || !q.From.IsZero() || h.fault != None {
		return
	}

	sums := map[limiter.Window]map[string]int64{limiter.Hourly: {}, limiter.Daily: {}, limiter.Monthly: {}}
	for _, s := range all[0] {
		for limit, n := range s.Counters {
			sums[s.Window][limit] += n
		}
		for limit, n := range s.WouldRefuse {
			sums[s.Window]["would refuse "+limit] += n
		}
	}

	// Each use is counted in one hour, one day and one month.
	for _, w := range []limiter.Window{limiter.Daily, limiter.Monthly} {
		for limit, n := range sums[limiter.Hourly] {
			if sums[w][limit] != n {
				h.fail("Usage %v: hours, days and months do not add up to the same: %v", q, sums)
			}
		}
	}
}

// finish compares all buckets and all usage of every namespace, without
// faults.
func (h *history) finish() {
	h.countTwins()

	for _, h.where = range append([]*pair{h.main}, h.namespaces...) {
		for _, entity := range someEntities {
			// A call that fails compares nothing, so each is made until it does
			// not fail.
			for h.fault = Before; h.fault != None; {
				h.bucketsOf(h.now, limiter.Scope{Entity: entity})
			}

			for h.fault = Before; h.fault != None && h.countsUsage; {
				h.usageOf(limiter.UsageQuery{Entity: entity})
			}
		}
	}
}

// readRecords compares one read of entities, config or audit events.
func (h *history) readRecords() {
	scope := h.scope()
	entity := pick(h.rng, someEntities)
	h.note("read records %v %s", scope, entity)

	_, _ = both(h, "Config", func(_ int, repo limiter.Repository) (limiter.Config, error) {
		return repo.Config(h.ctx, scope)
	})
	_, _ = both(h, "Entity", func(_ int, repo limiter.Repository) (limiter.Entity, error) {
		return repo.Entity(h.ctx, entity)
	})

	for _, parent := range []string{"", entity} {
		_, _ = both(h, "Entities", func(_ int, repo limiter.Repository) ([]limiter.Entity, error) {
			return toSlice(repo.Entities(h.ctx, parent))
		})
	}

	_, _ = both(h, "ResourcesWithDefaults", func(_ int, repo limiter.Repository) ([]string, error) {
		return repo.ResourcesWithDefaults(h.ctx)
	})
	_, _ = both(h, "ResourcesWithLimits", func(_ int, repo limiter.Repository) ([]string, error) {
		return repo.ResourcesWithLimits(h.ctx)
	})
	_, _ = both(h, "EntitiesWithLimits", func(_ int, repo limiter.Repository) ([]string, error) {
		return toSlice(repo.EntitiesWithLimits(h.ctx, scope.Resource))
	})

	_, _ = both(h, "OnUnavailable", func(_ int, repo limiter.Repository) (limiter.OnUnavailable, error) {
		if _, err := repo.Config(h.ctx, limiter.Scope{}); err != nil {
			// Without reading the config, the cached mode may be stale.
			return "", err
		}
		return repo.OnUnavailable(), nil
	})

	_, _ = both(h, "AuditEvents", func(_ int, repo limiter.Repository) ([]limiter.AuditEvent, error) {
		events, err := toSlice(repo.AuditEvents(h.ctx, entity, ""))
		for i := range events {
			// The number counts stored records, which differ between stores.
			delete(events[i].Details, "records_deleted")
		}
		return events, err
	})
}
