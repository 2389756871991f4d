package bucket

import "math"

// Ledger checks a limiter's promise for one limit of one bucket: in every
// window that ends with an admission, what was consumed and taken, less what
// was given back, is at most the capacity plus the refill of the window.
//
// Times are the bucket's own, in milliseconds: a time before the last one
// counts as the last one. A refused request is no event. Rates and amounts are
// thousandths. Each event costs the same, however many there were. Beyond 64
// bits results stop at the border. A Ledger is not safe for concurrent use.
type Ledger struct {
	rate Rate
	at   int64
	// room is the least, over all windows open at time at, of what the window
	// allows less what was used in it. Between events every window's refill
	// grows alike, so the one with the least room stays that: one number stands
	// for all. With no window open it is the largest there is.
	room int64
}

// NewLedger is a ledger without events.
func NewLedger(r Rate) *Ledger {
	return &Ledger{rate: r, at: math.MinInt64, room: math.MaxInt64}
}

// Admit enters a conditional debit. It returns by how many thousandths the
// worst window that ends here exceeds what is allowed: zero or less is fine.
func (l *Ledger) Admit(at, amount int64) (excess int64) {
	l.Take(at, amount)
	return Sub(0, l.room)
}

// Take enters an unconditional debit, such as a late adjustment: it counts, but
// no window ends with it.
func (l *Ledger) Take(at, amount int64) {
	l.open(at)
	l.room = Sub(l.room, amount)
}

// Give enters what was given back: it counts against what was used, also where
// the bucket was too full to keep it.
func (l *Ledger) Give(at, amount int64) {
	l.open(at)
	l.room = Add(l.room, amount)
}

// Change puts another rate in force from at on; what accrued until then accrued
// by the old one, and a higher capacity does not fill the bucket. If the bucket
// was full after it, because it or the limit is new, earlier windows no longer
// count.
func (l *Ledger) Change(at int64, r Rate, full bool) {
	l.open(at)
	l.rate = r
	if full {
		l.room = math.MaxInt64
	}
}

// open moves to the time of an event and opens the window that begins with it:
// the bucket held no more than its capacity, whatever went before.
func (l *Ledger) open(at int64) {
	l.room = Advance(l.room, l.at, at, l.rate)
	l.at = max(l.at, at)
}
