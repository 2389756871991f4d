package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func repairChecks() []check {
	return []check{
		{"a raised capacity does not fill", repairRaised},
		{"a lowered capacity clamps", repairLowered},
		{"a new limit starts full", repairNewLimit},
		{"a removed limit is not judged, and has what it had if it returns", repairRemovedLimit},
		{"a limit that is lowered to what it has, removed and set again gains nothing", repairLoweredThenRemoved},
		{"time before a change refills by the old rate", repairOldRate},
		{"a charge that is refused stores the repair", repairStoredWhenRefused},
		{"a peek does not store the repair", repairNotStoredByPeek},
		{"debt outlives every change", repairKeepsDebt},
		{"a clock that is behind moves nothing back", repairClockBehind},
		{"another level with the same limits is another source", repairSource},
		{"limits deleted and set again do not fill", repairDeletedLimits},
		{"the list shows the limits in force", repairListed},
		{"a limit keeps its balance when its position changes", repairMovedLimit},
		{"a new rate holds from the millisecond of the change on", repairMillisecond},
	}
}

func repairRaised(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(20)), 40_000)

	f.setDefaults(limiter.PerMinute("rpm", 600))
	out := f.refuse(0, ask("key-1", rpm(41)), 40_000)
	f.equal("limits", out.Payers[0].Account.Limits, []limiter.Limit{limiter.PerMinute("rpm", 600)})

	f.take(0, ask("key-1", rpm(0)), 40_000)
	f.holds(time.Second, "key-1", 50_000)
	f.holds(time.Minute, "key-1", 600_000)
}

func repairLowered(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(10)), 50_000)
	f.take(0, ask("key-2", rpm(50)), 10_000)

	f.setDefaults(limiter.PerMinute("rpm", 30))
	f.refuse(0, ask("key-1", rpm(31)), 30_000)
	f.take(0, ask("key-2", rpm(1)), 9_000)

	// After raising it again, the clamped tokens stay away, although the
	// charge was refused.
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(1)), 29_000)
	f.take(0, ask("key-2", rpm(1)), 8_000)
}

func repairNewLimit(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(10)), 50_000)
	f.setDefaults(perMinute60, limiter.PerMinute("a", 5), limiter.PerMinute("tpm", 6000))
	f.take(0, ask("key-1", limiter.Tokens("a", 1)), 4_000, 50_000, 6_000_000)
}

func repairRemovedLimit(f *fixture) {
	both := []limiter.Limit{perMinute60, limiter.PerMinute("tpm", 6000)}
	f.setDefaults(both...)
	f.take(0, ask("key-1", rpm(10).And("tpm", 6000)), 50_000, 0)

	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(10)), 40_000)

	_, err := f.repo.Consume(f.ctx, epoch, ask("key-1", tpm(1)))
	f.invalid("Consume of a removed limit", err)

	f.setDefaults(both...)
	f.take(0, ask("key-1", rpm(0)), 40_000, 0)
}

func repairLoweredThenRemoved(f *fixture) {
	f.setDefaults(perMinute60)

	f.take(0, ask("key-1", rpm(50)), 10_000)
	f.setDefaults(limiter.PerMinute("rpm", 10))
	f.take(0, ask("key-1", rpm(0)), 10_000)

	// The limit is full at its capacity of 10, but at 60 it would not be.
	f.setDefaults(limiter.PerMinute("tpm", 6000))
	f.take(0, ask("key-1", tpm(6000)), 0)

	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(0)), 10_000)
	f.holds(50*time.Second, "key-1", 60_000)
}

func repairOldRate(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)

	f.setDefaults(limiter.PerMinute("rpm", 600))
	f.take(10*time.Second, ask("key-1", rpm(0)), 10_000)
	f.holds(11*time.Second, "key-1", 20_000)

	f.setDefaults(limiter.Custom("rpm", 600, 600, time.Hour))
	f.take(11*time.Second, ask("key-1", rpm(0)), 20_000)
	f.holds(17*time.Second, "key-1", 21_000)
}

func repairStoredWhenRefused(f *fixture) {
	f.setDefaults(perMinute60)

	f.take(0, ask("key-1", rpm(60)), 0)
	f.setDefaults(limiter.PerMinute("rpm", 600))
	f.refuse(10*time.Second, ask("key-1", rpm(100)), 10_000)
	f.holds(11*time.Second, "key-1", 20_000)
}

func repairNotStoredByPeek(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)

	f.setDefaults(limiter.PerMinute("rpm", 600))
	f.holds(10*time.Second, "key-1", 10_000)
	// A peek that stored the new rate would leave 20,000 here.
	f.holds(11*time.Second, "key-1", 11_000)
	f.listed(12*time.Second, "key-1", 12_000)
	f.holds(13*time.Second, "key-1", 13_000)
}

func repairKeepsDebt(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(60)), 0).Payers[0].Account
	f.credit(0, account, rpm(-50))

	for _, n := range []int64{600, 10, 60} {
		f.setDefaults(limiter.PerMinute("rpm", n))
		f.refuse(0, ask("key-1", rpm(0)), -50_000)
	}
}

func repairClockBehind(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(time.Minute, ask("key-1", rpm(60)), 0)

	f.setDefaults(limiter.PerMinute("rpm", 600))
	f.refuse(0, ask("key-1", rpm(1)), 0)

	f.holds(time.Minute, "key-1", 0)
	f.holds(61*time.Second, "key-1", 10_000)
}

func repairSource(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.take(0, ask("key-1", rpm(10)), 50_000)

	for _, s := range []limiter.Scope{{Resource: model}, {Entity: "key-1"}, {Entity: "key-1", Resource: model}} {
		f.setLimits(s, perMinute60)
		out := f.take(0, ask("key-1", rpm(0)), 50_000)
		f.equal("source", out.Payers[0].Account.Source, s)
	}

	f.deleteConfig(limiter.Scope{Entity: "key-1", Resource: model})
	out := f.take(0, ask("key-1", rpm(0)), 50_000)
	f.equal("source", out.Payers[0].Account.Source, limiter.Scope{Entity: "key-1"})
}

func repairDeletedLimits(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)

	f.deleteConfig(limiter.Scope{Resource: model})

	_, err := f.repo.Consume(f.ctx, epoch, ask("key-1", rpm(0)))
	f.fails("Consume without limits", err, limiter.ErrNoLimits)
	f.listed(time.Second, "key-1", 1_000)

	f.setDefaults(perMinute60)
	f.take(2*time.Second, ask("key-1", rpm(0)), 2_000)
}

func repairListed(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	f.take(0, ask("key-1", rpm(10)), 50_000, 6_000_000)

	limits := []limiter.Limit{limiter.PerMinute("a", 7), limiter.PerMinute("rpm", 30)}
	f.setLimits(limiter.Scope{Entity: "key-1"}, limits...)
	f.equal("buckets", f.buckets(0, limiter.Scope{Resource: model}), []limiter.Bucket{{
		Account: &limiter.Account{
			Entity: "key-1", Resource: model, Limits: limits, Source: limiter.Scope{Entity: "key-1"},
		},
		Tokens:  []int64{7_000, 30_000},
		Updated: epoch.UnixMilli(),
	}})

	// Peek repaired nothing: the old limits are back with their balances.
	f.deleteConfig(limiter.Scope{Entity: "key-1"})
	f.holds(0, "key-1", 50_000, 6_000_000)
}

func repairMovedLimit(f *fixture) {
	a, b, c := limiter.PerMinute("a", 10), limiter.PerMinute("b", 20), limiter.PerMinute("c", 30)
	f.setDefaults(a, b, c)
	f.take(0, ask("key-1", limiter.Tokens("a", 1).And("b", 2).And("c", 3)), 9_000, 18_000, 27_000)

	f.setDefaults(b, c)
	f.take(0, ask("key-1", limiter.Tokens("c", 0)), 18_000, 27_000)

	f.setDefaults(c, limiter.PerMinute("d", 40), a)
	f.take(0, ask("key-1", limiter.Tokens("c", 0)), 9_000, 27_000, 40_000)
}

// repairMillisecond covers the bucket of an entity and resource, which takes
// over new limits at once. The store refills it by the old rate up to the
// exact time of the change.
func repairMillisecond(f *fixture) {
	own := limiter.Scope{Entity: "key-1", Resource: model}
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)

	set := f.event("limits_set", "key-1")
	set.At = at(1_999 * time.Millisecond)
	f.ok("SetConfig",
		f.repo.SetConfig(f.ctx, limiter.Config{Scope: own, Limits: []limiter.Limit{limiter.PerMinute("rpm", 600)}},
			set))

	f.holds(1_999*time.Millisecond, "key-1", 1_999)
	f.holds(2_999*time.Millisecond, "key-1", 11_999)

	unset := f.event("limits_deleted", "key-1")
	unset.At = at(2_999 * time.Millisecond)
	f.ok("DeleteConfig", f.repo.DeleteConfig(f.ctx, own, unset))
	f.take(3_999*time.Millisecond, ask("key-1", rpm(0)), 12_999)
}
