package limiter

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// Status is one limit of one bucket, as the call left it.
type Status struct {
	Entity, Resource string // whose bucket it is
	Source           string // where the limit comes from: "override", "entity", "entity_default", "resource", "system" or "default"
	Limit            Limit  // as it is in force
	// Available is whole tokens, rounded down; negative is debt. Requested is
	// what the call asked for.
	Available, Requested int64
	Exceeded             bool          // it was asked for, and does not cover that
	NeverFits            bool          // Requested is above the capacity
	RetryAfter           time.Duration // above zero exactly when Exceeded; until full when NeverFits
	FullAfter            time.Duration // until the bucket is full if nothing more is taken
}

// Sources of limits that are stored nowhere.
const (
	sourceOverride = "override" // a request brought them
	sourceDefault  = "default"  // they are Options.Limits
)

// Deficit is how many tokens an exceeded limit lacks, else 0.
func (s Status) Deficit() int64 {
	if !s.Exceeded {
		return 0
	}
	return max(0, bucket.Sub(s.Requested, s.Available))
}

// Decision is the status of every limit a call concerned: those of the entity,
// then those of its parent, each by name. A refusal, a lease and an explanation
// share it.
type Decision struct {
	Statuses []Status // empty under an allowed outage
}

// Admitted tells whether no limit is exceeded.
func (d Decision) Admitted() bool { return len(d.Violations()) == 0 }

// NeverFits tells whether some amount is above its capacity.
func (d Decision) NeverFits() bool {
	for _, s := range d.Statuses {
		if s.NeverFits {
			return true
		}
	}
	return false
}

// Violations are the exceeded limits.
func (d Decision) Violations() []Status { return d.where(true) }

// Passed are the limits that are not exceeded.
func (d Decision) Passed() []Status { return d.where(false) }

func (d Decision) where(exceeded bool) []Status {
	var out []Status
	for _, s := range d.Statuses {
		if s.Exceeded == exceeded {
			out = append(out, s)
		}
	}
	return out
}

// Primary is the violation with the longest wait, the first of them on a tie;
// zero when admitted.
func (d Decision) Primary() Status {
	var longest Status
	for _, s := range d.Statuses {
		if s.Exceeded && s.RetryAfter > longest.RetryAfter {
			longest = s
		}
	}
	return longest
}

// RetryAfter is the longest wait, zero when admitted.
func (d Decision) RetryAfter() time.Duration { return d.Primary().RetryAfter }

// decide turns balances into statuses.
func decide(charge *Charge, out Outcome) Decision {
	d := Decision{Statuses: make([]Status, 0, len(out.Self.Tokens)+len(out.Parent.Tokens))}
	for _, b := range []Bucket{out.Self, out.Parent} {
		for i := range b.Tokens {
			d.Statuses = append(d.Statuses, status(charge, b, i, out.Admitted))
		}
	}
	if !out.Admitted && d.Admitted() {
		// The store refused though the balances it saw would do: it lost every
		// race for the bucket. What was asked for is what was refused.
		for i := range d.Statuses {
			s := &d.Statuses[i]
			if _, named := charge.Amounts.Lookup(s.Limit.Name); named {
				s.Exceeded, s.RetryAfter = true, time.Millisecond
			}
		}
	}
	return d
}

// status is limit i of b, exceeded if the call was refused and the limit is
// named but not covered.
func status(charge *Charge, b Bucket, i int, admitted bool) Status {
	limit, tokens := b.Account.Limits[i], b.Tokens[i]
	rate := limit.rate()
	s := Status{
		Entity: b.Account.Entity, Resource: b.Account.Resource, Source: b.Account.Source.Level(), Limit: limit,
		Available: bucket.Whole(tokens),
		FullAfter: b.after(bucket.Wait(bucket.Sub(rate.Capacity, tokens), rate)),
	}
	switch {
	case charge.Limits != nil:
		s.Source = sourceOverride
	case b.Account.Default:
		s.Source = sourceDefault
	}
	amount, named := charge.Amounts.Lookup(limit.Name)
	s.Requested = amount
	need := bucket.Thousandths(amount)
	if admitted || !named || tokens >= need {
		return s
	}
	s.Exceeded = true
	s.NeverFits = amount > limit.Capacity
	if s.NeverFits {
		s.RetryAfter = max(s.FullAfter, time.Millisecond)
	} else {
		s.RetryAfter = b.after(bucket.Wait(bucket.Sub(need, tokens), rate))
	}
	return s
}

// after is a wait that begins at the bucket's own time, counted from the now of
// the call; zero if there is nothing to wait for.
func (b Bucket) after(wait bucket.Millis) time.Duration {
	if wait.IsZero() {
		return 0
	}
	return time.Duration(bucket.Add(int64(b.Ahead), int64(wait.Duration())))
}
