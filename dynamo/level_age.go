package dynamo

import (
	"context"
	"time"
)

// Reads with a budget serve people who watch limits, so they use limits that were
// read a moment ago, as far as the budget allows it. Charges use older ones.
const (
	// recentLimits is how old limits may be if the budget allows to read them.
	recentLimits = 2 * time.Second
	// maxListedLife is how old limits may be if it does not.
	maxListedLife = 10 * time.Second
	// sparePart is the part of a budget that replaces limits older than
	// recentLimits, so that these reads leave most of it to buckets.
	sparePart = 1.0 / 3
)

// factLife returns how long a call uses cached facts.
func (r *Repository) factLife(ctx context.Context) time.Duration {
	if hasBudget(ctx) {
		return min(r.cache.life, recentLimits)
	}
	return r.cache.life
}

// levelLife returns how long a page or a list uses levels that were read with a
// lag.
func (r *Repository) levelLife(ctx context.Context, at moment, keys []factKey) time.Duration {
	s := spendingOf(ctx)
	if s.budget == nil {
		return recentLimits
	}

	// Replacing the facts that are between the two ages costs units. Only the
	// spare part of the budget pays for that, and if it is used up, the old
	// facts serve.
	aging := r.listed.between(at, recentLimits, r.listed.life, keys)
	if aging == 0 || s.spare.take(float64(aging)*unitsPerItem(nil)) == 0 {
		return recentLimits
	}
	return r.listed.life
}

// between returns how many facts are in the cache, usable for an age of most and
// not for one of least.
func (c *cache) between(at moment, least, most time.Duration, keys []factKey) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for _, k := range keys {
		if s := c.slots[k]; s.usable(most, at) && !s.usable(least, at) {
			n++
		}
	}
	return n
}

// laggingLevels returns levels, read with a lag.
func (r *Repository) laggingLevels(ctx context.Context, now int64, keys []factKey) ([]*fact, error) {
	at := r.moment(now)
	life := r.levelLife(ctx, at, keys)

	// Other calls may wait for this read, so the budget has to be paid before
	// it begins.
	ctx, endBudget, err := r.listed.prepayLookup(ctx, at, life, keys)
	if err != nil {
		return nil, err
	}
	defer endBudget()

	facts, _, err := r.listed.lookup(ctx, at, life, keys, func(wanted []factKey) ([]*fact, error) {
		facts, _, err := r.read(ctx, wanted, nil, r.getLagging)
		return facts, err
	})
	return facts, err
}
