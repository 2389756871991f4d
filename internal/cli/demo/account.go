package demo

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// account is what one limit of one bucket was charged, in whole tokens, and the
// check that it was not too much.
type account struct {
	ledger                          *bucket.Ledger
	admitted, given, taken, refused int64
	checks, broken                  int   // admissions checked, and those that were too much
	worst                           check // the one with the largest excess
}

// check is what the ledger said of one admission: by how many thousandths the
// worst window that ends with it exceeds what is allowed.
type check struct {
	at     time.Time
	excess int64
}

func (a *account) admit(now time.Time, n int64) {
	a.admitted += n
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
	if n > 0 {
		a.given += n
		a.ledger.Give(now.UnixMilli(), bucket.Thousandths(n))
		return
	}
	a.taken -= n
	a.ledger.Take(now.UnixMilli(), bucket.Thousandths(-n))
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

// line is one limit of one bucket in the summary, in whole tokens. Allowed is
// the capacity and what refilled during the run.
type line struct {
	Entity, Model, Limit                     string
	Key                                      bool
	Allowed, Admitted, Refused, Given, Taken int64
}

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
				l.Admitted, l.Refused, l.Given, l.Taken = a.admitted-a.given, a.refused, a.given, a.taken
			}
			all = append(all, l)
		}
	}
	return all
}
