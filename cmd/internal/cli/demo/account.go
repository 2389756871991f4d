package demo

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// account records the charges of one limit of one bucket in whole tokens, and
// checks that they never exceed the limit.
type account struct {
	ledger *bucket.Ledger
	// level is the state of the bucket when it last changed.
	level bucket.State

	// These are whole tokens: of admitted charges, given back and taken later, and
	// of refused calls.
	admitted, given, taken, refused int64
	// owed is the part of taken that the bucket did not hold, in thousandths.
	owed int64

	// checks counts the admissions that were checked, and broken those that
	// exceeded the limit. worst has the largest excess.
	checks, broken int
	worst          check

	escrow bool
	// recent holds the give-backs that pots may still hold, with escrow.
	recent []giveBack
}

// giveBack is a number of thousandths that was given back.
type giveBack struct{ at, tokens int64 }

// With escrow, a window may also spend what was given back up to three holds before
// it, and 3 % of the capacity. A hold lasts at most a second.
const (
	threeHolds   = 3000 // milliseconds
	slackPercent = 3
)

// open begins a window of the ledger that may also spend what pots hold. Without
// escrow, and for a quota, which escrow keeps exactly, it does nothing.
func (a *account) open(at int64) {
	if !a.escrow || a.level.Window != nil {
		return
	}

	a.recent = slices.DeleteFunc(a.recent, func(g giveBack) bool { return g.at < at-threeHolds })

	r := a.level.Rate
	r.Capacity += r.Capacity * slackPercent / 100
	for _, g := range a.recent {
		r.Capacity += g.tokens
	}

	a.ledger.Change(at, r, false)
}

// check is the result of checking one admission: the excess, in thousandths, of
// the worst window that ends with it.
type check struct {
	at     time.Time
	excess int64
}

// admit records a charge of n that left this many thousandths in the bucket.
func (a *account) admit(now time.Time, n, left int64) {
	a.admitted += n

	a.open(now.UnixMilli())
	a.level.Tokens, a.level.At = left, now.UnixMilli()
	c := check{now, a.ledger.Admit(now.UnixMilli(), bucket.Thousandths(n))}

	// The excess of a correct admission is below 0, so the first one sets the
	// worst.
	if a.checks++; a.checks == 1 || c.excess > a.worst.excess {
		a.worst = c
	}
	if c.excess > 0 {
		a.broken++
	}
}

// credit records that n was given back, or taken if n is negative.
func (a *account) credit(now time.Time, n int64) {
	at := now.UnixMilli()
	held := bucket.Advance(a.level.Tokens, a.level.At, at, a.level.Rate)
	// What a give-back adds beyond the capacity is lost, and the time of a bucket
	// never goes back.
	a.level.Tokens, a.level.At = min(bucket.Add(held, bucket.Thousandths(n)), a.level.Capacity), max(at, a.level.At)

	if n > 0 {
		a.given += n
		if a.escrow {
			a.recent = append(a.recent, giveBack{at, bucket.Thousandths(n)})
		}
		a.open(at)
		a.ledger.Give(at, bucket.Thousandths(n))
		return
	}

	// A bucket in debt holds nothing, so all of n is owed.
	a.taken -= n
	a.owed += max(0, bucket.Thousandths(-n)-max(0, held))

	// Pots of a bucket in debt still admit what they hold.
	if !a.escrow {
		a.ledger.Take(at, bucket.Thousandths(-n))
	}
}

// verdict is the result of all checks.
type verdict struct {
	limits, checks, broken int
	worst                  check
	entity, model, limit   string        // of the worst check
	at                     time.Duration // of the worst check, since the start
	escrow                 bool          // the store holds tokens
}

// verdict returns the result for all limits that admitted anything.
func (b *book) verdict() verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := verdict{escrow: b.escrow}

	for _, at := range buckets() {
		for _, limit := range []string{rpm, tpm, spend} {
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

// line is one limit of one bucket in the summary, in whole tokens or millionths of
// a dollar.
type line struct {
	Entity, Model, Limit string
	Key                  bool
	Allowed              int64 // capacity plus the refill of the run
	Admitted             int64 // by estimate, less what was given back
	Later                int64 // used beyond the estimates
	Debt                 int64 // the part of Later that the bucket did not hold
	Refused              int64 // requested by refused calls
}

// used returns the tokens that were used in total.
func (l line) used() int64 { return l.Admitted + l.Later }

// lines returns the summary of all buckets of a frame, up to now.
func (b *book) lines(f frame, now time.Time) []line {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []line
	for _, r := range f.Rows {
		for _, g := range r.Gauges {
			l := line{Entity: r.Entity, Model: r.Model, Limit: g.Limit.Name, Key: r.Key}

			rate := rules.RateOf(g.Limit)
			refill := bucket.Accrued(b.start.UnixMilli(), now.UnixMilli(), rate)
			l.Allowed = bucket.Whole(bucket.Add(rate.Capacity, refill))

			if a := b.tally(r.Entity, r.Model).accounts[l.Limit]; a != nil {
				l.Admitted, l.Later, l.Refused = a.admitted-a.given, a.taken, a.refused
				// A part of a token is debt, too, so the number is rounded up.
				l.Debt = bucket.Whole(a.owed + bucket.Milli - 1)
			}

			all = append(all, l)
		}
	}
	return all
}
