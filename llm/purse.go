package llm

import (
	"math"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// purse is what this process knows of the money in one bucket. It saves reading
// the bucket before a reservation. The store decides, so a purse may be wrong.
type purse struct {
	mu       sync.Mutex
	known    int64     // left after the last decision
	read     time.Time // when that was
	asked    int64     // by calls that the store has not decided
	reserved int64     // by open leases
}

// purseLife is how long a purse is believed when it is nearly empty: other
// processes give money back, and a budget is full again when its window begins.
const purseLife = time.Second

// budget holds the purses that a call is paid from: of its entity and its parent.
type budget struct {
	purses []*purse
	firm   bool // the limits are enforced
}

// budgetOf returns the budget of a set of limits, enforced ones before shadow
// limits.
func (l *Limiter) budgetOf(set limitSet) budget {
	b := budget{firm: len(set.budgets) > 0}
	ids := set.budgets
	// A shadow limit takes what it would take if it were enforced.
	if !b.firm {
		ids = set.shadows
	}

	for _, id := range ids {
		b.purses = append(b.purses, l.purseOf(id))
	}
	return b
}

func (l *Limiter) purseOf(id bucketID) (p *purse) {
	l.purses.update(id, func(known *purse, ok bool) *purse {
		if p = known; !ok {
			p = &purse{}
		}
		return p
	})
	return p
}

// left returns what is left in the purse that has the least, and the age of that
// knowledge.
func (b budget) left(now time.Time) (left int64, age time.Duration) {
	left = math.MaxInt64
	for _, p := range b.purses {
		// What the store has not decided may be gone in a moment.
		p.mu.Lock()
		if n := p.known - p.asked; n < left {
			left, age = n, now.Sub(p.read)
		}
		p.mu.Unlock()
	}
	return left, age
}

// each changes every purse.
func (b budget) each(change func(*purse)) {
	for _, p := range b.purses {
		p.mu.Lock()
		change(p)
		p.mu.Unlock()
	}
}

func (b budget) ask(n int64)     { b.each(func(p *purse) { p.asked += n }) }
func (b budget) reserve(n int64) { b.each(func(p *purse) { p.reserved += n }) }

// settle ends the reservation of a lease that reserved an amount and used another.
func (b budget) settle(reserved, used int64) {
	b.each(func(p *purse) {
		p.reserved -= reserved
		p.known += reserved - used
	})
}

// observe notes the money that a decision shows.
func (l *Limiter) observe(d limiter.Decision, now time.Time) {
	for i := range d.Statuses {
		if s := &d.Statuses[i]; l.limits.Cost != "" && s.Limit.Name == l.limits.Cost {
			p := l.purseOf(bucketID{s.Entity, s.Resource})
			p.mu.Lock()
			p.known, p.read = s.Available, now
			p.mu.Unlock()
		}
	}
}
