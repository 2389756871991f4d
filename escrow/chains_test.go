package escrow

import (
	"context"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// chains is a store whose charges pay from chains of any length. It charges the
// buckets of another store one by one, while no other call does.
type chains struct {
	limiter.Repository
	brief   bool          // a refusal shows no payer after the first that refuses
	latency time.Duration // of charges

	mu       sync.Mutex
	parents  map[string]string
	consumes int
	credits  int
}

func newChains(store limiter.Repository) *chains {
	return &chains{Repository: store, parents: map[string]string{}}
}

// CreateEntity stores an entity that pays alone in the other store.
func (c *chains) CreateEntity(ctx context.Context, e limiter.Entity, ev limiter.AuditEvent) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Cascade {
		c.parents[e.ID] = e.Parent
	}
	e.Cascade = false
	return c.Repository.CreateEntity(ctx, e, ev)
}

// Consume charges the entity and its ancestors.
func (c *chains) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	time.Sleep(c.latency)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.consumes++
	return c.charge(ctx, now, charge, c.Repository.Consume)
}

// Peek shows what Consume would return.
func (c *chains) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.charge(ctx, now, charge, c.Repository.Peek)
}

// Credit counts credits.
func (c *chains) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credits += len(credits)
	return c.Repository.Credit(ctx, now, credits...)
}

// charge charges the payers by a method of the other store, if all cover their part.
func (c *chains) charge(
	ctx context.Context, now time.Time, charge limiter.Charge,
	method func(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error),
) (limiter.Outcome, error) {
	out := limiter.Outcome{Admitted: true}
	var parts []limiter.Charge
	for entity := charge.Entity; entity != "" && (out.Admitted || !c.brief); entity = c.parents[entity] {
		// A peek of nothing shows the balances that a refusal leaves.
		part := charge
		part.Entity, part.Amounts = entity, limiter.Amounts{}
		found, err := c.Repository.Peek(ctx, now, part)
		if err != nil {
			return limiter.Outcome{}, err
		}
		for _, l := range found.Payers[0].Account.Limits {
			if n, named := charge.Amounts.Lookup(l.Name); named {
				part.Amounts = part.Amounts.And(l.Name, n)
			}
		}
		judged, err := c.Repository.Peek(ctx, now, part)
		if err != nil {
			return limiter.Outcome{}, err
		}
		out.Admitted = out.Admitted && judged.Admitted
		out.Payers, parts = append(out.Payers, found.Payers[0]), append(parts, part)
	}
	// The other store returns the error for an unknown limit.
	if !names(out.Payers, &charge.Amounts) && out.Admitted {
		return c.Repository.Peek(ctx, now, charge)
	}
	for i := 0; out.Admitted && i < len(parts); i++ {
		paid, err := method(ctx, now, parts[i])
		if err != nil {
			return limiter.Outcome{}, err
		}
		out.Payers[i] = paid.Payers[0]
	}
	return out, nil
}
