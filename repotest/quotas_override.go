package repotest

import (
	"math/rand/v2"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// monthly returns a quota of a month of the limit that daily returns.
func monthly(capacity int64) limiter.Limit { return limiter.Quota("tpd", capacity, limiter.EveryMonth) }

// nextMonth is the boundary of monthly.
var nextMonth = utc(2026, time.April, 1, 0, 0)

func quotaOverride(f *fixture) {
	f.setDefaults(daily(100), slow)
	f.take(0, ask("key-1", tpd(20)), 80_000, 10_000)

	// Of the 30 of the override, 20 are used.
	out := f.refuse(0, overrideCharge("key-1", tpd(11), daily(30)), 10_000)
	f.equal("window", out.Payers[0].Detail, &limiter.Detail{
		At: start(0), Starts: []int64{start(midnight - day)}, Peaks: []int64{100_000},
	})

	f.take(0, overrideCharge("key-1", tpd(10), daily(30)), 0)
	f.holds(0, "key-1", 70_000, 10_000)

	f.take(0, ask("key-1", tpd(20)), 50_000, 10_000)
	f.refuse(0, overrideCharge("key-1", tpd(0), daily(30)), -20_000)
	f.refuse(0, overrideCharge("key-1", tpd(51), daily(200)), 50_000)

	f.take(midnight, overrideCharge("key-1", tpd(30), daily(30)), 0)
	f.refuse(midnight, overrideCharge("key-1", tpd(1), daily(30)), 0)
	// The charge of the override has begun the window.
	f.holds(midnight-ms(1), "key-1", 70_000, 10_000)

	// Another window has no effect on the bucket's own, which fills and is shown.
	out = f.take(midnight, overrideCharge("key-1", tpd(20), monthly(60)), 40_000)
	f.equal("limits", out.Payers[0].Account.Limits, []limiter.Limit{daily(60)})
	f.equal("window", out.Payers[0].Detail.Starts, []int64{start(midnight)})

	f.holds(midnight, "key-1", 50_000, 10_000)
	f.holds(midnight+day, "key-1", 100_000, 10_000)
}

func quotaOverrideKind(f *fixture) {
	f.setDefaults(daily(100), limiter.Custom("tpm", 60, 60, time.Minute), slow)
	f.take(0, ask("key-1", tpd(100).And("tpm", 60)), 0, 0, 10_000)

	rate := limiter.Custom("tpd", 60, 60, time.Second)
	// At this rate, 60 tokens would be there after a second.
	f.refuse(time.Minute, overrideCharge("key-1", tpd(1), rate), 0)
	f.take(midnight, overrideCharge("key-1", tpd(60), rate), 0)

	f.holds(midnight, "key-1", 40_000, 60_000, 10_000)
	f.take(midnight, ask("key-1", tpm(60)), 40_000, 0, 10_000)

	quota := limiter.Quota("tpm", 100, limiter.EveryHour)
	f.refuse(midnight+2*time.Second, overrideCharge("key-1", tpm(3), quota), 2_000)
	f.take(midnight+2*time.Second, overrideCharge("key-1", tpm(2), quota), 0)

	f.holds(midnight+3*time.Second, "key-1", 40_000, 1_000, 10_000)
}

func quotaOverrideShapes(f *fixture) {
	f.take(0, overrideCharge("key-1", tpd(30), daily(100)), 70_000)
	f.listed(midnight-ms(1), "key-1", 70_000)

	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(1)), 59_000)

	// The limit has left and was full at midnight, so it joins full.
	out := f.take(midnight, overrideCharge("key-1", tpd(40), daily(100)), 60_000)
	f.equal("window", out.Payers[0].Detail.Starts, []int64{start(midnight)})

	f.refuse(midnight+day-ms(1), overrideCharge("key-1", tpd(61), daily(100)), 60_000)
	f.take(midnight+day, overrideCharge("key-1", tpd(100), daily(100)), 0)
}

// ownLimits checks the limits that the bucket of key-1 has stored.
func (f *fixture) ownLimits(d time.Duration, want ...limiter.Limit) {
	f.Helper()
	b := first(f, "Buckets", f.buckets(d, limiter.Scope{Entity: "key-1"}))
	f.equal("limits of the bucket", b.Account.Limits, want)
}

// quotaPlanDown has a customer whose calls carry a smaller quota of shorter windows.
func quotaPlanDown(f *fixture) {
	f.take(0, overrideCharge("key-1", tpd(10), monthly(1000)), 990_000)
	// The new capacity bounds what is left: 10 of 990.
	f.take(0, overrideCharge("key-1", tpd(9), daily(10)), 1_000)

	f.ownLimits(0, daily(10))

	out := f.refuse(time.Hour, overrideCharge("key-1", tpd(2), daily(10)), 1_000)
	f.equal("limits", out.Payers[0].Account.Limits, []limiter.Limit{daily(10)})

	f.take(midnight, overrideCharge("key-1", tpd(10), daily(10)), 0)
	f.refuse(midnight+day-ms(1), overrideCharge("key-1", tpd(1), daily(10)), 0)
	f.take(midnight+day, overrideCharge("key-1", tpd(10), daily(10)), 0)
}

// quotaPlanUp has a customer whose calls carry a larger quota of longer windows.
func quotaPlanUp(f *fixture) {
	f.take(0, overrideCharge("key-1", tpd(4), daily(10)), 6_000)
	// A larger quota of other windows adds nothing.
	f.take(0, overrideCharge("key-1", tpd(1), monthly(1000)), 5_000)
	f.ownLimits(0, monthly(1000))

	f.refuse(midnight, overrideCharge("key-1", tpd(6), monthly(1000)), 5_000)
	f.take(midnight, overrideCharge("key-1", tpd(5), monthly(1000)), 0)

	f.refuse(nextMonth-ms(1), overrideCharge("key-1", tpd(1), monthly(1000)), 0)
	f.take(nextMonth, overrideCharge("key-1", tpd(1000), monthly(1000)), 0)
}

// quotaPlanResized changes the capacity alone, up and down: what was spent stays
// spent.
func quotaPlanResized(f *fixture) {
	f.take(0, overrideCharge("key-1", tpd(30), monthly(50)), 20_000)

	f.take(0, overrideCharge("key-1", tpd(20), monthly(100)), 50_000)
	f.ownLimits(0, monthly(100))

	f.refuse(0, overrideCharge("key-1", tpd(1), monthly(50)), 0)
	f.ownLimits(0, monthly(100))
	// This is 10 less than what is used.
	f.refuse(0, overrideCharge("key-1", tpd(0), monthly(40)), -10_000)
	f.ownLimits(0, monthly(100))

	f.take(0, overrideCharge("key-1", tpd(50), monthly(100)), 0)

	f.refuse(nextMonth-ms(1), overrideCharge("key-1", tpd(1), monthly(100)), 0)
	f.take(nextMonth, overrideCharge("key-1", tpd(50), monthly(50)), 0)
}

// quotaPlanAsStored compares a key whose calls carry quotas of many capacities with one
// whose stored quota changes before each call.
func quotaPlanAsStored(f *fixture) {
	rng := rand.New(rand.NewPCG(1, 0))
	var now time.Duration

	for range 40 {
		now += time.Duration(rng.Int64N(int64(6 * time.Hour)))
		quota, n := daily(1+rng.Int64N(60)), tpd(rng.Int64N(20))
		f.setLimits(limiter.Scope{Entity: "key-2", Resource: model}, quota)

		carried, err := f.repo.Consume(f.ctx, at(now), overrideCharge("key-1", n, quota))
		f.ok("Consume", err)
		stored, err := f.repo.Consume(f.ctx, at(now), ask("key-2", n))
		f.ok("Consume", err)

		f.equal("admitted", carried.Admitted, stored.Admitted)
		f.equal("balance", carried.Payers[0].Tokens, stored.Payers[0].Tokens)
		f.equal("window", carried.Payers[0].Detail.Starts, stored.Payers[0].Detail.Starts)
	}
}

// quotaPlanSpent changes the windows when nothing is left. The new ones begin at
// once, although they refuse.
func quotaPlanSpent(f *fixture) {
	f.take(0, overrideCharge("key-1", tpd(1000), monthly(1000)), 0)
	out := f.refuse(time.Hour, overrideCharge("key-1", tpd(1), daily(10)), 0)

	f.equal("window", out.Payers[0].Detail.Starts, []int64{start(midnight - day)})
	f.ownLimits(time.Hour, daily(10))

	d := f.refusal(time.Hour, overrideRequest(tpd(1), daily(10)))
	f.equal("RetryAfter", d.RetryAfter(), midnight-time.Hour)

	f.take(midnight, overrideCharge("key-1", tpd(10), daily(10)), 0)

	f.refuse(midnight, overrideCharge("key-1", tpd(1), perHourTPD), 0)
	f.take(midnight+time.Minute, overrideCharge("key-1", tpd(1), perHourTPD), 0)
}

// perHourTPD gains one token in a minute.
var perHourTPD = limiter.Custom("tpd", 60, 60, time.Hour)

// quotaPlanKind has quotas that become rates, and rates that become quotas.
func quotaPlanKind(f *fixture) {
	f.take(0, overrideCharge("key-1", tpd(60), monthly(100)), 40_000)
	f.take(0, overrideCharge("key-1", tpd(40), perHourTPD), 0)

	f.ownLimits(0, perHourTPD)
	f.take(10*time.Minute, overrideCharge("key-1", tpd(5), perHourTPD), 5_000)

	f.take(20*time.Minute, overrideCharge("key-1", tpd(5), daily(100)), 10_000)
	f.ownLimits(20*time.Minute, daily(100))

	f.refuse(midnight-ms(1), overrideCharge("key-1", tpd(11), daily(100)), 10_000)
	f.take(midnight, overrideCharge("key-1", tpd(100), daily(100)), 0)
}

// quotaPlanTurns has calls with different windows in turn. What is due of one is not
// lost by the other.
func quotaPlanTurns(f *fixture) {
	f.take(0, overrideCharge("key-1", tpd(100), monthly(100)), 0)

	f.refuse(0, overrideCharge("key-1", tpd(1), daily(10)), 0)
	for i := range 3 {
		now := midnight + time.Duration(i)*day
		// The daily quota takes its step, although this call carries a monthly
		// one.
		f.take(now, overrideCharge("key-1", tpd(6), monthly(100)), 4_000)
		f.take(now, overrideCharge("key-1", tpd(4), daily(10)), 0)

		f.refuse(now+12*time.Hour, overrideCharge("key-1", tpd(1), monthly(100)), 0)
		f.refuse(now+12*time.Hour, overrideCharge("key-1", tpd(1), daily(10)), 0)
	}
}

// quotaPlanExpiry has a bucket that is full at the end of the window that an override
// has begun. It stays until the window of the quota before ends.
func quotaPlanExpiry(f *fixture) {
	f.take(0, overrideCharge("key-1", tpd(100), monthly(100)), 0)
	f.refuse(0, overrideCharge("key-1", tpd(1), daily(10)), 0)

	f.listed(nextMonth-ms(1), "key-1", 10_000)
	f.unlisted(nextMonth, "key-1")
}

// quotaPlanBack comes back to a window after another one that contains it.
func quotaPlanBack(f *fixture) {
	f.take(0, overrideCharge("key-1", tpd(100), daily(100)), 0)

	f.refuse(0, overrideCharge("key-1", tpd(0), daily(50)), -50_000)
	for _, c := range []struct {
		quota limiter.Limit
		left  int64
	}{{monthly(100), 0}, {daily(100), 0}, {daily(150), 50_000}, {monthly(100), 50_000}} {
		f.take(0, overrideCharge("key-1", tpd(0), c.quota), c.left)
	}
}

// quotaPlanRates follows a quota, and refills the rates beside it as overrides do.
func quotaPlanRates(f *fixture) {
	f.take(0, overrideCharge("key-1", rpm(60).And("tpd", 1), perMinute60, monthly(100)), 0, 99_000)

	faster := limiter.PerMinute("rpm", 600)
	f.take(3*time.Second, overrideCharge("key-1", rpm(10).And("tpd", 1), faster, daily(50)), 20_000, 49_000)

	f.ownLimits(3*time.Second, perMinute60, daily(50))
	f.take(4*time.Second, overrideCharge("key-1", rpm(0), perMinute60), 21_000)
}

// quotaPlanHeld has limits in force that hold the name: the override judges one call.
func quotaPlanHeld(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1", Resource: model}, monthly(100))

	f.take(0, ask("key-1", tpd(40)), 60_000)
	// A quota of other windows only caps what is left, whatever was used.
	f.take(0, overrideCharge("key-1", tpd(10), daily(20)), 10_000)

	f.take(midnight, overrideCharge("key-1", tpd(20), daily(20)), 0)
	f.holds(midnight, "key-1", 30_000)

	f.take(midnight, overrideCharge("key-1", tpd(30), daily(200)), 0)
	f.holds(midnight, "key-1", 0)

	d := f.refusal(midnight, overrideRequest(tpd(1), daily(10)))
	f.equal("RetryAfter", d.RetryAfter(), nextMonth-midnight)
	f.equal("limit", d.Primary().Limit, monthly(10))
	f.equal("end", d.Primary().WindowEnd, at(nextMonth))

	f.refuse(nextMonth-ms(1), overrideCharge("key-1", tpd(1), perHourTPD), 0)
	f.take(nextMonth, overrideCharge("key-1", tpd(10), daily(10)), 0)

	f.holds(nextMonth, "key-1", 90_000)
	// In the same windows, the 10 that are used count.
	f.refuse(nextMonth, overrideCharge("key-1", tpd(41), monthly(50)), 40_000)
}

// quotaPlanDefault has defaults of the charge that hold the name.
func quotaPlanDefault(f *fixture) {
	plain := ask("key-1", tpd(20))
	plain.Defaults = []limiter.Limit{daily(100)}
	f.take(0, plain, 80_000)

	c := overrideCharge("key-1", tpd(10), monthly(50))
	c.Defaults = plain.Defaults
	f.take(0, c, 40_000)
	f.ownLimits(0, daily(100))

	// The defaults hold another name, so the bucket follows.
	c.Defaults = []limiter.Limit{perMinute60}
	f.take(0, c, 40_000)
	f.ownLimits(0, monthly(50))
}

// quotaPlanRefused has refused overrides, which change nothing.
func quotaPlanRefused(f *fixture) {
	f.take(0, overrideCharge("key-1", rpm(60).And("tpd", 40), perMinute60, monthly(100)), 0, 60_000)
	for _, c := range []limiter.Charge{
		overrideCharge("key-1", tpd(11), daily(10)),                           // never fits
		overrideCharge("key-1", rpm(1).And("tpd", 1), perMinute60, daily(10)), // refused by the rate
		overrideCharge("key-1", tpd(21), monthly(60)),                         // 40 are spent
	} {
		f.refuse(0, c)
		f.ownLimits(0, perMinute60, monthly(100))
	}

	f.take(0, overrideCharge("key-1", tpd(60), monthly(100)), 0)
}

// quotaPlanPeek peeks, which changes nothing.
func quotaPlanPeek(f *fixture) {
	f.take(0, overrideCharge("key-1", tpd(40), monthly(100)), 60_000)
	f.equal("balance", f.peek(0, overrideCharge("key-1", tpd(1), daily(10))).Payers[0].Tokens, []int64{9_000})
	f.ownLimits(0, monthly(100))
}

// quotaPlanParent changes the quota of both payers.
func quotaPlanParent(f *fixture) {
	f.createCascading("key-1", "project-1")

	f.take(0, overrideCharge("key-1", tpd(40), monthly(100)), 60_000)
	f.setLimits(limiter.Scope{Entity: "project-1"}, monthly(200))

	out := f.take(0, overrideCharge("key-1", tpd(5), daily(10)), 5_000)
	f.paid(out, "project-1", 5_000)

	f.ownLimits(0, daily(10))
	// A level holds the parent's quota of 200, so its bucket does not follow.
	f.holds(0, "project-1", 155_000)
}

// quotaPlanShadow keeps the mark of the bucket's own limit.
func quotaPlanShadow(f *fixture) {
	f.take(0, overrideCharge("key-1", tpd(40), monthly(100).Shadow()), 60_000)

	f.refuse(0, overrideCharge("key-1", tpd(61), monthly(100)), 60_000)
	f.take(0, overrideCharge("key-1", tpd(5), daily(10)), 5_000)
	f.ownLimits(0, daily(10).Shadow())

	out := f.take(0, overrideCharge("key-1", tpd(6), daily(10).Shadow()), 5_000)
	f.spared(out.Payers[0], true)
}

// overrideRequest returns a request of key-1 with limits.
func overrideRequest(amounts limiter.Amounts, limits ...limiter.Limit) limiter.Request {
	r := request(amounts)
	r.Limits = limits
	return r
}
