package limiter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Explain returns the decision that Acquire would make now, with the level that
// each limit comes from. It writes nothing. req.Consume may be empty. The errors
// are the same as for Acquire, except that an outage is always an error.
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
	storeCtx, cancel := l.withTimeout(ctx)
	defer cancel()

	out, err := l.repo.Peek(storeCtx, l.now(), charge)
	if err != nil {
		return Decision{}, translateError(ctx, "explain", req.Entity, req.Resource, err)
	}
	return newDecision(&charge, out), nil
}

// TimeUntil returns how long until req would fit if nothing else were taken; 0
// means now. For a request that never fits, the error is an *ExceededError that
// matches ErrNeverFits.
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

// Available returns how many whole tokens of each limit the entity could take
// now. For an entity that cascades, it returns the lower of its own and its
// parent's balance. A negative amount is debt.
func (l *RateLimiter) Available(ctx context.Context, entity, resource string) (Amounts, error) {
	d, err := l.Explain(ctx, Request{Entity: entity, Resource: resource})
	if err != nil {
		return Amounts{}, err
	}

	var least Amounts
	// An entity and its parent may have limits of the same name, and the lower
	// balance decides.
	for _, s := range d.Statuses {
		if n, named := least.Lookup(s.Limit.Name); !named {
			least = least.And(s.Limit.Name, s.Available)
		} else if s.Available < n {
			least = least.And(s.Limit.Name, bucket.Sub(s.Available, n))
		}
	}
	return least, nil
}

// Status returns every limit of every bucket of the entity, ordered by resource
// and name. It returns none for an entity that has never used anything.
func (l *RateLimiter) Status(ctx context.Context, entity string) ([]Status, error) {
	if err := validEntity(entity); err != nil {
		return nil, err
	}

	var all []Status
	for b, err := range translateErrors(
		ctx, "status", entity, "", l.repo.Buckets(ctx, l.now(), Scope{Entity: entity}),
	) {
		if err != nil {
			return nil, err
		}
		all = append(all, b.Statuses()...)
	}

	l.fixSources(all)
	return all, nil
}

// CapacityQuery selects one limit of a resource for [RateLimiter.Capacity].
type CapacityQuery struct {
	Resource, Limit string // both required
	ParentsOnly     bool   // skip children, and entities without a record
}

// ResourceCapacity is the sum of one limit over all entities with a bucket.
type ResourceCapacity struct {
	Resource, Limit  string   // as in the query
	Total, Available int64    // whole tokens; debt counts as negative
	Entities         []Status // the summands, ordered by entity ID
}

// Utilization returns the share of Total that is missing, in percent. It is above
// 100 in debt, and 0 if Total is 0.
func (c ResourceCapacity) Utilization() float64 {
	if c.Total <= 0 {
		return 0
	}
	return (float64(c.Total) - float64(c.Available)) / float64(c.Total) * 100
}

// Capacity adds up one limit of a resource over all entities that have a bucket.
func (l *RateLimiter) Capacity(ctx context.Context, q CapacityQuery) (ResourceCapacity, error) {
	out := ResourceCapacity{Resource: q.Resource, Limit: q.Limit}
	if err := validResource(q.Resource); err != nil {
		return out, err
	}
	if err := validLimitName(q.Limit); err != nil {
		return out, err
	}

	for b, err := range translateErrors(
		ctx, "capacity", "", q.Resource, l.repo.Buckets(ctx, l.now(), Scope{Resource: q.Resource}),
	) {
		if err != nil {
			return out, err
		}
		for i := range b.Tokens {
			if b.Account.Limits[i].Name != q.Limit {
				continue
			}
			// The record is read only for buckets that have the limit, since it
			// may cost a request.
			if ok, err := l.selects(ctx, q, b.Account.Entity); err != nil {
				return out, err
			} else if !ok {
				continue
			}

			s := newStatus(&Charge{}, b, i, true)
			out.Entities = append(out.Entities, s)
			out.Total = bucket.Add(out.Total, s.Limit.Capacity)
			out.Available = bucket.Add(out.Available, s.Available)
		}
	}

	l.fixSources(out.Entities)
	return out, nil
}

// selects reports whether q includes the entity.
func (l *RateLimiter) selects(ctx context.Context, q CapacityQuery, entity string) (bool, error) {
	if !q.ParentsOnly {
		return true, nil
	}
	e, err := l.repo.Entity(ctx, entity)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return e.Parent == "", translateError(ctx, "capacity", entity, q.Resource, err)
}

// fixSources corrects the source of limits that no level holds: they are either
// defaults of this limiter, or came with a request or from another program.
func (l *RateLimiter) fixSources(all []Status) {
	for i := range all {
		if all[i].Source == sourceDefault && !slices.Contains(l.defaults, all[i].Limit) {
			all[i].Source = sourceOverride
		}
	}
}
