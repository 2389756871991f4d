package limiter

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// Reset fills the named limits of the bucket of an entity and a resource, or all
// of them if it names none. Debt is forgiven, and a quota belongs to the current
// window. Reset changes neither the usage nor the parent's bucket. A bucket that
// does not exist is full already.
func (l *RateLimiter) Reset(ctx context.Context, entity, resource string, limits ...string) error {
	if err := validBucket(entity, resource); err != nil {
		return err
	}

	for i, name := range limits {
		if err := validLimitName(name); err != nil {
			return err
		}
		if slices.Contains(limits[:i], name) {
			return invalid("limits", name, "is listed twice; give each limit once")
		}
	}

	// A list without names stands for all limits. The store fills it in, since
	// it knows them.
	names := make([]any, len(limits))
	for i, name := range limits {
		names[i] = name
	}

	_, err := l.fill(ctx, "bucket_reset", Fill{Entity: entity, Resource: resource, Limits: limits},
		map[string]any{"limits": names})
	return err
}

// TopUp adds amounts to the bucket of an entity and a resource, up to the capacity
// of each limit. It changes neither the usage nor the parent's bucket. The id
// identifies the top-up: within [TopUpLife], TopUp with the same id does nothing and
// returns false, in every process, so that a repetition is safe. A bucket that does
// not exist is full already: TopUp adds nothing to it and returns true, since it
// uses the id.
func (l *RateLimiter) TopUp(
	ctx context.Context, entity, resource string, amounts Amounts, id string,
) (done bool, err error) {
	if err := validBucket(entity, resource); err != nil {
		return false, err
	}

	if !idSyntax.matches(id) || len(id) > maxTopUpID {
		return false, invalid("id", id, idSyntax.rule+", at most "+strconv.Itoa(maxTopUpID)+" characters")
	}

	if err := validTopUp(&amounts); err != nil {
		return false, err
	}

	details := map[string]any{"id": id}
	added := map[string]any{}
	for limit, n := range amounts.All() {
		added[limit] = n
	}
	details["amounts"] = added

	return l.fill(ctx, "bucket_topped_up", Fill{Entity: entity, Resource: resource, Amounts: amounts, ID: id}, details)
}

// maxTopUpID is the length of the longest ID of a top-up.
const maxTopUpID = 128

// fill calls the store, and reports whether the store carried the fill out.
func (l *RateLimiter) fill(ctx context.Context, action string, f Fill, details map[string]any) (done bool, err error) {
	ev, err := l.newEvent(action, f.Entity, f.Resource, details)
	if err != nil {
		return false, err
	}

	f.Defaults = l.defaults
	err = callStore(ctx, "fill", f.Entity, f.Resource, func() (err error) {
		done, err = l.repo.Fill(ctx, l.now(), f, ev)
		return err
	})
	// Waiters of this process may fit into what was filled.
	if done && err == nil {
		l.queues.filled(namespaceID(l.repo, ""), &f, time.Now())
	}
	return done, err
}

func validBucket(entity, resource string) error {
	if err := validEntity(entity); err != nil {
		return err
	}
	return validResource(resource)
}

// validTopUp checks the amounts of TopUp.
func validTopUp(a *Amounts) error {
	if a.n == 0 {
		return invalid("amounts", "", "must not be empty; name at least one limit")
	}
	for limit, n := range a.All() {
		if err := validLimitName(limit); err != nil {
			return err
		}
		if n < 1 || n > maxAdjusted {
			return invalid("amounts", limit+"="+strconv.FormatInt(n, 10),
				"must be between 1 and "+strconv.FormatInt(maxAdjusted, 10))
		}
	}
	return nil
}
