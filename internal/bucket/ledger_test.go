package bucket_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

type entryKind int

const (
	admit entryKind = iota
	take
	give
	change
	replace // a change that leaves the bucket full
)

// entry is one event of a ledger. The rate applies after it.
type entry struct {
	kind       entryKind
	at, amount int64
	rate       bucket.Rate
}

// enter records the event. It returns the excess of an admission.
func (e entry) enter(l *bucket.Ledger) (excess int64) {
	switch e.kind {
	case admit:
		return l.Admit(e.at, e.amount)
	case take:
		l.Take(e.at, e.amount)
	case give:
		l.Give(e.at, e.amount)
	default:
		l.Change(e.at, e.rate, e.kind == replace)
	}
	return 0
}

// used returns what the event adds to the windows that contain it.
func (e entry) used() int64 {
	switch e.kind {
	case admit, take:
		return e.amount
	case give:
		return -e.amount
	}
	return 0
}

// history returns random events of everyday size, with clocks that sometimes go
// back. The first entry only holds the rate. Unless changes is set, every change
// of the rate fills the bucket.
func (s source) history(n int, changes bool) []entry {
	at, r := s.Int64N(2e12), s.everydayRate()
	all := []entry{{kind: replace, at: at, rate: r}}
	for range n {
		at += s.Int64N(3000) - 300
		e := entry{at: at, amount: s.Int64N(r.Capacity/2 + 2), rate: r}
		switch d := s.IntN(20); {
		case d < 12:
			e.kind = admit
		case d < 15:
			e.kind = take
		case d < 18:
			e.kind = give
		default:
			r = s.everydayRate()
			e.kind, e.amount, e.rate = replace, 0, r
			if changes && d == 18 {
				e.kind = change
			}
		}
		all = append(all, e)
	}
	return all
}

func (s source) everydayRate() bucket.Rate {
	return bucket.Rate{Capacity: 1 + s.Int64N(100_000), Amount: 1 + s.Int64N(100_000), Period: 1 + s.Int64N(60_000)}
}

// worst returns the largest excess of all windows that end with entry j. It adds
// each of them up.
func worst(all []entry, j int) int64 {
	used, refill := all[j].used(), int64(0)
	excess := used - all[j].rate.Capacity
	for i := j - 1; i >= 1; i-- {
		after, before := all[i].rate, all[i-1].rate
		refill += bucket.Accrued(ownTime(all, i), ownTime(all, i+1), after)
		used += all[i].used()
		if all[i].kind == replace {
			break
		}
		excess = max(excess, used-refill-min(after.Capacity, before.Capacity))
	}
	return excess
}

// ownTime returns the bucket's time at entry i.
func ownTime(all []entry, i int) int64 {
	at := all[1].at
	for _, e := range all[1 : i+1] {
		at = max(at, e.at)
	}
	return at
}

func TestLedgerFindsTheWorstOfAllWindows(t *testing.T) {
	s := newSource(t, 31)
	over, within := 0, 0
	for range 400 {
		all := s.history(1+s.IntN(60), true)
		l := bucket.NewLedger(all[0].rate)
		for j := 1; j < len(all); j++ {
			got := all[j].enter(l)
			if all[j].kind != admit {
				continue
			}
			want := worst(all, j)
			if got != want {
				t.Fatalf("entry %d of %+v: excess %d, want %d", j, all[:j+1], got, want)
			}
			if want > 0 {
				over++
			} else {
				within++
			}
		}
	}
	if over < 100 || within < 100 {
		t.Errorf("%d windows over and %d within: the histories show too little", over, within)
	}
}

// simulated is a bucket that refills with Advance.
type simulated struct{ bucket.State }

// fullAt returns the full bucket that the first event of a history creates.
func fullAt(all []entry) simulated {
	r := all[0].rate
	return simulated{stateOf(r.Capacity, all[1].at, r)}
}

func (b *simulated) advance(at int64) {
	b.Tokens = bucket.Advance(b.Tokens, b.At, at, b.Rate)
	b.At = max(b.At, at)
}

// apply applies an entry. It returns false for an admission that does not fit,
// which leaves the bucket and its time unchanged. A give-back stops at the
// capacity.
func (b *simulated) apply(e entry) bool {
	before := *b
	b.advance(e.at)
	switch e.kind {
	case admit:
		if b.Tokens < e.amount {
			*b = before
			return false
		}
		b.Tokens -= e.amount
	case take:
		b.Tokens -= e.amount
	case give:
		b.Tokens = min(b.Tokens+e.amount, b.Capacity)
	case change:
		b.Rate, b.Tokens = e.rate, min(b.Tokens, e.rate.Capacity)
	case replace:
		b.Rate, b.Tokens = e.rate, e.rate.Capacity
	}
	return true
}

func TestLedgerAcceptsAnHonestBucket(t *testing.T) {
	s := newSource(t, 32)
	admitted, refused := 0, 0
	for range 2000 {
		all := s.history(60, true)
		l, b := bucket.NewLedger(all[0].rate), fullAt(all)
		for _, e := range all[1:] {
			if !b.apply(e) {
				refused++
				continue
			}
			admitted++
			if excess := e.enter(l); excess > 0 {
				t.Fatalf("%+v of %+v: excess %d", e, all, excess)
			}
		}
	}
	if refused < 1000 || admitted < 1000 {
		t.Errorf("%d admitted, %d refused: the histories show too little", admitted, refused)
	}
}

// TestLedgerFindsEveryOvercharge uses buckets that start full and never reject a
// give-back. Their balance equals the room of the worst window, so the ledger
// must report every admission beyond it with the exact excess. Capacities are not
// raised, since the two numbers would then differ.
func TestLedgerFindsEveryOvercharge(t *testing.T) {
	s := newSource(t, 33)
	found := 0
	for range 2000 {
		all := s.history(40, false)
		l, b := bucket.NewLedger(all[0].rate), fullAt(all)
		for _, e := range all[1:] {
			b.advance(e.at)
			if e.kind == give {
				e.amount = min(e.amount, b.Capacity-b.Tokens)
			}
			short := e.amount - b.Tokens
			if !b.apply(e) { // admitted all the same
				b.Tokens -= e.amount
				found++
			}
			if excess := e.enter(l); e.kind == admit && excess != short {
				t.Fatalf("%+v of %+v: excess %d, want %d", e, all, excess, short)
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d overcharges", found)
	}
}

// TestLedgerFindsTwiceTheCapacity takes 1, waits until the bucket is full, and
// takes 99 and 100. The reference library admits that.
func TestLedgerFindsTwiceTheCapacity(t *testing.T) {
	l := bucket.NewLedger(perMinute)
	for _, e := range []struct{ at, amount, excess int64 }{
		{0, 1000, -99_000},
		{60_000, 99_000, -1000},
		{60_000, 100_000, 99_000},
	} {
		if got := l.Admit(e.at, e.amount); got != e.excess {
			t.Errorf("Admit(%d, %d) = %d, want %d", e.at, e.amount, got, e.excess)
		}
	}
}

func TestLedgerCountsDebtButEndsNoWindowWithIt(t *testing.T) {
	l := bucket.NewLedger(perMinute)
	l.Take(0, 150_000)
	l.Give(1, 20_000)
	if got := l.Admit(1, 0); got != 29_999 { // 1 thousandth has accrued, rounded down
		t.Errorf("in debt: excess %d", got)
	}
	if got := l.Admit(18_000, 0); got != 0 {
		t.Errorf("paid off: excess %d", got)
	}
}

func TestLedgerOfExtremes(t *testing.T) {
	everywhere(t, 3, func(v []int64, r bucket.Rate) {
		l := bucket.NewLedger(r)
		amount := positive(v[0])
		if got, want := l.Admit(v[1], amount), amount-r.Capacity; got != want {
			t.Fatalf("Admit(%d, %d) of %+v = %d, want %d", v[1], amount, r, got, want)
		}
		l.Give(v[2], amount)
		l.Change(v[2], r, true)
		if got, want := l.Admit(v[2], amount), amount-r.Capacity; got != want {
			t.Fatalf("after a change: Admit(%d, %d) of %+v = %d, want %d", v[2], amount, r, got, want)
		}
	})
}

func TestLateDebits(t *testing.T) {
	rate := bucket.RateOf(10, 10, time.Hour)
	l := bucket.NewLedger(rate)
	l.Admit(0, 10_000)
	l.Give(1, 10_000)
	if excess := l.Admit(2, 10_000); excess > 0 {
		t.Errorf("excess %d of what was given back before, want none", excess)
	}
	// The store made this debit before the give-back and answered after it.
	l = bucket.NewLedger(rate)
	l.Give(1, 10_000)
	l.AdmitLate(2, 10_000, 10_000)
	if excess := l.Admit(3, 10_000); excess > 0 {
		t.Errorf("excess %d after a late debit, want none", excess)
	}
	if excess := l.Admit(3, 1000); excess != 1000 {
		t.Errorf("excess %d, want the token above the give-back", excess)
	}
	l = bucket.NewLedger(rate)
	l.TakeLate(0, 4000, 0)
	if excess := l.AdmitLate(0, 7000, 0); excess != 1000 {
		t.Errorf("excess %d without a give-back, want 1000 as for Admit", excess)
	}
}
