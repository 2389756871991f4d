package interop

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// What others do to a table that we remember things of. Facts about entities and
// limits may lag by CacheTTL, refusals by a second, balances never.

// patient believes facts for so long that they are old only when a test says so.
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

// TestOtherCreatesAnEntityAfterItsBucket: the bucket says that nobody pays with
// it, and only the record knows better. The parent cascades too, but only one
// level counts.
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

// TestOtherRefundsWhatWeWereRefused: a refusal is remembered for a second, by
// the caller's time too, and not longer.
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

// TestOtherLeavesDebtInALimitWeTakeNothingOf: an amount of 0 asks whether there
// is debt, and what we remember of it is no answer.
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

// TestOtherLeavesDebtWhileWeAskForNothing is the same for a charge of 0 alone,
// which changes nothing and could be answered from memory.
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

// TestOtherSpendsABucketThatWasFull: time that a bucket spent full is not
// credited later, whoever spends first. Python credits it if it spends first
// and what is stored covers it (its fast path leaves the refill time alone), so
// it does so here only when nothing is stored.
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

// TestOtherGivesBackMoreThanFits: Python returns what it took even if the bucket
// has filled up meanwhile, and leaves it with more than its capacity. That much
// is not to be had.
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
				w.wait(time.Millisecond) // which refills no whole token
				for _, fits := range []int64{60, 40} {
					w.mustAdmit(w.ours, "alice", rpm(fits))
				}
				w.mustRefuse(w.ours, "alice", rpm(1))
			})
		})
	}
}

// TestOtherSetsTheRefillTimeBack: Python stores its own time even if that is
// behind, so that the same time would be refilled twice by whoever does not
// remember better.
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
