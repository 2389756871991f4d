package repotest

import (
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func shadowChecks() []check {
	return []check{
		{"a shadow limit that covers is charged", shadowCovers},
		{"a shadow limit that does not cover is spared", shadowSpares},
		{"a spared limit refills as usual", shadowRefills},
		{"a spared quota steps as usual", shadowQuota},
		{"one charge pays some shadow limits and spares others", shadowSome},
		{"a refusal by another limit changes nothing", shadowRefused},
		{"a strict charge is refused", shadowStrict},
		{"a strict charge that fits is charged", shadowStrictFits},
		{"an amount of zero is spared in debt", shadowZero},
		{"a peek predicts what is spared", shadowPeek},
		{"an amount above the capacity is spared", shadowAbove},
		{"a bucket of shadow limits admits everything", shadowOnly},
		{"enforcing keeps the balance", shadowEnforced},
		{"a limit that becomes a shadow keeps its balance", shadowRelaxed},
		{"a shadow limit of the child leaves the parent in charge", shadowChild},
		{"a shadow limit of the parent lets the child pass", shadowParent},
		{"child and parent are spared by themselves", shadowBoth},
		{"an override decides what is a shadow limit", shadowOverride},
		{"an override enforces a shadow limit", shadowOverrideEnforced},
		{"a limit that joins with an override may be spared", shadowOverrideJoins},
		{"a credit of a spared limit leaves the balance", shadowCredit},
		{"a credit of a limit that was paid is as usual", shadowCreditPaid},
		{"a spared charge renews a bucket", shadowRenews},
		{"a spared charge creates a bucket", shadowCreates},
		{"a shadow limit agrees with the enforced one", shadowAgrees},
	}
}

// shadowed is perMinute60 that never refuses.
var shadowed = perMinute60.Shadow()

// spared checks which limits of the entity's own account a charge spared.
func (f *fixture) spared(b limiter.Bucket, want ...bool) {
	f.Helper()

	var got []bool
	if b.Detail != nil {
		got = b.Detail.Spared
	}
	f.equal("spared", got, want)
}

func shadowCovers(f *fixture) {
	f.setDefaults(shadowed)
	out := f.take(0, ask("key-1", rpm(60)), 0)
	f.equal("detail", out.Payers[0].Detail, (*limiter.Detail)(nil))
	f.equal("limits", out.Payers[0].Account.Limits, []limiter.Limit{shadowed})

	f.holds(time.Second, "key-1", 1_000)
}

func shadowSpares(f *fixture) {
	f.setDefaults(shadowed)
	f.take(0, ask("key-1", rpm(50)), 10_000)

	out := f.take(0, ask("key-1", rpm(11)), 10_000)
	f.equal("detail", out.Payers[0].Detail, &limiter.Detail{At: start(0), Spared: []bool{true}})
	f.spared(f.take(0, ask("key-1", rpm(10)), 0).Payers[0])
	f.spared(f.take(0, ask("key-1", rpm(1)), 0).Payers[0], true)

	f.listed(0, "key-1", 0)
	f.spared(first(f, "Buckets", f.buckets(0, limiter.Scope{Entity: "key-1"})))
}

func shadowRefills(f *fixture) {
	f.setDefaults(shadowed)
	f.take(0, ask("key-1", rpm(60)), 0)

	f.spared(f.take(ms(1_500), ask("key-1", rpm(2)), 1_500).Payers[0], true)
	f.spared(f.take(ms(1_999), ask("key-1", rpm(2)), 1_999).Payers[0], true)
	f.spared(f.take(ms(2_000), ask("key-1", rpm(2)), 0).Payers[0])
	f.spared(f.take(time.Hour, ask("key-1", rpm(61)), 60_000).Payers[0], true)
	f.holds(time.Hour+time.Minute, "key-1", 60_000)

	// A clock that is behind is spared by the same balance.
	f.take(time.Hour, ask("key-1", rpm(59)), 1_000)
	f.spared(f.take(0, ask("key-1", rpm(2)), 1_000).Payers[0], true)

	f.holds(time.Hour+time.Second, "key-1", 2_000)
}

func shadowQuota(f *fixture) {
	f.setDefaults(daily(100).Shadow(), slow)
	account := f.take(0, ask("key-1", tpd(90)), 10_000, 10_000).Payers[0].Account

	out := f.take(midnight-ms(1), ask("key-1", tpd(11)), 10_000, 10_000)
	f.equal("detail", out.Payers[0].Detail, &limiter.Detail{
		At: start(midnight - ms(1)), Starts: []int64{start(midnight - day), 0}, Spared: []bool{true, false},
	})

	f.spared(f.take(midnight, ask("key-1", tpd(101)), 100_000, 10_000).Payers[0], true, false)
	// The spared charge has begun the window.
	f.spared(f.take(midnight-ms(1), ask("key-1", tpd(100)), 0, 10_000).Payers[0])

	f.credit(midnight, account, tpd(-150))
	f.spared(f.take(midnight+day, ask("key-1", tpd(0)), -50_000, 10_000).Payers[0], true, false)

	f.spared(f.take(midnight+2*day, ask("key-1", tpd(50)), 0, 10_000).Payers[0])
}

func shadowSome(f *fixture) {
	f.setDefaults(limiter.PerMinute("a", 10).Shadow(), shadowed, limiter.PerMinute("tpm", 6000))

	f.take(0, ask("key-1", limiter.Tokens("a", 5)), 5_000, 60_000, 6_000_000)
	out := f.take(0, ask("key-1", limiter.Tokens("a", 6).And("rpm", 60).And("tpm", 100)), 5_000, 0, 5_900_000)
	f.spared(out.Payers[0], true, false, false)

	out = f.take(0, ask("key-1", limiter.Tokens("a", 5).And("rpm", 1).And("tpm", 100)), 0, 0, 5_800_000)
	f.spared(out.Payers[0], false, true, false)

	out = f.take(0, ask("key-1", limiter.Tokens("a", 1).And("rpm", 1)), 0, 0, 5_800_000)
	f.spared(out.Payers[0], true, true, false)
}

func shadowRefused(f *fixture) {
	f.setDefaults(shadowed, limiter.PerMinute("tpm", 100))
	f.take(0, ask("key-1", rpm(50).And("tpm", 60)), 10_000, 40_000)

	for _, n := range []int64{1, 11} { // covered or not
		f.spared(f.refuse(0, ask("key-1", rpm(n).And("tpm", 41)), 10_000, 40_000).Payers[0])
	}

	f.listed(0, "key-1", 10_000, 40_000)
	if f.countsUsage {
		f.used("key-1", 1, counters{"rpm": 50, "tpm": 60})
	}
}

func shadowStrict(f *fixture) {
	f.setDefaults(shadowed, limiter.PerMinute("tpm", 100))
	strict := ask("key-1", rpm(61).And("tpm", 1))

	strict.Strict = true
	f.spared(f.refuse(0, strict, 60_000, 100_000).Payers[0])
	f.unlisted(0, "key-1")

	f.take(0, ask("key-1", rpm(50)), 10_000, 100_000)

	strict.Amounts = rpm(11)
	f.refuse(0, strict, 10_000, 100_000)
	f.equal("a peek", f.peek(0, strict).Admitted, false)
}

func shadowStrictFits(f *fixture) {
	f.setDefaults(shadowed)
	strict := ask("key-1", rpm(50))

	strict.Strict = true
	f.spared(f.take(0, strict, 10_000).Payers[0])

	strict.Amounts = limiter.Amounts{}
	f.take(0, strict, 10_000)
}

func shadowZero(f *fixture) {
	f.setDefaults(shadowed)
	account := f.take(0, ask("key-1", rpm(60)), 0).Payers[0].Account

	f.spared(f.take(0, ask("key-1", rpm(0)), 0).Payers[0])

	f.credit(0, account, rpm(-1))
	f.spared(f.take(0, ask("key-1", rpm(0)), -1_000).Payers[0], true)

	f.spared(f.take(0, ask("key-1", limiter.Amounts{}), -1_000).Payers[0])
	f.spared(f.take(time.Second, ask("key-1", rpm(0)), 0).Payers[0])
}

func shadowPeek(f *fixture) {
	f.setDefaults(shadowed, limiter.PerMinute("tpm", 100))
	f.take(0, ask("key-1", rpm(50)), 10_000, 100_000)

	out := f.peek(0, ask("key-1", rpm(11).And("tpm", 1)))
	f.equal("admitted", out.Admitted, true)
	f.equal("balance", out.Payers[0].Tokens, []int64{10_000, 99_000})
	f.spared(out.Payers[0], true, false)
	f.holds(0, "key-1", 10_000, 100_000)
}

func shadowAbove(f *fixture) {
	f.setDefaults(shadowed)
	f.spared(f.take(0, ask("key-1", rpm(61)), 60_000).Payers[0], true)
	f.spared(f.take(0, ask("key-1", rpm(1_000_000)), 60_000).Payers[0], true)
}

func shadowOnly(f *fixture) {
	f.setDefaults(limiter.PerDay("rpm", 1).Shadow())
	f.take(0, ask("key-1", rpm(1)), 0)

	for range 20 {
		f.spared(f.take(0, ask("key-1", rpm(1)), 0).Payers[0], true)
	}

	_, err := f.repo.Consume(f.ctx, epoch, ask("key-1", tpm(1)))
	f.invalid("Consume of a limit that does not exist", err)
}

func shadowEnforced(f *fixture) {
	f.setDefaults(shadowed)
	f.take(0, ask("key-1", rpm(50)), 10_000)
	f.spared(f.take(0, ask("key-1", rpm(20)), 10_000).Payers[0], true)

	f.setDefaults(perMinute60)
	out := f.refuse(0, ask("key-1", rpm(11)), 10_000)
	f.equal("limits", out.Payers[0].Account.Limits, []limiter.Limit{perMinute60})

	f.take(0, ask("key-1", rpm(10)), 0)
}

func shadowRelaxed(f *fixture) {
	f.setDefaults(perMinute60, daily(100))
	f.take(0, ask("key-1", rpm(60).And("tpd", 95)), 0, 5_000)
	f.setDefaults(shadowed, daily(100).Shadow())

	out := f.take(ms(500), ask("key-1", rpm(1).And("tpd", 6)), 500, 5_000)
	f.spared(out.Payers[0], true, true)
	f.equal("window", out.Payers[0].Detail.Starts, []int64{0, start(midnight - day)})
}

func shadowChild(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1"}, shadowed)
	f.setLimits(limiter.Scope{Entity: "project-1"}, limiter.PerMinute("rpm", 100))
	f.createCascading("key-1", "project-1")

	out := f.take(0, ask("key-1", rpm(70)), 60_000)
	f.spared(out.Payers[0], true)
	f.paid(out, "project-1", 30_000)

	out = f.refuse(0, ask("key-1", rpm(31)), 60_000)
	f.paid(out, "project-1", 30_000)
	f.spared(out.Payers[0])

	f.paid(f.take(0, ask("key-1", rpm(30)), 30_000), "project-1", 0)
}

func shadowParent(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1"}, limiter.PerMinute("rpm", 100))
	f.setLimits(limiter.Scope{Entity: "project-1"}, shadowed)
	f.createCascading("key-1", "project-1")

	out := f.take(0, ask("key-1", rpm(70)), 30_000)
	f.paid(out, "project-1", 60_000)
	f.spared(out.Payers[0])
	f.spared(out.Payers[1], true)

	out = f.take(0, ask("key-1", rpm(30)), 0)
	f.paid(out, "project-1", 30_000)
	f.spared(out.Payers[1])

	for _, b := range f.refuse(0, ask("key-1", rpm(31)), 0).Payers {
		f.spared(b)
	}
	f.holds(0, "project-1", 30_000)
}

func shadowBoth(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1"}, shadowed)
	f.setLimits(limiter.Scope{Entity: "project-1"}, limiter.PerMinute("rpm", 30).Shadow(), limiter.PerMinute("tpm", 10))
	f.createCascading("key-1", "project-1")

	out := f.take(0, ask("key-1", rpm(40).And("tpm", 1)), 20_000)
	f.paid(out, "project-1", 30_000, 9_000)
	f.spared(out.Payers[0])
	f.spared(out.Payers[1], true, false)

	out = f.take(0, ask("key-1", rpm(25)), 20_000)
	f.paid(out, "project-1", 5_000, 9_000)
	f.spared(out.Payers[0], true)
	f.spared(out.Payers[1])

	out = f.take(0, ask("key-1", rpm(100)), 20_000)
	f.spared(out.Payers[0], true)
	f.spared(out.Payers[1], true, false)
}

func shadowOverride(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(10)), 50_000)

	small := limiter.PerMinute("rpm", 5).Shadow()
	f.spared(f.take(0, overrideCharge("key-1", rpm(6), small), 5_000).Payers[0], true)
	f.holds(0, "key-1", 50_000)

	f.spared(f.take(0, overrideCharge("key-1", rpm(5), small), 0).Payers[0])
	f.holds(0, "key-1", 45_000)

	f.refuse(0, ask("key-1", rpm(46)), 45_000)
}

func shadowOverrideEnforced(f *fixture) {
	f.setDefaults(shadowed)
	f.take(0, ask("key-1", rpm(50)), 10_000)

	f.refuse(0, overrideCharge("key-1", rpm(11), perMinute60), 10_000)
	out := f.take(0, overrideCharge("key-1", rpm(10), perMinute60), 0)
	f.equal("limits", out.Payers[0].Account.Limits, []limiter.Limit{perMinute60})

	f.spared(f.take(0, ask("key-1", rpm(1)), 0).Payers[0], true)
}

func shadowOverrideJoins(f *fixture) {
	f.setDefaults(perMinute60)
	extra := limiter.PerMinute("tpm", 100).Shadow()
	f.take(0, ask("key-1", rpm(1)), 59_000)

	f.spared(f.take(0, overrideCharge("key-1", tpm(101), extra), 100_000).Payers[0], true)
	f.spared(f.take(0, overrideCharge("key-1", tpm(60), extra), 40_000).Payers[0])
	f.spared(f.take(0, overrideCharge("key-1", tpm(60), extra), 40_000).Payers[0], true)
}

func shadowCredit(f *fixture) {
	f.setDefaults(shadowed, limiter.Custom("tpm", 100, 60, time.Minute))
	f.take(0, ask("key-1", rpm(50)), 10_000, 100_000)

	out := f.take(0, ask("key-1", rpm(20).And("tpm", 40)), 10_000, 60_000)
	spared := limiter.Credit{Account: out.Payers[0].Account, Amounts: rpm(20).And("tpm", 30), Spared: []string{"rpm"}}

	f.ok("Credit", f.repo.Credit(f.ctx, epoch, spared))
	f.holds(0, "key-1", 10_000, 90_000)

	spared.Amounts = rpm(-500).And("tpm", -5)
	f.ok("Credit", f.repo.Credit(f.ctx, epoch, spared))
	f.holds(0, "key-1", 10_000, 85_000)

	if f.countsUsage {
		all := f.usage(limiter.UsageQuery{Entity: "key-1", Window: limiter.Hourly})
		f.equal("counters", first(f, "Usage", all).Counters, counters{"rpm": 50 + 20 - 20 + 500, "tpm": 40 - 30 + 5})
	}

	f.ok("Credit",
		f.repo.Credit(f.ctx, at(time.Second), limiter.Credit{
			Account: out.Payers[0].Account, Amounts: rpm(1), Undo: true, Spared: []string{"rpm"},
		}))
	f.holds(time.Second, "key-1", 11_000, 86_000)
}

func shadowCreditPaid(f *fixture) {
	f.setDefaults(shadowed)
	account := f.take(0, ask("key-1", rpm(50)), 10_000).Payers[0].Account

	f.credit(0, account, rpm(20))
	f.holds(0, "key-1", 30_000)

	f.credit(0, account, rpm(-100))
	f.holds(0, "key-1", -70_000)
}

func shadowRenews(f *fixture) {
	f.setDefaults(shadowed)
	f.take(0, ask("key-1", rpm(1)))

	f.take(6*time.Minute, ask("key-1", rpm(61)), 60_000)
	f.listed(6*time.Minute+lifetime-ms(1), "key-1", 60_000)
	f.unlisted(6*time.Minute+lifetime, "key-1")
}

func shadowCreates(f *fixture) {
	f.setDefaults(shadowed)
	f.spared(f.take(0, ask("key-1", rpm(61)), 60_000).Payers[0], true)
	f.listed(0, "key-1", 60_000)
}

// shadowAgrees makes the same calls to an enforced limit and to its shadow. The
// shadow is spared exactly where the other refuses, and the balances agree.
func shadowAgrees(f *fixture) {
	limits := []limiter.Limit{limiter.Custom("rpm", 20, 7, 11*time.Second), limiter.Quota("tpd", 40, limiter.EveryHour)}
	f.setLimits(limiter.Scope{Entity: "real"}, limits...)
	f.setLimits(limiter.Scope{Entity: "shadow"}, limits[0].Shadow(), limits[1].Shadow())

	refused := 0
	for i := range int64(120) {
		// The pauses grow, so that the calls meet limits that are spent, partly
		// refilled and stepped.
		d := time.Duration(i*i) * 700 * time.Millisecond
		for j, amounts := range []limiter.Amounts{rpm(i * 5 % 13), tpd(i * 3 % 11)} {
			enforced, err := f.repo.Consume(f.ctx, at(d), ask("real", amounts))
			f.ok("Consume", err)
			shadow := f.take(d, ask("shadow", amounts), enforced.Payers[0].Tokens...)

			would := slices.Contains(sparedOf(shadow.Payers[0]), limits[j].Name)
			if would == enforced.Admitted {
				f.Fatalf("%v: the shadow of %s would refuse %s: %v, the limit refuses: %v", d, limits[j], amounts,
					would, !enforced.Admitted)
			}

			if would {
				refused++
			}
		}
	}
	// A comparison without refusals would show little.
	if refused < 20 {
		f.Errorf("only %d refusals", refused)
	}
}
