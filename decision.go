package limiter

import (
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// Status describes one limit of one bucket after a call.
type Status struct {
	Entity, Resource string // the bucket
	// Source is the origin of the limit: "override", "entity", "entity_default",
	// "resource", "system" or "default".
	Source string
	Limit  Limit // the limit in force
	// Available is the balance in whole tokens, rounded down; negative is debt.
	// Requested is the amount that the call asked for.
	Available, Requested int64
	Exceeded             bool          // the call named the limit, and it does not cover the amount
	WouldRefuse          bool          // the same, for a shadow limit, which does not refuse
	NeverFits            bool          // Requested is above the capacity
	RetryAfter           time.Duration // above zero exactly if Exceeded; until full if NeverFits
	FullAfter            time.Duration // time until the bucket is full if nothing more is taken
	// WindowStart and WindowEnd bound the window that a quota's tokens belong to;
	// zero for a rate.
	WindowStart, WindowEnd time.Time
	WindowLeft             time.Duration // time until WindowEnd
}

// Sources of limits that no level stores.
const (
	sourceOverride = "override" // Request.Limits
	sourceDefault  = "default"  // Options.Limits
)

// Deficit returns the number of tokens that an exceeded limit lacks, or 0 if it is
// not exceeded.
func (s Status) Deficit() int64 {
	if !s.Exceeded {
		return 0
	}
	return max(0, bucket.Sub(s.Requested, s.Available))
}

// Decision holds the status of every limit that a call concerned. The limits of
// the entity come first, then those of its parent and of each further ancestor that
// pays, each ordered by name.
type Decision struct {
	Statuses []Status // empty if an outage was allowed
}

// Admitted reports whether every limit was satisfied.
func (d Decision) Admitted() bool { return len(d.Violations()) == 0 }

// NeverFits reports whether an amount is above its capacity, so that waiting does
// not help.
func (d Decision) NeverFits() bool {
	for _, s := range d.Statuses {
		if s.NeverFits {
			return true
		}
	}
	return false
}

// Violations returns the exceeded limits.
func (d Decision) Violations() []Status { return d.filter(true) }

// Passed returns the limits that are not exceeded.
func (d Decision) Passed() []Status { return d.filter(false) }

func (d Decision) filter(exceeded bool) []Status {
	var out []Status
	for _, s := range d.Statuses {
		if s.Exceeded == exceeded {
			out = append(out, s)
		}
	}
	return out
}

// Primary returns the violation with the longest wait, and the first one on a
// tie. It returns the zero Status if there is no violation.
func (d Decision) Primary() Status {
	var longest Status
	for _, s := range d.Statuses {
		if s.Exceeded && s.RetryAfter > longest.RetryAfter {
			longest = s
		}
	}
	return longest
}

// RetryAfter returns the longest wait, or 0 if there is no violation.
func (d Decision) RetryAfter() time.Duration { return d.Primary().RetryAfter }

// newDecision computes the statuses from the balances of out.
func newDecision(charge *Charge, out Outcome) Decision {
	n := 0
	for _, b := range out.Payers {
		n += len(b.Tokens)
	}

	d := Decision{Statuses: make([]Status, 0, n)}
	// The limits of ancestors follow the entity's: Decision promises this order.
	for level, b := range out.Payers {
		judged := charge
		// The limits of a call replace those of the entity and its parent alone.
		if level > 1 && charge.Limits != nil {
			stored := *charge
			stored.Limits, judged = nil, &stored
		}
		for i := range b.Tokens {
			d.Statuses = append(d.Statuses, newStatus(judged, b, i, out.Admitted))
		}
	}

	if !out.Admitted && d.Admitted() {
		// The balances suffice, but the store lost every race for the bucket.
		// Report the requested limits as exceeded.
		for i := range d.Statuses {
			s := &d.Statuses[i]
			if _, named := charge.Amounts.Lookup(s.Limit.Name); named && (charge.Strict || !s.Limit.IsShadow) {
				s.Exceeded, s.RetryAfter = true, time.Millisecond
			}
		}
	}
	return d
}

// newStatus returns the status of limit i of b. The limit is exceeded if the call
// was refused and the limit does not cover its amount. A shadow limit would refuse
// if it was spared, or if it does not cover the amount of a refused call.
func newStatus(charge *Charge, b Bucket, i int, admitted bool) Status {
	limit, tokens := b.Account.Limits[i], b.Tokens[i]
	rate := limit.rate()
	if d := b.Detail; d != nil && i < len(d.Peaks) {
		rate.Peak = d.Peaks[i]
	}

	s := Status{
		Entity: b.Account.Entity, Resource: b.Account.Resource, Source: b.Account.Source.Level(), Limit: limit,
		Available: bucket.Whole(tokens), FullAfter: b.wait(i, bucket.Sub(rate.Capacity, tokens), rate),
	}

	if rate.Window != nil {
		b.setWindow(i, rate.Window, &s)
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
	// A shadow limit does not refuse: its verdict is for operators.
	if limit.IsShadow && !charge.Strict {
		s.WouldRefuse = b.spares(i) || !admitted && named && tokens < need
		return s
	}

	if admitted || !named || tokens >= need {
		return s
	}

	s.Exceeded = true
	s.NeverFits = amount > limit.Capacity
	// RetryAfter is above 0 exactly if the limit is exceeded, even if the
	// bucket is full.
	if s.NeverFits {
		s.RetryAfter = max(s.FullAfter, time.Millisecond)
	} else {
		s.RetryAfter = b.wait(i, bucket.Sub(need, tokens), rate)
	}
	return s
}

// setWindow sets the window that the tokens of quota i belong to.
func (b Bucket) setWindow(i int, window *calendar.Window, s *Status) {
	at := b.position(i)
	s.WindowStart, s.WindowEnd = time.UnixMilli(window.Start(at)).UTC(), time.UnixMilli(window.End(at)).UTC()
	if b.Detail != nil {
		s.WindowLeft = s.WindowEnd.Sub(time.UnixMilli(b.Detail.At))
	}
}

// Statuses returns the status of each limit of a bucket that the store listed, in
// the order of Account.Limits. Its Source is the level of Account.Source.
func (b Bucket) Statuses() []Status {
	all := make([]Status, len(b.Tokens))
	for i := range all {
		all[i] = newStatus(&Charge{}, b, i, true)
	}
	return all
}

// wait returns how long after the call limit i has gained deficit, and 0 if that
// is not positive. The refill of a rate starts at the bucket's own time.
func (b Bucket) wait(i int, deficit int64, rate bucket.Rate) time.Duration {
	if rate.Window == nil {
		wait := bucket.Wait(deficit, rate)
		if wait.IsZero() {
			return 0
		}
		return time.Duration(bucket.Add(int64(b.Ahead), int64(wait.Duration())))
	}

	at := b.position(i)
	wait := bucket.WaitAt(deficit, at, rate)
	// Every store sets Detail for a quota. Without it the wait counts from the window.
	if wait.IsZero() || b.Detail == nil {
		return wait.Duration()
	}

	// A clock that is ahead may have begun the window after now.
	begin := time.UnixMilli(at).Sub(time.UnixMilli(b.Detail.At))
	return time.Duration(bucket.Add(int64(begin), int64(wait.Duration())))
}

// position returns a time in the window that the tokens of quota i belong to: the
// time of the call, or the start of a later window.
func (b Bucket) position(i int) int64 {
	if d := b.Detail; d != nil && i < len(d.Starts) {
		return max(d.At, d.Starts[i])
	}
	return 0
}

// spares reports whether the charge spared limit i.
func (b Bucket) spares(i int) bool {
	return b.Detail != nil && i < len(b.Detail.Spared) && b.Detail.Spared[i]
}
