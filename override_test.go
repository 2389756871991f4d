package limiter_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// override acquires for alice under the limits of the call.
func (w *world) override(amounts limiter.Amounts, limits ...limiter.Limit) (*limiter.Lease, error) {
	return w.Acquire(bg, limiter.Request{Entity: alice, Resource: resource, Consume: amounts, Limits: limits})
}

// TestOverrideIsForOneCall covers row B-22 of docs/defects.md: the limits of a
// request affect only its own decision and a bucket that it creates.
func TestOverrideIsForOneCall(t *testing.T) {
	t.Run("B-22 it judges though the bucket exists", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 100))
		w.take(t, alice, rpm(1))
		_, err := w.override(rpm(6), limiter.PerMinute("rpm", 5))
		ex := exceeded(t, err)
		if p := ex.Primary(); p.Source != "override" || p.Limit.Capacity != 5 || p.Available != 5 || !p.NeverFits {
			t.Errorf("refused by %+v", p)
		}
		_, err = w.override(rpm(5), limiter.PerMinute("rpm", 5))
		check(t, err)
		w.wantLeft(t, alice, "rpm", 94)
	})
	t.Run("B-22 stored limits stay", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 100))
		w.take(t, alice, rpm(50))
		_, err := w.override(rpm(1), limiter.PerMinute("rpm", 1000))
		check(t, err)
		w.wantLeft(t, alice, "rpm", 49)
		ex := w.refuse(t, rpm(101))
		if p := ex.Primary(); p.Limit != limiter.PerMinute("rpm", 100) || p.Source != "system" {
			t.Errorf("the bucket is now judged by %v from %s", p.Limit, p.Source)
		}
		limits, _, err := w.SystemDefaults(bg)
		check(t, err)
		if len(limits) != 1 || limits[0] != limiter.PerMinute("rpm", 100) {
			t.Errorf("stored: %v", limits)
		}
	})
	t.Run("B-22 it shapes a new bucket", func(t *testing.T) {
		w := start(t)
		_, err := w.override(rpm(3), limiter.PerMinute("rpm", 5))
		check(t, err)
		_, err = w.override(rpm(3), limiter.PerMinute("rpm", 5))
		exceeded(t, err)
		_, err = w.Acquire(bg, request(alice, rpm(1))) // nothing is stored
		is(t, err, limiter.ErrNoLimits)
	})
	t.Run("B-22 own limits keep their bucket", func(t *testing.T) {
		w := start(t)
		check(t, w.SetLimits(bg, alice, resource, limiter.PerMinute("rpm", 10)))
		w.take(t, alice, rpm(1))
		_, err := w.override(rpm(1), limiter.PerSecond("rpm", 10))
		check(t, err)
		w.clock.pass(24 * time.Hour)
		if n := w.buckets(t, alice); n != 1 {
			t.Error("the override gave the bucket a time to live")
		}
	})
	t.Run("B-22 entity and parent", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 100))
		w.family(t)
		w.take(t, project, rpm(99))
		_, err := w.override(rpm(3), limiter.PerMinute("rpm", 10))
		ex := exceeded(t, err)
		for _, s := range ex.Statuses {
			if s.Source != "override" || s.Limit.Capacity != 10 {
				t.Errorf("%s is judged by %v from %s", s.Entity, s.Limit, s.Source)
			}
		}
	})
	t.Run("B-22 an unknown name is an error", func(t *testing.T) {
		w := start(t, limiter.PerMinute("rpm", 100))
		_, err := w.override(rpm(1), limiter.PerMinute("tpm", 10))
		invalid(t, err, "consume")
	})
}

func TestOverrideWithALimitTheBucketLacks(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.take(t, alice, rpm(4))
	lease, err := w.override(tpm(30), limiter.PerMinute("tpm", 50))
	check(t, err)
	_, err = w.override(tpm(30), limiter.PerMinute("tpm", 50))
	exceeded(t, err)
	check(t, lease.Adjust(tpm(-10)))
	check(t, lease.Commit(bg))
	_, err = w.override(tpm(30), limiter.PerMinute("tpm", 50))
	check(t, err)
	w.wantLeft(t, alice, "rpm", 6)
	w.take(t, alice, rpm(6))
}

// TestOverrideIsCappedByBothCapacities checks that an override refills at its own
// rate up to the smaller of the two capacities.
func TestOverrideIsCappedByBothCapacities(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	w.take(t, alice, rpm(100))
	w.clock.pass(time.Second)
	_, err := w.override(rpm(100), limiter.PerSecond("rpm", 1000))
	check(t, err)
	w.clock.pass(time.Minute)
	_, err = w.override(rpm(101), limiter.PerSecond("rpm", 1000))
	exceeded(t, err)
	w.take(t, alice, rpm(100))
	w.refuse(t, rpm(1))
}

// TestOverrideAboveTheBucketsCapacityNeverFits covers row B-9 of docs/defects.md:
// a request above the capacity of the bucket never fits, even if the override
// allows it.
func TestOverrideAboveTheBucketsCapacityNeverFits(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	w.take(t, alice, rpm(1))
	_, err := w.override(rpm(500), limiter.PerMinute("rpm", 1000))
	exceeded(t, err)
	is(t, err, limiter.ErrNeverFits)
}
