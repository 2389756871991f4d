package interop

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

var ofAlice = limiter.Scope{Entity: "alice", Resource: "gpt-4"}

// TestOtherCutsTheCapacity checks that a cached bucket with a larger capacity
// admits no more than the new one. Our clock may be behind, and slack is a part
// of the new capacity. Python leaves the bucket with more tokens than fit.
func TestOtherCutsTheCapacity(t *testing.T) {
	for name, c := range map[string]struct {
		opts        dynamo.Options
		ahead, step time.Duration
	}{
		"at the same moment": {longCache, 0, 0},
		"a moment later":     {longCache, 0, time.Millisecond},
		"our clock behind":   {longCache, 30 * time.Second, 0},
		"with slack":         {dynamo.Options{CacheTTL: cacheTTL}, 0, 0},
		"with slack, later":  {dynamo.Options{CacheTTL: cacheTTL}, 0, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			eachOther(t, &c.opts, func(w *world, other program) {
				w.clock.ahead = c.ahead
				w.wait(0)
				w.ours.set(ofAlice, limiter.PerMinute("rpm", 100))
				w.mustAdmit(w.ours, "alice", rpm(1))
				other.set(ofAlice, limiter.PerMinute("rpm", 10))
				for _, tooMuch := range []int64{50, 11} {
					w.wait(c.step)
					w.mustRefuse(w.ours, "alice", rpm(tooMuch))
				}
				for _, fits := range []int64{4, 6} {
					w.wait(c.step)
					w.mustAdmit(w.ours, "alice", rpm(fits))
				}
				w.mustRefuse(w.ours, "alice", rpm(1))
			})
		})
	}
}

// TestOtherCutsTheCapacityWhileALeaseIsOpen checks that a give-back stops at the
// new capacity.
func TestOtherCutsTheCapacityWhileALeaseIsOpen(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		w.ours.set(ofAlice, limiter.PerMinute("rpm", 100))
		kept, undone := w.ours.hold("alice", "gpt-4", rpm(40)), w.ours.hold("alice", "gpt-4", rpm(55))
		other.set(ofAlice, limiter.PerMinute("rpm", 10))
		kept.commit(rpm(-30))
		undone.rollback()
		w.mustAdmit(w.ours, "alice", rpm(10))
		w.mustRefuse(w.ours, "alice", rpm(1))
		w.mustRefuse(other, "alice", rpm(1))
		w.checkTokens("alice", map[string]int64{"rpm": 0})
	})
}

// TestOtherRaisesTheCapacity checks that a larger capacity adds no tokens: the
// bucket fills at the new rate.
func TestOtherRaisesTheCapacity(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		w.ours.set(ofAlice, limiter.PerMinute("rpm", 60))
		w.mustAdmit(w.ours, "alice", rpm(20))
		other.set(ofAlice, limiter.PerMinute("rpm", 600))
		w.mustRefuse(w.ours, "alice", rpm(41))
		w.wait(time.Second)
		w.mustRefuse(w.ours, "alice", rpm(51))
		w.wait(time.Second)
		w.mustAdmit(w.ours, "alice", rpm(60))
		w.mustRefuse(w.ours, "alice", rpm(1))
	})
}

// TestOtherAddsAndRemovesALimit adds and removes a limit while our cached limits
// are stale: only charges change balances, a new limit starts full once, and one that
// was removed comes back with what it had.
func TestOtherAddsAndRemovesALimit(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		one, two := limiter.PerDay("rpm", 100), limiter.PerDay("tpm", 1000)
		fresh := func() goProgram { return w.anotherGo(&longCache) }
		w.ours.set(ofAlice, one)
		w.mustAdmit(w.ours, "alice", rpm(10))
		other.set(ofAlice, one, two)
		w.mustAdmit(fresh(), "alice", limiter.Tokens("tpm", 900))
		for range 3 {
			w.mustAdmit(w.ours, "alice", rpm(10))
		}
		w.checkTokens("alice", map[string]int64{"rpm": 60_000, "tpm": 100_000})
		w.mustAdmit(other, "alice", rpm(10).And("tpm", 50))
		w.checkTokens("alice", map[string]int64{"rpm": 50_000, "tpm": 50_000})

		other.set(ofAlice, one)
		for range 3 {
			w.mustAdmit(w.ours, "alice", rpm(5))
		}
		w.mustAdmit(fresh(), "alice", rpm(5))
		w.mustAdmit(w.ours, "alice", rpm(5))
		w.checkTokens("alice", map[string]int64{"rpm": 25_000, "tpm": 50_000}) // the item remembers it

		other.set(ofAlice, one, two)
		w.mustRefuse(fresh(), "alice", limiter.Tokens("tpm", 400))
		w.mustAdmit(fresh(), "alice", limiter.Tokens("tpm", 40))
		for range 3 {
			w.mustAdmit(w.ours, "alice", rpm(5))
		}
		w.checkTokens("alice", map[string]int64{"rpm": 10_000, "tpm": 10_000})
	})
}
