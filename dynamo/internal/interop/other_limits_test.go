package interop

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

var ofAlice = limiter.Scope{Entity: "alice", Resource: "gpt-4"}

// TestOtherCutsTheCapacity while we remember more, in the bucket and in the
// limits: what is admitted is what the new capacity covers. With our clock
// behind theirs it is the same, and the slack is a part of the new capacity.
// Python leaves the bucket with more tokens than fit.
func TestOtherCutsTheCapacity(t *testing.T) {
	for name, c := range map[string]struct {
		opts        dynamo.Options
		ahead, step time.Duration
	}{
		"at the same moment": {patient, 0, 0},
		"a moment later":     {patient, 0, time.Millisecond},
		"our clock behind":   {patient, 30 * time.Second, 0},
		"with slack":         {dynamo.Options{CacheTTL: factsLife}, 0, 0},
		"with slack, later":  {dynamo.Options{CacheTTL: factsLife}, 0, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			eachOther(t, &c.opts, func(w *world, other program) {
				w.clock.ahead = c.ahead
				w.wait(0)
				w.ours.set(ofAlice, limiter.PerMinute("rpm", 100))
				w.admits(w.ours, "alice", rpm(1))
				other.set(ofAlice, limiter.PerMinute("rpm", 10))
				for _, tooMuch := range []int64{50, 11} {
					w.wait(c.step)
					w.refuses(w.ours, "alice", rpm(tooMuch))
				}
				for _, fits := range []int64{4, 6} {
					w.wait(c.step)
					w.admits(w.ours, "alice", rpm(fits))
				}
				w.refuses(w.ours, "alice", rpm(1))
			})
		})
	}
}

// TestOtherCutsTheCapacityWhileALeaseIsOpen: what is given back stops at the new
// capacity.
func TestOtherCutsTheCapacityWhileALeaseIsOpen(t *testing.T) {
	eachOther(t, &patient, func(w *world, other program) {
		w.ours.set(ofAlice, limiter.PerMinute("rpm", 100))
		kept, undone := w.ours.hold("alice", "gpt-4", rpm(40)), w.ours.hold("alice", "gpt-4", rpm(55))
		other.set(ofAlice, limiter.PerMinute("rpm", 10))
		kept.commit(rpm(-30))
		undone.rollback()
		w.admits(w.ours, "alice", rpm(10))
		w.refuses(w.ours, "alice", rpm(1))
		w.refuses(other, "alice", rpm(1))
		w.bucketHolds("alice", map[string]int64{"rpm": 0})
	})
}

// TestOtherRaisesTheCapacity: more room is no gift. It fills by the new rate.
func TestOtherRaisesTheCapacity(t *testing.T) {
	eachOther(t, &patient, func(w *world, other program) {
		w.ours.set(ofAlice, limiter.PerMinute("rpm", 60))
		w.admits(w.ours, "alice", rpm(20))
		other.set(ofAlice, limiter.PerMinute("rpm", 600))
		w.refuses(w.ours, "alice", rpm(41))
		w.wait(time.Second)
		w.refuses(w.ours, "alice", rpm(51))
		w.wait(time.Second)
		w.admits(w.ours, "alice", rpm(60))
		w.refuses(w.ours, "alice", rpm(1))
	})
}

// TestOtherAddsAndRemovesALimit, back and forth, while what we remember of the
// limits is old: no balance changes but by charges, and a limit that is new
// starts full once.
func TestOtherAddsAndRemovesALimit(t *testing.T) {
	eachOther(t, &patient, func(w *world, other program) {
		one, two := limiter.PerDay("rpm", 100), limiter.PerDay("tpm", 1000)
		fresh := func() goProgram { return w.goElse(&patient) }
		w.ours.set(ofAlice, one)
		w.admits(w.ours, "alice", rpm(10))
		other.set(ofAlice, one, two)
		w.admits(fresh(), "alice", limiter.Tokens("tpm", 900))
		for range 3 {
			w.admits(w.ours, "alice", rpm(10))
		}
		w.bucketHolds("alice", map[string]int64{"rpm": 60_000, "tpm": 100_000})
		w.admits(other, "alice", rpm(10).And("tpm", 50))
		w.bucketHolds("alice", map[string]int64{"rpm": 50_000, "tpm": 50_000})

		other.set(ofAlice, one) // Python leaves what it had in the bucket, until we find out
		for range 3 {
			w.admits(w.ours, "alice", rpm(5))
		}
		w.admits(fresh(), "alice", rpm(5))
		w.admits(w.ours, "alice", rpm(5))
		w.bucketHolds("alice", map[string]int64{"rpm": 25_000})

		other.set(ofAlice, one, two)
		w.admits(fresh(), "alice", limiter.Tokens("tpm", 400))
		for range 3 {
			w.admits(w.ours, "alice", rpm(5))
		}
		w.bucketHolds("alice", map[string]int64{"rpm": 10_000, "tpm": 600_000})
	})
}
