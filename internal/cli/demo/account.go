package demo

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// account is what one limit of one bucket was charged, in whole tokens, and the
// check that it was not too much.
type account struct {
	ledger                          *bucket.Ledger
	level                           bucket.State // the bucket when it last changed
	admitted, given, taken, refused int64
	owed                            int64 // thousandths of taken that the bucket did not hold
	checks, broken                  int   // admissions checked, and those that were too much
	worst                           check // the one with the largest excess
}

// check is what the ledger said of one admission: by how many thousandths the
// worst window that ends with it exceeds what is allowed.
type check struct {
	at     time.Time
	excess int64
}

// admit enters a charge of n that left so many thousandths in the bucket.
func (a *account) admit(now time.Time, n, left int64) {
	a.admitted += n
	a.level.Tokens, a.level.At = left, now.UnixMilli()
	c := check{now, a.ledger.Admit(now.UnixMilli(), bucket.Thousandths(n))}
	if a.checks++; a.checks == 1 || c.excess > a.worst.excess {
		a.worst = c
	}
	if c.excess > 0 {
		a.broken++
	}
}

// credit gives back n, or takes more where n is negative.
func (a *account) credit(now time.Time, n int64) {
	at := now.UnixMilli()
	held := bucket.Advance(a.level.Tokens, a.level.At, at, a.level.Rate)
	a.level.Tokens, a.level.At = min(bucket.Add(held, bucket.Thousandths(n)), a.level.Capacity), max(at, a.level.At)
	if n > 0 {
		a.given += n
		a.ledger.Give(at, bucket.Thousandths(n))
		return
	}
	a.taken -= n
	a.owed += max(0, bucket.Thousandths(-n)-max(0, held))
	a.ledger.Take(at, bucket.Thousandths(-n))
}

// verdict is what all checks say together.
type verdict struct {
	limits, checks, broken int
	worst                  check
	entity, model, limit   string        // where the worst was
	at                     time.Duration // and when, since the start
}

// verdict looks at every limit that admitted anything.
func (b *book) verdict() verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	var v verdict
	for _, at := range buckets() {
		for _, limit := range []string{rpm, tpm} {
			a := b.tally(at.Entity, at.Resource).accounts[limit]
			if a == nil || a.checks == 0 {
				continue
			}
			v.limits++
			v.checks += a.checks
			v.broken += a.broken
			if v.limits == 1 || a.worst.excess > v.worst.excess {
				v.worst, v.at = a.worst, a.worst.at.Sub(b.start)
				v.entity, v.model, v.limit = at.Entity, at.Resource, limit
			}
		}
	}
	return v
}

// line is one limit of one bucket in the summary, in whole tokens.
type line struct {
	Entity, Model, Limit string
	Key                  bool
	Allowed              int64 // capacity, and refill of the run
	Admitted             int64 // by estimate, less what was given back
	Later                int64 // used beyond the estimates
	Debt                 int64 // the part of Later that the bucket did not hold
	Refused              int64 // asked for in vain
}

// used is what the bucket paid for.
func (l line) used() int64 { return l.Admitted + l.Later }

// lines are those of all buckets of a frame, up to now.
func (b *book) lines(f frame, now time.Time) []line {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []line
	for _, r := range f.Rows {
		for _, g := range r.Gauges {
			l := line{Entity: r.Entity, Model: r.Model, Limit: g.Limit.Name, Key: r.Key}
			refill := bucket.Accrued(b.start.UnixMilli(), now.UnixMilli(), rate(g.Limit))
			l.Allowed = bucket.Whole(bucket.Add(rate(g.Limit).Capacity, refill))
			if a := b.tally(r.Entity, r.Model).accounts[l.Limit]; a != nil {
				l.Admitted, l.Later, l.Refused = a.admitted-a.given, a.taken, a.refused
				l.Debt = bucket.Whole(a.owed + bucket.Milli - 1)
			}
			all = append(all, l)
		}
	}
	return all
}
