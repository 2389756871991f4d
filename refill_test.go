package limiter_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// thousandths returns the balance of a limit in an entity's bucket, in
// thousandths.
func (w *world) thousandths(t *testing.T, entity, limit string) int64 {
	t.Helper()
	for _, b := range collect(
		t, w.store.Buckets(bg, w.clock.now(), limiter.Scope{Entity: entity, Resource: resource}),
	) {
		for i, l := range b.Account.Limits {
			if l.Name == limit {
				return b.Tokens[i]
			}
		}
	}
	t.Fatalf("%s has no bucket with limit %s", entity, limit)
	return 0
}

// accrued returns floor(to*Refill/Period) - floor(from*Refill/Period) in
// thousandths.
func accrued(l limiter.Limit, from, to time.Time) int64 {
	at := func(t time.Time) int64 {
		n := new(big.Int).Mul(big.NewInt(t.UnixMilli()), big.NewInt(l.Refill*1000))
		return n.Div(n, big.NewInt(l.Period.Milliseconds())).Int64()
	}
	return at(to) - at(from)
}

// TestTwiceTheCapacityNeverGetsThrough checks that no instant admits twice the
// capacity, as the third case does in the reference.
func TestTwiceTheCapacityNeverGetsThrough(t *testing.T) {
	t.Run("B-32 acquires", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 100))
		w.take(t, alice, rpm(1))
		w.clock.pass(60 * time.Second)
		w.take(t, alice, rpm(99))
		ex := w.refuse(t, rpm(100))
		if p := ex.Primary(); p.Available != 1 || p.RetryAfter != 59_401*time.Millisecond {
			t.Errorf("refused with %d left and a wait of %v", p.Available, p.RetryAfter)
		}
	})
	t.Run("B-32 late adjustment", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 100))
		lease := w.take(t, alice, rpm(1))
		w.clock.pass(60 * time.Second)
		check(t, lease.Adjust(rpm(99)))
		check(t, lease.Commit(bg))
		w.refuse(t, rpm(100))
		w.take(t, alice, rpm(1))
	})
	t.Run("B-32 long idle", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 100))
		w.take(t, alice, rpm(1))
		w.clock.pass(1000 * time.Hour)
		w.take(t, alice, rpm(100))
		w.refuse(t, rpm(1))
	})
}

// TestRefillDoesNotDependOnHowOftenItIsWritten checks that the refill of a bucket
// does not depend on the number of writes.
func TestRefillDoesNotDependOnHowOftenItIsWritten(t *testing.T) {
	fast := limiter.PerSecond("fast", 1_000_000)
	for _, c := range []struct {
		name  string
		limit limiter.Limit
		step  time.Duration
		steps int
	}{
		{"B-1 a slow limit beside a busy one", limiter.PerDay("x", 100), 500 * time.Millisecond, 400},
		{"5 ten a day beside one a second", limiter.PerDay("x", 10), time.Second, 3600},
		{"B-3 a write each millisecond", limiter.PerMinute("x", 100_000), time.Millisecond, 1000},
		{"B-3 an inexact rate", limiter.PerMinute("x", 7), 8 * time.Millisecond, 5000},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t, fast, c.limit)
			w.clock.pass(123 * time.Millisecond) // not on a boundary
			w.take(t, alice, limiter.Tokens("x", c.limit.Capacity))
			from := w.clock.now()
			for range c.steps {
				w.clock.pass(c.step)
				w.take(t, alice, limiter.Tokens("fast", 1))
			}
			got, want := w.thousandths(t, alice, "x"), accrued(c.limit, from, w.clock.now())
			if got != want || want == 0 {
				t.Errorf("%d thousandths accrued, want %d", got, want)
			}
		})
	}
}

// TestSkewedClocksMintNothing covers row B-2 of docs/defects.md: clocks that
// disagree do not count a refill twice.
func TestSkewedClocksMintNothing(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	slow := newLimiter(t, w.store, &limiter.Options{Now: func() time.Time {
		return w.clock.now().Add(-30 * time.Second)
	}})
	w.take(t, alice, rpm(100))
	for range 20 {
		lease, err := slow.Acquire(bg, request(alice, rpm(0))) // a write at the earlier time
		check(t, err)
		check(t, lease.Commit(bg))
		w.wantLeft(t, alice, "rpm", 0)
	}
	_, err := slow.Acquire(bg, request(alice, rpm(1)))
	exceeded(t, err)

	// A clock that is ahead brings its refill forward once.
	fast := newLimiter(t, w.store, &limiter.Options{Now: func() time.Time {
		return w.clock.now().Add(30 * time.Second)
	}})
	_, err = fast.Acquire(bg, request(alice, rpm(50)))
	check(t, err)
	w.refuse(t, rpm(1))
	w.clock.pass(30 * time.Second)
	w.refuse(t, rpm(1))
	w.clock.pass(30 * time.Second)
	w.take(t, alice, rpm(50))
	w.refuse(t, rpm(1))
}

// TestOneNowForEachCall covers row 4 of docs/defects.md: refill and charge use
// the same time, so no refill is lost between them.
func TestOneNowForEachCall(t *testing.T) {
	reads := 0
	at := noon
	now := func() time.Time { // each call takes 100 ms
		reads++
		at = at.Add(100 * time.Millisecond)
		return at
	}
	limit := limiter.PerMinute("rpm", 600)
	w := startWith(t, limiter.Options{Now: now}, memory.Options{}, limit)
	lease := w.take(t, alice, rpm(600))
	from := at
	for range 100 {
		reads = 0
		w.take(t, alice, rpm(0))
		if reads != 1 {
			t.Fatalf("Acquire read the clock %d times", reads)
		}
	}
	reads = 0
	check(t, lease.Adjust(rpm(1)))
	check(t, lease.Flush(bg))
	check(t, lease.Adjust(rpm(-1)))
	check(t, lease.Commit(bg))
	if reads != 2 {
		t.Errorf("a flush and a commit read the clock %d times", reads)
	}
	w.clock.at = at
	if got, want := w.thousandths(t, alice, "rpm"), accrued(limit, from, at); got != want {
		t.Errorf("%d thousandths, want all %d since the first acquire", got, want)
	}
}

// TestDebtIsPaidBeforeAnythingIsAdmitted covers row B-26 of docs/defects.md: debt
// is repaid before a charge is admitted, and refill and give-back together stop
// at the capacity.
func TestDebtIsPaidBeforeAnythingIsAdmitted(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	lease := w.take(t, alice, rpm(10))
	check(t, lease.Adjust(rpm(190)))
	check(t, lease.Commit(bg))
	w.wantLeft(t, alice, "rpm", -100)

	w.clock.pass(6 * time.Second) // 10 come back
	ex := w.refuse(t, rpm(5))
	if p := ex.Primary(); p.Available != -90 || p.Deficit() != 95 || p.RetryAfter != 57_001*time.Millisecond {
		t.Errorf("refused with %d left, deficit %d, wait %v", p.Available, p.Deficit(), p.RetryAfter)
	}
	w.clock.pass(57 * time.Second)
	w.take(t, alice, rpm(5))
	w.refuse(t, rpm(1))
}

func TestTimeIsKeptInWholeMillisecondsTruncated(t *testing.T) {
	w := start(t, limiter.PerSecond("rps", 1000)) // one a millisecond
	one := func(n int64) limiter.Amounts { return limiter.Tokens("rps", n) }
	w.take(t, alice, one(1000))
	w.clock.pass(999_999 * time.Nanosecond)
	w.refuse(t, one(1))
	w.clock.pass(time.Nanosecond)
	w.take(t, alice, one(1))
}
