package manifest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// usageReader reads the snapshots that changed levels apply to.
type usageReader struct {
	*replay
	queries []limiter.Scope       // an entity, a resource, both, or all
	index   map[limiter.Scope]int // position in queries
}

// errEnough ends the reading of snapshots.
var errEnough = errors.New("enough snapshots")

// readUsage reads the snapshots. Queries of an entity come first, since they are
// short. The others are read in spans of time, the newest first, so that a report
// that stops early has the same days of every resource.
func (r *replay) readUsage(ctx context.Context) error {
	reader := newUsageReader(r)
	err := reader.readAll(ctx)
	if errors.Is(err, errEnough) {
		r.result.Complete = false
		return nil
	}
	return err
}

func newUsageReader(r *replay) *usageReader {
	u := &usageReader{replay: r, index: map[limiter.Scope]int{}}
	asked := map[limiter.Scope]bool{}

	for s := range r.levels {
		if s, ok := r.narrow(s); ok {
			asked[s] = true
		}
	}

	// A wider query finds the same snapshots.
	for s := range asked {
		covered := slices.ContainsFunc(wider(s), func(w limiter.Scope) bool { return asked[w] })
		if !covered {
			u.queries = append(u.queries, s)
		}
	}

	// In reverse order, the queries of entities come first.
	slices.SortFunc(u.queries, compareScopes)
	slices.Reverse(u.queries)
	for i, s := range u.queries {
		u.index[s] = i
	}

	return u
}

// wider returns the scopes that contain s and more.
func wider(s limiter.Scope) []limiter.Scope {
	all := limiter.Precedence(s.Entity, s.Resource)
	return slices.DeleteFunc(all[:], func(w limiter.Scope) bool { return w == s })
}

// narrow restricts a scope to the entity and the resource of the options. It
// reports whether anything is left.
func (r *replay) narrow(s limiter.Scope) (limiter.Scope, bool) {
	for _, part := range []struct {
		value *string
		only  string
	}{{&s.Entity, r.opts.Entity}, {&s.Resource, r.opts.Resource}} {
		switch {
		case part.only == "" || *part.value == part.only:
		case *part.value == "":
			*part.value = part.only
		default:
			return s, false
		}
	}
	return s, true
}

// readAll reads all queries. A span of time is longer after one with few
// snapshots.
func (u *usageReader) readAll(ctx context.Context) error {
	from, to := u.result.From, u.now.Truncate(time.Hour)
	byEntity := u.queries[:u.narrowQueries()]

	if err := u.read(ctx, byEntity, from, to); err != nil {
		return err
	}

	others := u.queries[len(byEntity):]
	for span := time.Hour; len(others) > 0 && !to.Before(from); {
		before := u.result.Snapshots
		start := to.Add(time.Hour - span)
		if start.Before(from) {
			start = from
		}
		if err := u.read(ctx, others, start, to); err != nil {
			// A store may refuse to list so many snapshots at once.
			return u.afterTooMany(err)
		}

		to = start.Add(-time.Hour)
		// Few snapshots make the next span four times as long, so that an idle
		// namespace takes few requests.
		if u.result.Snapshots-before < u.opts.MaxSnapshots/16 {
			span *= 4
		}
	}
	return nil
}

// narrowQueries returns the number of queries that name an entity.
func (u *usageReader) narrowQueries() int {
	n := slices.IndexFunc(u.queries, func(s limiter.Scope) bool { return s.Entity == "" })
	if n < 0 {
		return len(u.queries)
	}
	return n
}

// afterTooMany turns the refusal of a store to list so many snapshots into
// errEnough if some were read.
func (u *usageReader) afterTooMany(err error) error {
	if _, refused := errors.AsType[*limiter.InvalidError](err); refused && u.result.Snapshots > 0 {
		return errEnough
	}
	return err
}

// read reads the snapshots of queries that start in a span of time.
func (u *usageReader) read(ctx context.Context, queries []limiter.Scope, from, to time.Time) error {
	for _, s := range queries {
		q := limiter.UsageQuery{Entity: s.Entity, Resource: s.Resource, Window: limiter.Hourly, From: from, To: to}
		for snapshot, err := range u.lim.Usage(ctx, q) {
			if err != nil {
				return err
			}
			// A query of an entity and one of a resource find the snapshots of
			// both.
			if u.readBefore(s, snapshot) {
				continue
			}

			if u.result.Snapshots == u.opts.MaxSnapshots {
				return errEnough
			}

			u.keep(snapshot)
		}
	}
	return nil
}

// readBefore reports whether a query before s finds the snapshot too.
func (u *usageReader) readBefore(s limiter.Scope, snapshot limiter.UsageSnapshot) bool {
	return slices.ContainsFunc(wider(limiter.Scope{Entity: snapshot.Entity, Resource: snapshot.Resource}),
		func(w limiter.Scope) bool {
			i, asked := u.index[w]
			return asked && i < u.index[s]
		})
}

func (u *usageReader) keep(snapshot limiter.UsageSnapshot) {
	u.result.Snapshots++
	start := snapshot.Start.UTC()

	if u.result.First == nil || start.Before(*u.result.First) {
		u.result.First = &start
	}
	if u.result.Last == nil || start.After(*u.result.Last) {
		u.result.Last = &start
	}

	of := limiter.Scope{Entity: snapshot.Entity, Resource: snapshot.Resource}
	if u.usage[of] == nil {
		u.usage[of] = &series{map[string][]point{}, map[int64]int64{}}
	}
	u.usage[of].add(snapshot)
}
