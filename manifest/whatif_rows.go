package manifest

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// readLevels reads the levels that apply to the usage and do not change.
func (r *replay) readLevels(ctx context.Context) error {
	needed := map[limiter.Scope]bool{}
	for of := range r.usage {
		for _, s := range limiter.Precedence(of.Entity, of.Resource) {
			if _, changes := r.levels[s]; !changes {
				needed[s] = true
			}
		}
	}

	scopes := slices.SortedFunc(maps.Keys(needed), compareScopes)
	stored, err := r.readConfigs(ctx, scopes)
	if err != nil {
		return err
	}

	for i, cfg := range stored {
		if cfg.damaged != nil {
			return cfg.damaged
		}
		r.levels[scopes[i]] = level{cfg.Limits, cfg.Limits}
	}
	return nil
}

// limits returns the limits in force for an entity and a resource, now and after
// the change.
func (r *replay) limits(of limiter.Scope) (all level) {
	// A level without limits does not hold any, so the next one applies.
	for _, s := range limiter.Precedence(of.Entity, of.Resource) {
		if len(all.current) == 0 {
			all.current = r.levels[s].current
		}
		if len(all.proposed) == 0 {
			all.proposed = r.levels[s].proposed
		}
	}
	return all
}

// judge fills in the rows and the sums of the report.
func (r *replay) judge() {
	entities, over := map[string]bool{}, map[string]bool{}
	seen := map[string]bool{} // by proposed limit
	for of, usage := range r.usage {
		limits := r.limits(of)
		if slices.Equal(limits.current, limits.proposed) {
			continue
		}

		entities[of.Entity] = true

		usage.sort()
		for _, row := range r.rows(of, limits, usage) {
			if row.Proposed != nil {
				seen[row.Limit] = seen[row.Limit] || len(usage.points[row.Limit]) > 0
			}
			if row.Worse() {
				over[of.Entity] = true
			}
			if r.opts.All || row.Over > 0 || row.Removed() {
				r.result.Rows = append(r.result.Rows, row)
			}
		}
	}

	r.result.Entities, r.result.EntitiesOver = len(entities), len(over)

	for _, limit := range slices.Sorted(maps.Keys(seen)) {
		if !seen[limit] {
			r.result.Unseen = append(r.result.Unseen, limit)
		}
	}

	slices.SortFunc(r.result.Rows, worstFirst)
}

// rows returns the rows of the limits that change.
func (r *replay) rows(of limiter.Scope, limits level, usage *series) (rows []WhatIfRow) {
	now := r.now.UnixMilli()
	for _, l := range sortLimits(slices.Concat(limits.current, limits.proposed)) {
		row := WhatIfRow{
			Entity: of.Entity, Resource: of.Resource, Limit: l.Name,
			Current: named(limits.current, l.Name), Proposed: named(limits.proposed, l.Name),
		}
		// A name is there twice if the limit is both in force and proposed.
		repeated := len(rows) > 0 && rows[len(rows)-1].Limit == l.Name
		if repeated || row.Current != nil && row.Proposed != nil && *row.Current == *row.Proposed {
			continue
		}

		points := usage.points[l.Name]
		row.usedUp(points)
		row.exceed(points, now)
		row.OverNow = totalOver(row.Current, points, now)

		if usage.countsCalls(l.Name) {
			calls := row.Over
			row.CallsOver = &calls
		}

		rows = append(rows, row)
	}
	return rows
}

// named returns the limit of a name, or nil.
func named(limits []limiter.Limit, name string) *limiter.Limit {
	i := slices.IndexFunc(limits, func(l limiter.Limit) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return &limits[i]
}

// worstFirst orders rows: limits that would go, then limits that are exceeded by
// more than now, then others; within these by hours and by the share of tokens
// that is over.
func worstFirst(a, b WhatIfRow) int {
	return cmp.Or(
		cmp.Compare(b.badness(), a.badness()), cmp.Compare(b.HoursOver, a.HoursOver),
		cmp.Compare(b.shareOver(), a.shareOver()),
		cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Limit, b.Limit),
	)
}

func (r WhatIfRow) badness() int {
	switch {
	case r.Removed():
		return 2
	case r.Worse():
		return 1
	}
	return 0
}

// shareOver returns the share of the used tokens that is over.
func (r WhatIfRow) shareOver() float64 { return float64(r.Over) / float64(max(r.Used, 1)) }
