package repotest

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func defaultsChecks() []check {
	return []check{
		{"defaults apply where nothing is stored, and are not stored", defaultsRule},
		{"any stored level precedes defaults", defaultsLast},
		{"an override precedes defaults", defaultsOverridden},
		{"a bucket follows stored limits, and falls back to defaults", defaultsFollow},
		{"defaults apply to the parent", defaultsParent},
		{"without defaults there are no limits", defaultsGone},
		{"programs with different defaults mint nothing", defaultsOfTwo},
		{"shared limits follow the caller and clamp", defaultsShared},
		{"a bucket under defaults expires when idle", defaultsExpire},
		{"a late take makes an expired bucket pay", defaultsTakenLate},
		{"a peek uses defaults and writes nothing", defaultsPeek},
		{"the list of defaults is neither kept nor changed", defaultsNotKept},
		{"a listed bucket shows that no level holds limits", defaultsListed},
	}
}

// defaultsCharge returns a charge of key-1 with defaults, which are sorted by
// name.
func defaultsCharge(amounts limiter.Amounts, limits ...limiter.Limit) limiter.Charge {
	c := ask("key-1", amounts)
	c.Defaults = limits
	return c
}

// checkLimits checks the limits of an outcome and their source.
func (f *fixture) checkLimits(out limiter.Outcome, isDefault bool, limits ...limiter.Limit) {
	f.Helper()
	f.equal("limits", out.Payers[0].Account.Limits, limits)
	f.equal("default", out.Payers[0].Account.Default, isDefault)
}

func defaultsRule(f *fixture) {
	f.checkLimits(f.take(0, defaultsCharge(rpm(10), perMinute60), 50_000), true, perMinute60)

	out := f.take(time.Second, defaultsCharge(rpm(10), perMinute60), 41_000)
	f.checkLimits(out, true, perMinute60)

	f.checkLimits(f.refuse(time.Second, defaultsCharge(rpm(42), perMinute60), 41_000), true, perMinute60)
	f.credit(time.Second, out.Payers[0].Account, rpm(10))
	f.listed(time.Second, "key-1", 51_000)

	for _, s := range limiter.Precedence("key-1", model) {
		cfg, err := f.repo.Config(f.ctx, s)
		f.ok("Config", err)
		f.equal("stored limits", cfg, limiter.Config{Scope: s})
	}

	_, err := f.repo.Consume(f.ctx, at(time.Second), defaultsCharge(tpm(1), perMinute60))
	f.invalid("Consume of a limit that the defaults lack", err)
}

func defaultsLast(f *fixture) {
	levels := limiter.Precedence("key-1", model)
	for i, s := range slices.Backward(levels[:]) {
		stored := limiter.PerMinute("rpm", int64(100+i))
		f.setLimits(s, stored)
		out := f.take(0, defaultsCharge(rpm(1), perMinute60))
		f.checkLimits(out, false, stored)
		f.equal("source", out.Payers[0].Account.Source, s)
	}
}

func defaultsOverridden(f *fixture) {
	c := defaultsCharge(rpm(1), perMinute60)
	c.Limits = []limiter.Limit{limiter.PerMinute("rpm", 5)}

	f.checkLimits(f.take(0, c, 4_000), false, c.Limits...)
	f.checkLimits(f.take(0, defaultsCharge(rpm(1), perMinute60), 3_000), true, perMinute60)
}

func defaultsFollow(f *fixture) {
	f.take(0, defaultsCharge(rpm(10), perMinute60), 50_000)
	stored := []limiter.Limit{limiter.PerMinute("rpm", 30), limiter.PerMinute("tpm", 120)}
	f.setLimits(limiter.Scope{}, stored...)
	f.listed(0, "key-1", 30_000, 120_000)
	f.checkLimits(f.take(0, defaultsCharge(rpm(1).And("tpm", 120), perMinute60), 29_000, 0), false, stored...)

	f.deleteConfig(limiter.Scope{})
	// A limit that only the stored limits had stays, and does not come back
	// full.
	out := f.take(time.Second, defaultsCharge(rpm(0), perMinute60), 29_500, 2_000)
	f.checkLimits(out, true, perMinute60, stored[1])
	f.take(2*time.Second, defaultsCharge(rpm(0), perMinute60), 30_500, 4_000)

	f.setDefaults(stored...)
	f.take(2*time.Second, defaultsCharge(rpm(0), perMinute60), 30_000, 4_000)
}

func defaultsParent(f *fixture) {
	f.createCascading("key-1", "project-1")

	f.setLimits(limiter.Scope{Entity: "key-1"}, limiter.PerMinute("rpm", 100))
	out := f.take(0, defaultsCharge(rpm(50), perMinute60), 50_000)
	f.checkLimits(out, false, limiter.PerMinute("rpm", 100))
	f.paid(out, "project-1", 10_000)
	f.equal("default of the parent", out.Payers[1].Account.Default, true)

	out = f.refuse(0, defaultsCharge(rpm(11), perMinute60), 50_000)
	f.paid(out, "project-1", 10_000)
}

func defaultsGone(f *fixture) {
	f.take(0, defaultsCharge(rpm(10), perMinute60), 50_000)

	_, err := f.repo.Consume(f.ctx, epoch, ask("key-1", rpm(1)))
	f.fails("Consume without defaults", err, limiter.ErrNoLimits)
	_, err = f.repo.Peek(f.ctx, epoch, ask("key-1", rpm(1)))
	f.fails("Peek without defaults", err, limiter.ErrNoLimits)

	f.take(0, defaultsCharge(rpm(0), perMinute60), 50_000)
}

func defaultsOfTwo(f *fixture) {
	t120 := limiter.PerMinute("tpm", 120)

	f.take(0, defaultsCharge(rpm(60).And("tpm", 120), perMinute60, t120), 0, 0)

	for range 3 {
		f.take(0, defaultsCharge(rpm(0), perMinute60), 0, 0)
		f.refuse(0, defaultsCharge(tpm(1), t120), 0, 0)
		f.refuse(0, defaultsCharge(rpm(1).And("tpm", 1), perMinute60, t120), 0, 0)
	}
	f.listed(time.Second, "key-1", 1_000, 2_000)
}

func defaultsShared(f *fixture) {
	fast := limiter.PerMinute("rpm", 600)

	f.take(0, defaultsCharge(rpm(0), fast), 600_000)
	f.take(0, defaultsCharge(rpm(10), perMinute60), 50_000)
	f.checkLimits(f.take(0, defaultsCharge(rpm(0), fast), 50_000), true, fast)
	f.checkLimits(f.take(time.Second, defaultsCharge(rpm(0), perMinute60), 60_000), true, perMinute60)
}

func defaultsExpire(f *fixture) {
	f.take(0, defaultsCharge(rpm(60), perMinute60), 0)
	f.listed(lifetime-ms(1), "key-1", 60_000)
	f.unlisted(lifetime, "key-1")
}

func defaultsTakenLate(f *fixture) {
	account := f.take(0, defaultsCharge(rpm(1), perMinute60), 59_000).Payers[0].Account
	f.credit(lifetime, account, rpm(-5))
	f.take(lifetime, defaultsCharge(rpm(0), perMinute60), 55_000)
}

func defaultsPeek(f *fixture) {
	peek := func(d time.Duration, limits ...limiter.Limit) limiter.Outcome {
		return f.peek(d, defaultsCharge(rpm(1), limits...))
	}

	f.checkLimits(peek(0, perMinute60), true, perMinute60)
	f.unlisted(0, "key-1")

	f.take(0, defaultsCharge(rpm(10), perMinute60), 50_000)
	other := limiter.PerMinute("rpm", 20)
	out := peek(0, other)
	f.checkLimits(out, true, other)
	f.equal("balance", out.Payers[0].Tokens, []int64{19_000})

	f.take(0, defaultsCharge(rpm(0), perMinute60), 50_000)
}

func defaultsNotKept(f *fixture) {
	mine := []limiter.Limit{perMinute60, limiter.PerMinute("tpm", 100)}
	before := slices.Clone(mine)

	out := f.take(0, defaultsCharge(rpm(1), mine...), 59_000, 100_000)
	f.equal("the caller's list", mine, before)

	mine[0], mine[1] = limiter.PerMinute("x", 1), limiter.PerMinute("y", 2)
	f.equal("limits of the account", out.Payers[0].Account.Limits, before)
	f.listed(0, "key-1", 59_000, 100_000)
}

// defaultsListed checks Account.Default of listed buckets, however they were
// charged last.
func defaultsListed(f *fixture) {
	own := limiter.Scope{Entity: "key-1"}
	check := func(d time.Duration, isDefault bool) {
		f.Helper()
		listed := map[string]*limiter.Account{"Buckets": first(f, "Buckets", f.buckets(d, own)).Account}
		if pager, ok := limiter.Optional[limiter.BucketPager](f.repo); ok {
			found, err := pager.BucketsAt(f.ctx, at(d), []limiter.Scope{{Entity: "key-1", Resource: model}})
			f.ok("BucketsAt", err)
			listed["BucketsAt"], listed["BucketPage"] = found[0].Account, first(f, "BucketPage",
				f.pages(d, limiter.BucketQuery{})).Account
		}
		for what, account := range listed {
			f.equal(what+": default", account.Default, isDefault)
			if !isDefault {
				f.equal(what+": source", account.Source, own)
			}
		}
	}

	f.take(0, defaultsCharge(rpm(1), perMinute60))
	check(0, true)

	f.setLimits(own, perMinute60)
	check(0, false)

	f.take(time.Second, ask("key-1", rpm(1)))
	check(time.Second, false)

	f.deleteConfig(own)
	check(time.Second, true)

	// An override looks up no level, so the listing cannot repeat what the last
	// charge has found.
	override := ask("key-1", rpm(1))
	override.Limits = []limiter.Limit{perMinute60}
	f.take(2*time.Second, override)
	check(2*time.Second, true)

	f.setLimits(own, perMinute60)
	check(2*time.Second, false)
}
