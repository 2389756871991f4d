package repotest

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func overrideChecks() []check {
	return []check{
		{"a lower capacity judges this call only", overrideLower},
		{"a higher capacity does not lift the bucket", overrideHigher},
		{"its rate applies to this call only", overrideRefills},
		{"a slower rate refills less", overrideRefillsLess},
		{"its refill stops at the bucket's own capacity", overrideStopsAtOwn},
		{"its limits are sorted by name", overrideByName},
		{"limits only it has join the bucket full", overrideJoins},
		{"limits it lacks refill by themselves and cannot be charged", overrideLacks},
		{"it shapes a new bucket, which stored limits then repair", overrideShapes},
		{"stored limits clamp the bucket it shaped", overrideClamped},
		{"it needs no stored limits, and stores none", overrideStoresNone},
		{"it applies to the parent", overrideParent},
		{"a refused override writes nothing", overrideRefused},
		{"its account takes credits up to the bucket's own capacity", overrideCredit},
		{"its list is neither kept nor changed", overrideNotKept},
	}
}

func overrideLower(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(10)), 50_000)

	f.refuse(0, overrideCharge("key-1", rpm(6), limiter.PerMinute("rpm", 5)), 5_000)
	f.take(0, overrideCharge("key-1", rpm(5), limiter.PerMinute("rpm", 5)), 0)

	out := f.take(0, ask("key-1", rpm(0)), 45_000)
	f.equal("limits", out.Payers[0].Account.Limits, []limiter.Limit{perMinute60})
}

func overrideHigher(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(10)), 50_000)

	f.refuse(0, overrideCharge("key-1", rpm(51), limiter.PerMinute("rpm", 600)), 50_000)
	f.take(0, overrideCharge("key-1", rpm(50), limiter.PerMinute("rpm", 600)), 0)
	f.holds(0, "key-1", 0)
}

func overrideRefills(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)
	// Three seconds at the override's 10 a second refill 30.
	f.take(3*time.Second, overrideCharge("key-1", rpm(10), limiter.PerMinute("rpm", 600)), 20_000)

	f.holds(3*time.Second, "key-1", 20_000)
	f.holds(4*time.Second, "key-1", 21_000)
}

func overrideRefillsLess(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)

	f.refuse(10*time.Second, overrideCharge("key-1", rpm(2), limiter.PerMinute("rpm", 6)), 1_000)
	f.take(10*time.Second, overrideCharge("key-1", rpm(1), limiter.PerMinute("rpm", 6)), 0)

	// The charge has moved the bucket's time to 10 s, so its own rate refills
	// one second.
	f.holds(11*time.Second, "key-1", 1_000)
}

func overrideStopsAtOwn(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)
	f.take(time.Minute, overrideCharge("key-1", rpm(0), limiter.PerMinute("rpm", 600)), 60_000)
	f.holds(time.Minute, "key-1", 60_000)
}

func overrideByName(f *fixture) {
	f.setDefaults(perMinute60)
	a, b := limiter.PerMinute("a", 5), limiter.PerMinute("rpm", 50)

	out := f.take(0, overrideCharge("key-1", rpm(1).And("a", 1), b, a), 4_000, 49_000)
	f.equal("limits", out.Payers[0].Account.Limits, []limiter.Limit{a, b})
}

func overrideJoins(f *fixture) {
	f.setDefaults(perMinute60)
	extra := limiter.PerMinute("tpm", 6000)
	f.take(0, ask("key-1", rpm(1)), 59_000)

	f.take(0, overrideCharge("key-1", tpm(1000), extra), 5_000_000)
	f.refuse(0, overrideCharge("key-1", tpm(5001), extra), 5_000_000)
	f.take(time.Second, overrideCharge("key-1", tpm(5100), extra), 0)

	// The stored limits repair the bucket: the limit leaves, and has what it had
	// when it returns, refilled.
	f.take(time.Second, ask("key-1", rpm(1)), 59_000)

	f.refuse(2*time.Second, overrideCharge("key-1", tpm(101), extra), 100_000)
	f.take(2*time.Second, overrideCharge("key-1", tpm(100), extra), 0)

	f.take(2*time.Second, ask("key-1", rpm(1)), 59_000)
	// After a minute the limit was full and forgotten, so it joins as a new
	// one.
	f.take(62*time.Second, overrideCharge("key-1", tpm(5000), limiter.PerMinute("tpm", 9000)), 4_000_000)
}

func overrideLacks(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	f.take(0, ask("key-1", rpm(60).And("tpm", 6000)), 0, 0)

	f.take(time.Second, overrideCharge("key-1", rpm(1), perMinute60), 0)
	f.holds(time.Second, "key-1", 0, 100_000)

	_, err := f.repo.Consume(f.ctx, at(time.Minute), overrideCharge("key-1", tpm(1), perMinute60))
	f.invalid("Consume of a limit that the override lacks", err)
	f.holds(time.Second, "key-1", 0, 100_000)
}

func overrideShapes(f *fixture) {
	small := limiter.PerMinute("rpm", 12)
	f.take(0, overrideCharge("key-1", rpm(4), small), 8_000)

	b := first(f, "Buckets", f.buckets(time.Second, limiter.Scope{Entity: "key-1"}))
	f.equal("limits", b.Account.Limits, []limiter.Limit{small})
	f.equal("balance", b.Tokens, []int64{8_200})

	f.setDefaults(perMinute60)
	out := f.take(time.Second, ask("key-1", rpm(0)), 8_200)
	f.equal("limits", out.Payers[0].Account.Limits, []limiter.Limit{perMinute60})
	f.equal("source", out.Payers[0].Account.Source, limiter.Scope{Resource: model})

	f.holds(2*time.Second, "key-1", 9_200)
}

func overrideClamped(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, overrideCharge("key-1", rpm(1), limiter.PerMinute("rpm", 600)), 599_000)
	f.listed(0, "key-1", 60_000)

	f.take(0, ask("key-1", rpm(1)), 59_000)
}

func overrideStoresNone(f *fixture) {
	f.take(0, overrideCharge("key-1", rpm(1), perMinute60), 59_000)

	_, err := f.repo.Consume(f.ctx, epoch, ask("key-1", rpm(1)))
	f.fails("Consume without stored limits", err, limiter.ErrNoLimits)

	for _, s := range limiter.Precedence("key-1", model) {
		cfg, err := f.repo.Config(f.ctx, s)
		f.ok("Config", err)
		f.equal("stored limits", cfg, limiter.Config{Scope: s})
	}

	f.take(0, overrideCharge("key-1", rpm(1), perMinute60), 58_000)
}

func overrideParent(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")
	f.take(0, ask("project-1", rpm(10)), 50_000)
	out := f.take(0, overrideCharge("key-1", rpm(4), limiter.PerMinute("rpm", 5)), 1_000)

	f.paid(out, "project-1", 1_000)
	f.holds(0, "project-1", 46_000)
}

func overrideRefused(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)

	f.refuse(3*time.Second,
		overrideCharge("key-1", rpm(31), limiter.PerMinute("rpm", 600), limiter.PerMinute("tpm", 10)), 30_000,
		10_000)

	// A refusal stores neither the refill by the override nor the limit that
	// would join.
	f.holds(time.Second, "key-1", 1_000)

	f.refuse(0, overrideCharge("key-2", rpm(601), limiter.PerMinute("rpm", 600)), 600_000)
	f.unlisted(0, "key-2")
}

func overrideCredit(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(10)), 50_000)
	out := f.take(0, overrideCharge("key-1", rpm(4), limiter.PerMinute("rpm", 5)), 1_000)

	f.credit(0, out.Payers[0].Account, rpm(3))
	f.holds(0, "key-1", 49_000)

	// The capacity of the bucket bounds the give-back, and not that of the
	// override.
	f.credit(0, out.Payers[0].Account, rpm(30))
	f.holds(0, "key-1", 60_000)
}

func overrideNotKept(f *fixture) {
	mine := []limiter.Limit{limiter.PerMinute("tpm", 100), limiter.PerMinute("rpm", 50)}
	before := slices.Clone(mine)

	out := f.take(0, overrideCharge("key-1", rpm(1), mine...), 49_000, 100_000)
	f.equal("the caller's list", mine, before)

	mine[0], mine[1] = limiter.PerMinute("x", 1), limiter.PerMinute("y", 2)

	f.equal("limits of the account", out.Payers[0].Account.Limits, []limiter.Limit{before[1], before[0]})
	f.listed(0, "key-1", 49_000, 100_000)
}
