package limiter_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
	"github.com/zeroae/zae-limiter-go/memory"
)

func (w *world) buckets(t *testing.T, entity string) int {
	t.Helper()
	return len(collect(t, w.store.Buckets(bg, w.clock.now(), limiter.Scope{Entity: entity})))
}

// TestDebtOutlivesTheTimeToLive covers row B-24 of docs/defects.md: an expired
// bucket keeps its balance until it is full, so expiry neither forgives debt nor
// keeps it forever.
func TestDebtOutlivesTheTimeToLive(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10)) // time to live: 7 minutes
	lease := w.take(t, alice, rpm(10))
	check(t, lease.Adjust(rpm(200)))
	check(t, lease.Commit(bg))

	w.clock.pass(8 * time.Minute)
	w.wantLeft(t, alice, "rpm", -120)
	w.refuse(t, rpm(1))
	w.clock.pass(12*time.Minute - time.Second)
	w.refuse(t, rpm(0))
	w.clock.pass(time.Second)
	w.take(t, alice, rpm(0)) // out of debt, but not full
	w.refuse(t, rpm(1))
	w.clock.pass(time.Minute)
	w.take(t, alice, rpm(10))
	w.refuse(t, rpm(1))
}

func TestIdleBucketsAreForgotten(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.take(t, alice, rpm(10))
	w.clock.pass(7*time.Minute - time.Millisecond)
	if n := w.buckets(t, alice); n != 1 {
		t.Errorf("%d buckets before the time is over", n)
	}
	w.clock.pass(time.Millisecond)
	if n := w.buckets(t, alice); n != 0 {
		t.Errorf("%d buckets after it", n)
	}
	w.take(t, alice, rpm(10))
	w.refuse(t, rpm(1))
}

// TestBucketsInUseStay checks that every write renews the time to live.
func TestBucketsInUseStay(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.take(t, alice, rpm(1))
	for range 10 {
		w.clock.pass(6 * time.Minute)
		w.take(t, alice, rpm(0))
	}
	if n := w.buckets(t, alice); n != 1 {
		t.Errorf("%d buckets", n)
	}
}

// TestNegativeBucketTTLKeepsBuckets covers row 38 of docs/defects.md: a negative
// BucketTTL keeps all buckets, including those that an earlier write gave a time
// to live.
func TestNegativeBucketTTLKeepsBuckets(t *testing.T) {
	w := startWith(t, limiter.Options{}, memory.Options{BucketTTL: -1}, limiter.PerMinute("rpm", 10))
	w.take(t, alice, rpm(1))
	lease := w.take(t, "bob", rpm(1))
	check(t, lease.Adjust(rpm(1)))
	check(t, lease.Commit(bg))
	w.clock.pass(10 * 365 * 24 * time.Hour)
	w.take(t, "carol", rpm(1)) // makes the store sweep
	for _, e := range []string{alice, "bob"} {
		if n := w.buckets(t, e); n != 1 {
			t.Errorf("%s has %d buckets after ten years", e, n)
		}
	}
}

func TestOwnLimitsKeepTheBucket(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.take(t, alice, rpm(1))
	check(t, w.SetLimits(bg, alice, resource, limiter.PerMinute("rpm", 10)))
	w.take(t, alice, rpm(1))
	w.clock.pass(24 * time.Hour)
	if n := w.buckets(t, alice); n != 1 {
		t.Errorf("%d buckets with limits of its own", n)
	}
	check(t, w.DeleteLimits(bg, alice, resource))
	w.take(t, alice, rpm(1))
	w.clock.pass(7 * time.Minute)
	if n := w.buckets(t, alice); n != 0 {
		t.Errorf("%d buckets once they are gone", n)
	}
}

// TestTimeToLiveIsRoundedUp covers row D-6 of docs/defects.md: the time to live
// is in whole seconds, rounded up, at least one.
func TestTimeToLiveIsRoundedUp(t *testing.T) {
	resourceScope := limiter.Scope{Resource: resource}
	for _, c := range []struct {
		limits     []limiter.Limit
		source     limiter.Scope
		multiplier int
		seconds    int64
	}{
		{[]limiter.Limit{limiter.PerMinute("x", 100)}, resourceScope, 7, 420},
		{[]limiter.Limit{limiter.Custom("x", 1000, 10, time.Minute)}, limiter.Scope{}, 7, 42_000},
		{[]limiter.Limit{limiter.PerMinute("x", 10_000).WithBurst(15_000)}, limiter.Scope{Entity: alice}, 7, 630},
		{[]limiter.Limit{limiter.PerSecond("x", 10)}, resourceScope, 7, 7},
		{[]limiter.Limit{limiter.Custom("x", 10, 3, time.Second)}, resourceScope, 7, 24},  // 23.3
		{[]limiter.Limit{limiter.Custom("x", 1, 1000, time.Second)}, resourceScope, 7, 1}, // 0.007
		{[]limiter.Limit{limiter.PerMinute("x", 5), limiter.PerDay("y", 5)}, resourceScope, 7, 604_800},
		{[]limiter.Limit{limiter.PerMinute("x", 100)}, resourceScope, 1, 60},
		{[]limiter.Limit{limiter.PerMinute("x", 100)}, resourceScope, -1, 0},
		{[]limiter.Limit{limiter.PerMinute("x", 100)}, limiter.Scope{Entity: alice, Resource: resource}, 7, 0},
		// too long to count, so it never expires
		{[]limiter.Limit{limiter.Custom("x", 1e15, 1, 24*time.Hour)}, resourceScope, 1 << 20, 0},
	} {
		if got := rules.Idle(c.limits, c.source, c.multiplier); got != c.seconds*1000 {
			t.Errorf("%v at %s, times %d: %d ms, want %d s", c.limits, c.source.Level(), c.multiplier, got, c.seconds)
		}
	}
	if got := rules.Multiplier(0); got != rules.DefaultTTL {
		t.Errorf("a BucketTTL of 0 is %d fill times, want the default", got)
	}
}
