package bucket

import "math"

// Ledger checks a limiter's promise for one limit of one bucket: in every
// window that ends with an admission, consumption minus give-backs is at most
// the capacity plus the refill of the window.
//
// Times are in milliseconds: the bucket's own for a rate, and the caller's for a
// quota. A time before the previous one counts as the previous one. A refused
// request is no event, and a top-up is a give-back. Rates and amounts are
// thousandths, and results are clamped to int64. Each event takes constant time. A
// Ledger is not safe for concurrent use.
type Ledger struct {
	rate Rate
	at   int64
	// room is the smallest remaining allowance of all windows open at time at.
	// Between events the refill of every window grows by the same amount, so
	// one number represents all windows. It is math.MaxInt64 if none is open.
	room int64
}

// NewLedger returns a ledger without events.
func NewLedger(r Rate) *Ledger {
	return &Ledger{rate: r, at: math.MinInt64, room: math.MaxInt64}
}

// Admit records a conditional debit. It returns by how many thousandths the
// worst window that ends here exceeds its allowance; zero or less is correct.
func (l *Ledger) Admit(at, amount int64) (excess int64) {
	l.Take(at, amount)
	return Sub(0, l.room)
}

// AdmitLate records a conditional debit like Admit, for a caller that learns of a
// debit from the answer to its call. at is the time of the answer. The store made
// the debit before that, so give-backs that were recorded while the call was under
// way may have followed the debit. given is an upper bound of their sum: all
// give-backs since the start of the oldest call that is still under way.
//
// For example, a full bucket of 10 admits 10, gets them back, and admits 10 again.
// The answer to the first call arrives after the give-back was recorded. To Admit,
// this looks like a give-back to a full bucket, which adds nothing, and 20 admitted:
// 10 too many. AdmitLate, with 10 given for the first call, finds nothing wrong.
func (l *Ledger) AdmitLate(at, amount, given int64) (excess int64) {
	l.TakeLate(at, amount, given)
	return Sub(0, l.room)
}

// TakeLate records an unconditional debit like Take, at the time of its answer.
// The meaning of given is the same as for AdmitLate.
func (l *Ledger) TakeLate(at, amount, given int64) {
	// The window that begins with the debit contains the give-backs that were
	// recorded before, so it may allow more than the capacity.
	longer := l.rate
	longer.Capacity = Add(longer.Capacity, given)

	l.room = Advance(l.room, l.at, at, longer)
	l.at = max(l.at, at)

	l.room = Sub(l.room, amount)
}

// Take records an unconditional debit, such as a late adjustment. It counts as
// consumption, but ends no window.
func (l *Ledger) Take(at, amount int64) {
	l.open(at)
	l.room = Sub(l.room, amount)
}

// Give records a give-back. All of it reduces the consumption, even if the
// bucket was too full to keep it.
func (l *Ledger) Give(at, amount int64) {
	l.open(at)
	l.room = Add(l.room, amount)
}

// Change sets the rate that applies from at on. A higher capacity does not fill
// the bucket, except that the tokens of a quota move with its capacity. Another
// window leaves the tokens and belongs to the time of the change: a step that was
// due is not taken. If full is set, the bucket is full after the change, because it
// or the limit is new or was reset, and earlier windows do not count.
func (l *Ledger) Change(at int64, r Rate, full bool) {
	old := l.rate
	switch {
	case full:
		// A full bucket begins a new account: what earlier windows admitted
		// does not bound it.
		l.room = math.MaxInt64
	case old.Window != nil && old.Window != r.Window:
		// The tokens of a quota with other windows stay, at most what both
		// capacities hold.
		l.room = min(l.room, old.Capacity, r.Capacity)
	default:
		// The old rate applies up to the change.
		l.advance(at)
		if r.Window != nil && old.Window == r.Window {
			// The use stays, so the room moves by as much as the capacity. The
			// boundary adds the peak, as the bucket does.
			l.room = Add(l.room, Sub(r.Capacity, old.Capacity))
			r.Peak = max(l.rate.Peak, old.Capacity)
		}
	}

	l.rate = r
	if l.at = max(l.at, at); r.Window != nil && (full || old.Window != r.Window) {
		// A quota belongs to the window of the caller's time, even if that is
		// earlier.
		l.at = at
	}
}

// Full reports whether every window open at a time allows the capacity. A bucket
// that is full has such a ledger.
func (l *Ledger) Full(at int64) bool {
	return Advance(l.room, l.at, at, l.rate) >= l.rate.Capacity
}

// open advances to the time of an event and opens the window that starts with
// it. A new window allows at most the capacity.
func (l *Ledger) open(at int64) {
	l.advance(at)
	l.at = max(l.at, at)
}

// advance refills room up to a time. A boundary ends the peak of a window.
func (l *Ledger) advance(at int64) {
	l.room = Advance(l.room, l.at, at, l.rate)
	// The peak belongs to one window, which the boundary ends.
	if l.rate.Peak != 0 && l.rate.Window.Count(l.at, at) > 0 {
		l.rate.Peak = 0
	}
}
