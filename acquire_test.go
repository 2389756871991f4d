package limiter_test

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

func TestAcquireTakesEverythingOrNothing(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 1000))
	w.take(t, alice, rpm(4).And("tpm", 900))
	w.refuse(t, rpm(1).And("tpm", 101))
	w.wantLeft(t, alice, "rpm", 6)
	w.wantLeft(t, alice, "tpm", 100)
	w.take(t, alice, tpm(100).And("rpm", 6)) // exactly what is left
	w.refuse(t, rpm(1))
}

func TestAcquireStartsFullAndIsStoredWhenItReturns(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.take(t, alice, rpm(7)) // abandoned
	w.wantLeft(t, alice, "rpm", 3)
	w.clock.pass(6 * time.Second)
	w.wantLeft(t, alice, "rpm", 4) // the refill makes up for the abandoned lease
}

// TestRequestAboveTheCapacityNeverFits covers row B-9 of docs/defects.md: waiting
// for more than the capacity never ends.
func TestRequestAboveTheCapacityNeverFits(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 1000))
	w.take(t, alice, rpm(100))
	for _, c := range []struct {
		name  string
		ask   limiter.Amounts
		never bool
		wait  time.Duration
	}{
		{"B-9 above", rpm(101), true, 60_001 * time.Millisecond}, // until full
		{"B-9 the capacity itself", rpm(100), false, 60_001 * time.Millisecond},
		{"B-9 one of two above", rpm(1).And("tpm", 1001), true, 601 * time.Millisecond},
		{"B-9 the largest number", rpm(math.MaxInt64), true, 60_001 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.Acquire(bg, request(alice, c.ask))
			ex := exceeded(t, err)
			if c.never {
				is(t, err, limiter.ErrNeverFits)
			}
			if ex.NeverFits() != c.never || ex.RetryAfter() != c.wait {
				t.Errorf("never fits %t, retry after %v; want %t, %v", ex.NeverFits(), ex.RetryAfter(), c.never, c.wait)
			}
			_, err = w.TimeUntil(bg, request(alice, c.ask))
			if c.never {
				is(t, err, limiter.ErrNeverFits)
			} else {
				check(t, err)
			}
		})
	}
	_, err := w.TimeUntil(bg, request("new-key", rpm(101))) // a missing bucket
	is(t, err, limiter.ErrNeverFits)
}

// TestAmountsAreChecked covers row B-8 of docs/defects.md: wrong amounts are
// refused, not ignored.
func TestAmountsAreChecked(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	for _, c := range []struct {
		name, field string
		req         limiter.Request
	}{
		{"B-8 a negative amount does not mint", "consume", request(alice, rpm(-5))},
		{"B-8 an unknown name does not disable limiting", "consume", request(alice, limiter.Tokens("rmp", 5))},
		{"B-8 an unknown name beside a known one", "consume", request(alice, rpm(1).And("tpm", 5))},
		{"B-8 nothing asked for", "consume", request(alice, limiter.Amounts{})},
		{"B-8 an empty override does not admit for free", "limits", limiter.Request{
			Entity: alice, Resource: resource, Consume: rpm(1), Limits: []limiter.Limit{},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := w.Acquire(bg, c.req)
			invalid(t, err, c.field)
			if n := w.buckets(t, alice); n != 0 {
				t.Error("a bucket was made")
			}
		})
	}
}

// TestZeroMeansNotInDebt covers row 33 of docs/defects.md: an amount of 0 is
// allowed and requires that the limit is not in debt.
func TestZeroMeansNotInDebt(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 100))
	lease := w.take(t, alice, rpm(60).And("tpm", 0))
	w.take(t, alice, rpm(0)) // an empty bucket is not in debt
	check(t, lease.Adjust(rpm(1)))
	check(t, lease.Commit(bg))

	ex := w.refuse(t, rpm(0).And("tpm", 1))
	if p := ex.Primary(); p.Limit.Name != "rpm" || p.Available != -1 || p.Requested != 0 || p.Deficit() != 1 {
		t.Errorf("refused by %+v", p)
	}
	w.wantLeft(t, alice, "tpm", 100)
	w.clock.pass(time.Second)
	w.take(t, alice, rpm(0).And("tpm", 1))
}

// TestOnlyNamedLimitsRefuse covers row B-14 of docs/defects.md: only named limits
// are checked, and all limits are reported.
func TestOnlyNamedLimitsRefuse(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 100))
	lease := w.take(t, alice, tpm(100))
	check(t, lease.Adjust(tpm(500)))
	check(t, lease.Commit(bg))

	w.take(t, alice, rpm(1)) // tpm is in debt, but not named
	ex := w.refuse(t, rpm(10))
	want := limiter.Decision{Statuses: []limiter.Status{
		{
			Entity: alice, Resource: resource, Source: "system", Limit: limiter.PerMinute("rpm", 10), Available: 9,
			Requested: 10,
			Exceeded:  true, RetryAfter: 6001 * time.Millisecond, FullAfter: 6001 * time.Millisecond,
		},
		{
			Entity: alice, Resource: resource, Source: "system", Limit: limiter.PerMinute("tpm", 100), Available: -500,
			FullAfter: 360_001 * time.Millisecond,
		},
	}}
	if diff := cmp.Diff(want, ex); diff != "" {
		t.Error(diff)
	}
}

func TestLeaseDecisionIsTheStateAfterAcquire(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 100))
	got := w.take(t, alice, rpm(10)).Decision()
	want := limiter.Decision{Statuses: []limiter.Status{
		{
			Entity: alice, Resource: resource, Source: "system", Limit: limiter.PerMinute("rpm", 10), Requested: 10,
			FullAfter: 60_001 * time.Millisecond,
		},
		{Entity: alice, Resource: resource, Source: "system", Limit: limiter.PerMinute("tpm", 100), Available: 100},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !got.Admitted() || got.RetryAfter() != 0 || got.NeverFits() {
		t.Error("an admission reads like a refusal")
	}
}

func TestConcurrentAcquiresNeverOverdraw(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 50))
	check(t, w.SetLimits(bg, project, "", limiter.PerDay("rpm", 70)))
	for _, e := range []string{alice, "bob"} {
		_, err := w.CreateEntity(bg, limiter.Entity{ID: e, Parent: project, Cascade: true})
		check(t, err)
	}
	var admitted [2]atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for range 20 {
				if _, err := w.Acquire(bg, request([]string{alice, "bob"}[g%2], rpm(1))); err == nil {
					admitted[g%2].Add(1)
				}
			}
		})
	}
	wg.Wait()
	a, b := admitted[0].Load(), admitted[1].Load()
	if a+b != 70 || a > 50 || b > 50 {
		t.Errorf("admitted %d and %d, want 70 together and at most 50 each", a, b)
	}
	w.wantLeft(t, project, "rpm", 0)
	w.wantLeft(t, alice, "rpm", 50-a)
	w.wantLeft(t, "bob", "rpm", 50-b)
}

// TestRequestIsNotKept checks that neither the limiter nor the lease keeps the
// slices of a request.
func TestRequestIsNotKept(t *testing.T) {
	w := start(t)
	limits := []limiter.Limit{limiter.PerMinute("z", 10), limiter.PerMinute("a", 10)}
	lease, err := w.Acquire(bg, limiter.Request{
		Entity: alice, Resource: resource, Consume: limiter.Tokens("z", 1), Limits: limits,
	})
	check(t, err)
	if limits[0].Name != "z" {
		t.Error("the limits of the request were sorted in place")
	}
	limits[0], limits[1] = limiter.PerMinute("other", 1), limiter.PerMinute("b", 1)
	check(t, lease.Consume(bg, limiter.Tokens("z", 9)))
	exceeded(t, lease.Consume(bg, limiter.Tokens("z", 1)))
	if s := lease.Decision().Statuses; len(s) != 2 || s[1].Limit.Name != "z" || s[1].Source != "override" {
		t.Errorf("the lease now says %+v", s)
	}
}

func TestAmountsNameTheirLimits(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	_, err := w.Acquire(bg, request(alice, limiter.Tokens("", 1)))
	invalid(t, err, "consume")
}

// TestAcquireAndCommitAllocateTwice checks that request, amounts and outcome stay
// off the heap. The two allocations are the lease and its balances.
func TestAcquireAndCommitAllocateTwice(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), nil)
	check(t, lim.SetSystemDefaults(bg, limiter.PerSecond("rpm", 1e9), limiter.PerSecond("tpm", 1e12)))
	allocatesTwice(t, lim)
}

// allocatesTwice checks an acquire and commit of two limits.
func allocatesTwice(t *testing.T, lim *limiter.RateLimiter) {
	t.Helper()
	req := request(alice, rpm(1).And("tpm", 500))
	got := testing.AllocsPerRun(1000, func() {
		lease, err := lim.Acquire(bg, req)
		if err == nil {
			err = lease.Commit(bg)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if got > 2 {
		t.Errorf("%g allocations, want at most 2", got)
	}
}
