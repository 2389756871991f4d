package bucket_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the tests use zones on every machine

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// quotaBucket is a quota that stores the start of its window, as stores do.
type quotaBucket struct {
	capacity, tokens, start int64
	peak                    int64 // the largest capacity of the window, if it was lowered
	window                  *calendar.Window
}

// step takes the steps that are due at now.
func (b *quotaBucket) step(now int64) {
	for n := b.window.Count(b.start, now); n > 0; n-- {
		used := b.capacity - b.tokens
		carried := max(0, used-max(b.peak, b.capacity))
		b.tokens, b.peak = b.capacity-carried, 0
		if carried == 0 {
			break
		}
	}
	b.start = max(b.start, b.window.Start(now))
}

func (b *quotaBucket) rate() bucket.Rate {
	return bucket.Rate{Capacity: b.capacity, Window: b.window}
}

// windows returns some windows whose boundaries the times of quotaTimes cross.
func windows(t *testing.T) (all []*calendar.Window) {
	t.Helper()
	for _, c := range []struct {
		unit calendar.Unit
		zone string
	}{
		{calendar.Hour, ""},
		{calendar.Day, ""},
		{calendar.Day, "Europe/Berlin"},
		{calendar.Day, "Pacific/Apia"},
		{calendar.Week, "America/Santiago"},
		{calendar.Month, ""},
		{calendar.Month, "Asia/Kolkata"},
		{calendar.Year, "America/Havana"},
	} {
		w, err := calendar.Load(c.unit, c.zone)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

// quotaEvent is one event of a history of quotas.
type quotaEvent struct {
	what   string
	at     int64
	amount int64
}

// quotaEvents returns events at times close to boundaries, with clocks that differ
// by seconds, around changes of clocks, month ends and a leap day.
func (s source) quotaEvents(w *calendar.Window, n int) (all []quotaEvent) {
	begins := []time.Time{
		time.Date(2011, 12, 28, 0, 0, 0, 0, time.UTC), time.Date(2019, 11, 2, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC), time.Date(2028, 2, 27, 0, 0, 0, 0, time.UTC),
	}
	at := begins[s.IntN(len(begins))].UnixMilli()
	for range n {
		switch s.IntN(12) {
		case 0: // close to the next boundary, before or after it
			at = w.End(at) + s.Int64N(4000) - 2000
		case 1:
			at += s.Int64N(40 * 24 * time.Hour.Milliseconds())
		default:
			at += s.Int64N(3000)
		}
		what := []string{
			"admit", "admit", "admit", "admit", "admit", "take", "give", "give", "resize", "reset", "rewindow",
		}[s.IntN(11)]
		all = append(all, quotaEvent{what, at + s.Int64N(4000) - 2000, s.Int64N(60_000)})
	}
	return all
}

// enter applies an event to the bucket, which admits whatever it is asked, and to
// its ledger. It returns by how much an admission exceeds the tokens, and by how
// much it does according to the ledger.
func (b *quotaBucket) enter(e quotaEvent, l *bucket.Ledger, next *calendar.Window) (short, excess int64) {
	switch e.what {
	case "resize":
		b.step(e.at)
		before := b.capacity
		b.capacity = e.amount + 1
		b.tokens += b.capacity - before
		b.peak = max(b.peak, before)
		l.Change(e.at, b.rate(), false)
		return 0, 0
	case "reset":
		b.tokens, b.peak, b.start = b.capacity, 0, b.window.Start(e.at) // also back
		l.Change(e.at, b.rate(), true)
		return 0, 0
	case "rewindow":
		if b.window != next {
			b.window, b.start, b.peak = next, next.Start(e.at), 0
			l.Change(e.at, b.rate(), false)
		}
		return 0, 0
	}
	b.step(e.at)
	switch e.what {
	case "give":
		e.amount = min(e.amount, b.capacity-b.tokens)
		b.tokens += e.amount
		l.Give(e.at, e.amount)
	case "take":
		b.tokens -= e.amount
		l.Take(e.at, e.amount)
	default:
		short = e.amount - b.tokens
		b.tokens -= e.amount
		excess = l.Admit(e.at, e.amount)
	}
	return short, excess
}

// TestLedgerKnowsQuotas compares the excess of every admission with the tokens that
// a bucket lacked which never rejects a give-back.
func TestLedgerKnowsQuotas(t *testing.T) {
	s := newSource(t, 41)
	all := windows(t)
	over, within := 0, 0
	for range 2000 {
		w := all[s.IntN(len(all))]
		events := s.quotaEvents(w, 60)
		b := quotaBucket{capacity: 50_000, tokens: 50_000, start: w.Start(events[0].at), window: w}
		l := bucket.NewLedger(b.rate())
		l.Change(events[0].at, b.rate(), true)
		for i, e := range events {
			next := b.window
			if s.IntN(3) == 0 {
				next = all[s.IntN(len(all))]
			}
			short, excess := b.enter(e, l, next)
			if short != excess {
				t.Fatalf("event %d of %+v: excess %d, want %d", i, events[:i+1], excess, short)
			}
			if e.what == "admit" && excess > 0 {
				over++
			} else if e.what == "admit" {
				within++
			}
		}
	}
	if over < 1000 || within < 1000 {
		t.Errorf("%d over and %d within: the histories show too little", over, within)
	}
}

// TestLedgerAcceptsAnHonestQuota lets give-backs stop at the capacity.
func TestLedgerAcceptsAnHonestQuota(t *testing.T) {
	s := newSource(t, 42)
	all := windows(t)
	admitted := 0
	for range 1000 {
		w := all[s.IntN(len(all))]
		events := s.quotaEvents(w, 60)
		b := quotaBucket{capacity: 50_000, tokens: 50_000, start: w.Start(events[0].at), window: w}
		l := bucket.NewLedger(b.rate())
		for i, e := range events {
			before := b
			if b.step(e.at); e.what == "admit" && b.tokens < e.amount {
				b = before // refused
				continue
			}
			b = before
			if e.what == "give" {
				l.Give(e.at, 2*e.amount) // more than the bucket keeps
			}
			if _, excess := b.enter(e, l, all[s.IntN(len(all))]); excess > 0 {
				t.Fatalf("event %d of %+v: excess %d", i, events[:i+1], excess)
			}
			admitted++
		}
	}
	if admitted < 10_000 {
		t.Errorf("only %d events", admitted)
	}
}

// TestLedgerFindsAWindowThatCountsTwice spends a window, goes on with the clocks of
// a change that repeats an hour, and spends it again.
func TestLedgerFindsAWindowThatCountsTwice(t *testing.T) {
	berlin, err := calendar.Load(calendar.Day, "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	l := bucket.NewLedger(bucket.Rate{Capacity: 100_000, Window: berlin})
	at := func(hour int) int64 { return time.Date(2026, 10, 24, hour, 0, 0, 0, time.UTC).UnixMilli() }
	for _, c := range []struct{ at, amount, excess int64 }{
		{at(22), 100_000, 0},      // the day begins
		{at(22 + 23), 1000, 1000}, // its first midnight is 25 hours later
		{at(22 + 24), 0, 1000},    // so 24 hours are not enough
		{at(22 + 25), 99_000, 0},  // it paid the debt
		{at(22 + 48), 1000, 1000}, // a day of 24 hours goes on
		{at(22 + 49), 99_000, 0},  // and ends
		{at(22 + 30), 1000, 1000}, // a clock that goes back is in the last window
		{at(22 + 49 + 48), 1000, -99_000},
	} {
		if got := l.Admit(c.at, c.amount); got != c.excess {
			t.Errorf("Admit(%s, %d) = %d, want %d", time.UnixMilli(c.at).UTC(), c.amount, got, c.excess)
		}
	}
}

// A capacity that goes down and up leaves what was used. Only what was used above
// the largest capacity of a window is carried into the next one.
func TestLedgerCarriesWhatIsAboveThePeak(t *testing.T) {
	day, err := calendar.Load(calendar.Day, "")
	if err != nil {
		t.Fatal(err)
	}
	rate := func(n int64) bucket.Rate { return bucket.Rate{Capacity: n, Window: day} }
	const next = 24 * 3600 * 1000
	for _, c := range []struct {
		name             string
		taken, given     int64
		capacities       []int64
		left, afterwards int64
	}{
		{"lowered below its use", 100, 0, []int64{50}, -50, 50},
		{"down and up", 90, 0, []int64{50, 70, 100}, 10, 100},
		{"raised", 30, 0, []int64{150}, 120, 150},
		{"given back", 100, 40, []int64{50}, -10, 50},
		{"debt", 130, 0, []int64{50}, -80, 20},
		{"debt of a raised quota", 130, 0, []int64{120}, -10, 110},
	} {
		l := bucket.NewLedger(rate(100))
		l.Take(0, c.taken)
		for _, n := range c.capacities {
			l.Change(0, rate(n), false)
		}
		l.Give(0, c.given)
		if got := -l.Admit(0, 0); got != c.left {
			t.Errorf("%s: %d left, want %d", c.name, got, c.left)
		}
		if got := -l.Admit(next, 0); got != c.afterwards {
			t.Errorf("%s: %d left in the next window, want %d", c.name, got, c.afterwards)
		}
	}
}
