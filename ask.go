package limiter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Explain is the decision Acquire would come to now, with the level each limit
// comes from. It writes nothing. req.Consume may be empty, to just look. Errors
// are those of Acquire, except that an outage is always an error.
func (l *RateLimiter) Explain(ctx context.Context, req Request) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	if err := req.validateTarget(); err != nil {
		return Decision{}, err
	}
	if req.Consume.n > 0 {
		if err := validCharge(&req.Consume); err != nil {
			return Decision{}, err
		}
	}
	charge := l.charge(&req)
	limited, cancel := l.limited(ctx)
	defer cancel()
	out, err := l.repo.Peek(limited, l.now(), charge)
	if err != nil {
		return Decision{}, failure(ctx, "explain", req.Entity, req.Resource, err)
	}
	return decide(&charge, out), nil
}

// TimeUntil is how long until req would fit if nothing else were taken: 0 means
// now. A request that never fits is an *ExceededError matching ErrNeverFits.
func (l *RateLimiter) TimeUntil(ctx context.Context, req Request) (time.Duration, error) {
	if err := validCharge(&req.Consume); err != nil {
		return 0, err
	}
	d, err := l.Explain(ctx, req)
	if err != nil {
		return 0, err
	}
	if d.NeverFits() {
		return 0, &ExceededError{d}
	}
	return d.RetryAfter(), nil
}

// Available is how many whole tokens of each limit the entity could take now:
// the least of its own and, if it cascades, its parent's. Negative is debt.
func (l *RateLimiter) Available(ctx context.Context, entity, resource string) (Amounts, error) {
	d, err := l.Explain(ctx, Request{Entity: entity, Resource: resource})
	if err != nil {
		return Amounts{}, err
	}
	var least Amounts
	for _, s := range d.Statuses {
		if n, named := least.Lookup(s.Limit.Name); !named {
			least = least.And(s.Limit.Name, s.Available)
		} else if s.Available < n {
			least = least.And(s.Limit.Name, bucket.Sub(s.Available, n))
		}
	}
	return least, nil
}

// Status is every limit of every bucket of the entity, by resource and name. An
// entity that never used anything has none.
func (l *RateLimiter) Status(ctx context.Context, entity string) ([]Status, error) {
	if err := validEntity(entity); err != nil {
		return nil, err
	}
	var all []Status
	for b, err := range mapped(ctx, "status", entity, "", l.repo.Buckets(ctx, l.now(), Scope{Entity: entity})) {
		if err != nil {
			return nil, err
		}
		for i := range b.Tokens {
			all = append(all, status(&Charge{}, b, i, true))
		}
	}
	return all, l.findSource(ctx, all)
}

// CapacityQuery asks for one limit of a resource over all entities that have a
// bucket, or over those that are stored and have no parent.
type CapacityQuery struct {
	Resource, Limit string // both are needed
	ParentsOnly     bool   // leave out children, and entities without a record
}

// ResourceCapacity is the sum over entities, and each of them, by id.
type ResourceCapacity struct {
	Resource, Limit  string   // as asked
	Total, Available int64    // whole tokens; debt counts negative
	Entities         []Status // what was added up
}

// Utilization is the used part of Total in percent: above 100 in debt, 0 when
// there is nothing to use.
func (c ResourceCapacity) Utilization() float64 {
	if c.Total <= 0 {
		return 0
	}
	return (float64(c.Total) - float64(c.Available)) / float64(c.Total) * 100
}

// Capacity adds up one limit of a resource over all entities.
func (l *RateLimiter) Capacity(ctx context.Context, q CapacityQuery) (ResourceCapacity, error) {
	out := ResourceCapacity{Resource: q.Resource, Limit: q.Limit}
	if err := validResource(q.Resource); err != nil {
		return out, err
	}
	if err := validLimitName(q.Limit); err != nil {
		return out, err
	}
	for b, err := range mapped(ctx, "capacity", "", q.Resource, l.repo.Buckets(ctx, l.now(), Scope{Resource: q.Resource})) {
		if err != nil {
			return out, err
		}
		for i := range b.Tokens {
			if b.Account.Limits[i].Name != q.Limit {
				continue
			}
			if keep, err := l.counts(ctx, q, b.Account.Entity); err != nil {
				return out, err
			} else if !keep {
				continue
			}
			s := status(&Charge{}, b, i, true)
			out.Entities = append(out.Entities, s)
			out.Total = bucket.Add(out.Total, s.Limit.Capacity)
			out.Available = bucket.Add(out.Available, s.Available)
		}
	}
	return out, l.findSource(ctx, out.Entities)
}

// findSource corrects the source of limits that are stored nowhere: they are
// defaults of this limiter, or a request or another program brought them, and the
// bucket, which knows only of levels, says the last.
func (l *RateLimiter) findSource(ctx context.Context, all []Status) error {
	system := Scope{}.Level()
	unsure := func(s Status) bool { return s.Source == system || s.Source == sourceDefault }
	if !slices.ContainsFunc(all, unsure) {
		return nil
	}
	cfg, err := l.get(ctx, Scope{})
	if err != nil {
		return err
	}
	for i := range all {
		stored := slices.ContainsFunc(cfg.Limits, func(limit Limit) bool { return limit.Name == all[i].Limit.Name })
		switch {
		case !unsure(all[i]):
		case stored:
			all[i].Source = system
		case slices.Contains(l.defaults, all[i].Limit):
			all[i].Source = sourceDefault
		default:
			all[i].Source = sourceOverride
		}
	}
	return nil
}

// counts tells whether the query is about this entity.
func (l *RateLimiter) counts(ctx context.Context, q CapacityQuery, entity string) (bool, error) {
	if !q.ParentsOnly {
		return true, nil
	}
	e, err := l.repo.Entity(ctx, entity)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return e.Parent == "", failure(ctx, "capacity", entity, q.Resource, err)
}
