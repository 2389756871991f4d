package interop

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// These tests change a table behind the caches of a process. Cached entities and
// limits may lag by CacheTTL, refusals by a second, balances never.

// longCache keeps cached limits and entities until a test moves the clock far
// enough.
var longCache = dynamo.Options{Exact: true, CacheTTL: cacheTTL}

const cacheTTL = time.Hour

var gpt4 = limiter.Scope{Resource: "gpt-4"}

func TestOtherSwitchesCascadeOn(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
		w.mustAdmit(w.ours, "kid", rpm(1))
		other.create(limiter.Entity{ID: "kid", Parent: "org", Cascade: true})
		w.wait(cacheTTL)
		w.mustAdmit(w.ours, "kid", rpm(10))
		w.checkParent("kid", "true", "org")
		w.mustAdmit(other, "kid", rpm(20))
		w.checkTokens("kid", map[string]int64{"rpm": 70_000})
		w.checkTokens("org", map[string]int64{"rpm": 70_000})
	})
}

// TestOtherCreatesAnEntityAfterItsBucket covers a bucket without a parent whose
// entity has one. The parent cascades too, but only one level counts.
func TestOtherCreatesAnEntityAfterItsBucket(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
		other.create(limiter.Entity{ID: "mid", Parent: "org", Cascade: true})
		w.mustAdmit(other, "kid", rpm(1))
		w.checkParent("kid", "false", "")
		other.create(limiter.Entity{ID: "kid", Parent: "mid", Cascade: true})
		w.mustAdmit(w.ours, "kid", rpm(10))
		w.checkParent("kid", "true", "mid")
		w.checkParent("mid", "true", "org")
		w.mustAdmit(other, "kid", rpm(5))
		w.checkTokens("kid", map[string]int64{"rpm": 84_000})
		w.checkTokens("mid", map[string]int64{"rpm": 85_000})
		w.checkNoBucket("org")
	})
}

// TestOtherRefundsWhatWeWereRefused checks that a refusal is remembered for one
// second, also by the caller's clock.
func TestOtherRefundsWhatWeWereRefused(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		w.ours.set(gpt4, limiter.PerDay("rpm", 10))
		kept, undone := other.hold("alice", "gpt-4", rpm(6)), other.hold("alice", "gpt-4", rpm(4))
		w.mustRefuse(w.ours, "alice", rpm(1))
		undone.rollback()
		w.wait(time.Second)
		w.mustAdmit(w.ours, "alice", rpm(4))
		w.mustRefuse(w.ours, "alice", rpm(1))
		kept.commit(rpm(-5))
		w.wait(time.Second)
		w.mustRefuse(w.ours, "alice", rpm(6))
		w.wait(time.Second)
		w.mustAdmit(w.ours, "alice", rpm(5))
		w.mustRefuse(w.ours, "alice", rpm(1))
	})
}

// TestOtherLeavesDebtInALimitWeTakeNothingOf checks that a charge of 0 detects
// new debt in a cached bucket.
func TestOtherLeavesDebtInALimitWeTakeNothingOf(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		w.ours.set(gpt4, limiter.PerMinute("rpm", 60), limiter.PerMinute("tpm", 600))
		w.mustAdmit(w.ours, "alice", rpm(1).And("tpm", 0))
		other.hold("alice", "gpt-4", limiter.Tokens("tpm", 1)).commit(limiter.Tokens("tpm", 609))
		w.mustRefuse(w.ours, "alice", rpm(1).And("tpm", 0))
		w.mustRefuse(w.ours, "alice", limiter.Tokens("tpm", 0))
		w.mustAdmit(w.ours, "alice", rpm(1))
		w.checkTokens("alice", map[string]int64{"rpm": 58_000, "tpm": -10_000})
		w.wait(time.Second)
		w.mustAdmit(w.ours, "alice", rpm(1).And("tpm", 0))
		w.checkTokens("alice", map[string]int64{"rpm": 58_000, "tpm": 0})
	})
}

// TestOtherLeavesDebtWhileWeAskForNothing checks the same for a charge of 0
// alone, which writes nothing and could be answered from memory.
func TestOtherLeavesDebtWhileWeAskForNothing(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		w.ours.set(gpt4, limiter.PerMinute("rpm", 60))
		w.mustAdmit(w.ours, "alice", rpm(1))
		w.mustAdmit(w.ours, "alice", rpm(0))
		other.hold("alice", "gpt-4", rpm(1)).commit(rpm(59))
		w.mustRefuse(w.ours, "alice", rpm(0))
		w.checkTokens("alice", map[string]int64{"rpm": -1_000})
	})
}

// TestOtherSpendsABucketThatWasFull checks that the time a bucket spent full is
// not credited later, whichever library spends first. Python's fast path leaves
// the refill time alone and so credits that time if the stored tokens cover the
// charge. Therefore Python goes first only when the bucket is empty.
func TestOtherSpendsABucketThatWasFull(t *testing.T) {
	eachOther(t, &longCache, func(w *world, other program) {
		w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
		w.mustAdmit(other, "alice", rpm(1))
		w.mustAdmit(w.ours, "alice", rpm(1))
		w.wait(2 * time.Minute)
		for _, turn := range []struct {
			first, second program
			n             int64
		}{{w.ours, other, 60}, {other, w.ours, 99}, {w.ours, other, 1}, {other, w.ours, 1}} {
			w.mustAdmit(turn.first, "alice", rpm(turn.n))
			w.mustAdmit(turn.second, "alice", rpm(100-turn.n))
			for _, p := range []program{w.ours, other} {
				w.mustRefuse(p, "alice", rpm(1))
			}
			w.checkTokens("alice", map[string]int64{"rpm": 0})
			w.wait(2 * time.Minute)
		}
	})
}

// TestOtherGivesBackMoreThanFits covers a rollback by Python of a bucket that
// has filled up meanwhile: it holds more than its capacity. The excess cannot be
// spent.
func TestOtherGivesBackMoreThanFits(t *testing.T) {
	for name, opts := range map[string]dynamo.Options{"exact": longCache, "with slack": {CacheTTL: cacheTTL}} {
		t.Run(name, func(t *testing.T) {
			eachOther(t, &opts, func(w *world, other program) {
				w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
				undone := other.hold("alice", "gpt-4", rpm(50))
				w.wait(time.Minute)
				w.mustAdmit(w.ours, "alice", rpm(1))
				undone.rollback()
				w.mustRefuse(w.ours, "alice", rpm(101))
				w.wait(time.Millisecond) // refills no whole token
				for _, fits := range []int64{60, 40} {
					w.mustAdmit(w.ours, "alice", rpm(fits))
				}
				w.mustRefuse(w.ours, "alice", rpm(1))
			})
		})
	}
}

// TestOtherSetsTheRefillTimeBack covers Python with a slow clock: it stores its
// own refill time, so a process without a memory of the later time would refill
// twice.
func TestOtherSetsTheRefillTimeBack(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	w := newWorld(t, &longCache)
	w.clock.ahead = -30 * time.Second
	other := w.openPython(p, map[string]any{"speculative_writes": false})
	w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
	w.mustAdmit(w.ours, "alice", rpm(50))
	w.mustAdmit(other, "alice", rpm(10))
	w.Equal("refill time", parseNumber(t, w.bucket("alice")["rf"]), noon.Add(w.clock.ahead).UnixMilli())
	w.mustRefuse(w.ours, "alice", rpm(41))
	w.mustAdmit(w.ours, "alice", rpm(40))
	w.mustRefuse(w.ours, "alice", rpm(1))
	w.wait(6 * time.Second)
	w.mustRefuse(w.ours, "alice", rpm(11))
	w.mustAdmit(w.ours, "alice", rpm(10))
}
