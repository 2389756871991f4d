package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func quotaChecks() []check {
	return []check{
		{"nothing accrues inside a window", quotaInside},
		{"every boundary fills", quotaBoundaries},
		{"boundaries add nothing above the capacity", quotaNoSavings},
		{"debt is carried over", quotaDebt},
		{"one charge passes several boundaries", quotaSeveralAtOnce},
		{"a zone's windows begin at its midnight", quotaZone},
		{"a day of a clock change is one window", quotaClockChange},
		{"a missing midnight and a skipped day are one boundary", quotaOddDays},
		{"months and years end on their last day", quotaMonthEnds},
		{"weeks begin on Monday, also across years", quotaWeeks},
		{"a clock that is behind stays in the stored window", quotaClockBehind},
		{"a clock that is ahead begins the window early and once", quotaClockAhead},
		{"the bucket's own time does not matter", quotaOwnTime},
		{"a refusal and a peek begin no window", quotaUnwritten},
		{"every write steps every quota", quotaEveryWrite},
		{"quotas and rates decide together", quotaMixed},
		{"give-backs stop at the capacity in every window", quotaGiveBack},
		{"a give-back that is bound to a window is dropped in another", quotaBound},
		{"a take after a boundary pays from the new window", quotaTakeLate},
		{"the outcome names the windows", quotaDetail},
		{"a listing shows the step and the window", quotaListed},
		{"defaults may be quotas", quotaDefaults},
		{"child and parent step by themselves", quotaCascade},
		{"quotas alone expire when they are full", quotaExpiry},
		{"a mixed bucket outlives its window", quotaMixedExpiry},
		{"quotas of an entity and resource stay", quotaStays},
		{"a take from an expired quota charges a new one", quotaExpiredTake},
		{"a lease open at a boundary gives back to the next window", quotaOpenLease},
		{"an override judges, and the bucket's own limit fills", quotaOverride},
		{"an override of another kind does not fill", quotaOverrideKind},
		{"an override shapes a new bucket", quotaOverrideShapes},
		{"a bucket follows overrides with a smaller quota of shorter windows", quotaPlanDown},
		{"a bucket follows overrides with a larger quota of longer windows", quotaPlanUp},
		{"a bucket follows overrides with another capacity", quotaPlanResized},
		{"a quota that follows overrides does what a stored one does", quotaPlanAsStored},
		{"a spent quota begins the windows of an override that it refuses", quotaPlanSpent},
		{"a bucket follows overrides of another kind", quotaPlanKind},
		{"overrides with different windows in turn lose no step", quotaPlanTurns},
		{"a bucket that follows an override stays until the quota before is full", quotaPlanExpiry},
		{"a quota that follows overrides keeps what is left when it comes back to a window", quotaPlanBack},
		{"a bucket that follows a quota refills rates as overrides do", quotaPlanRates},
		{"a quota that a level holds does not follow overrides", quotaPlanHeld},
		{"a quota that a default holds does not follow overrides", quotaPlanDefault},
		{"a refused override changes no quota", quotaPlanRefused},
		{"a peek follows no override", quotaPlanPeek},
		{"both payers follow overrides, each by its own levels", quotaPlanParent},
		{"a quota that follows an override keeps its mark", quotaPlanShadow},
		{"RetryAfter ends at the boundary that covers", quotaRetryAfter},
		{"RetryAfter counts from the caller's time", quotaRetryBehind},
		{"a request above the capacity never fits", quotaNeverFits},
	}
}

// utc returns a time of a test as its distance from the epoch.
func utc(year int, month time.Month, day, hour, minute int) time.Duration {
	return time.Date(year, month, day, hour, minute, 0, 0, time.UTC).Sub(epoch)
}

// start returns the Unix milliseconds of a distance from the epoch.
func start(d time.Duration) int64 { return at(d).UnixMilli() }

// midnight is the first boundary of days after the epoch.
var midnight = utc(2026, time.March, 15, 0, 0)

const day = 24 * time.Hour

// daily returns a quota of n tokens a day.
func daily(n int64) limiter.Limit { return limiter.Quota("tpd", n, limiter.EveryDay) }

// slow keeps a bucket for a week, so that it outlives the boundaries of its quotas.
var slow = limiter.PerDay("z", 10)

func tpd(n int64) limiter.Amounts { return limiter.Tokens("tpd", n) }

func quotaInside(f *fixture) {
	f.setDefaults(daily(100))
	f.take(0, ask("key-1", tpd(40)), 60_000)
	f.refuse(time.Hour, ask("key-1", tpd(61)), 60_000)

	f.take(2*time.Hour, ask("key-1", tpd(60)), 0)
	f.refuse(midnight-ms(1), ask("key-1", tpd(1)), 0)
	f.take(midnight-ms(1), ask("key-1", tpd(0)), 0)
}

func quotaBoundaries(f *fixture) {
	for name, c := range map[string]struct {
		every limiter.Calendar
		at    time.Duration
	}{
		"hour":  {limiter.EveryHour, utc(2026, time.March, 14, 16, 0)},
		"day":   {limiter.EveryDay, midnight},
		"week":  {limiter.EveryWeek, utc(2026, time.March, 16, 0, 0)},
		"month": {limiter.EveryMonth, utc(2026, time.April, 1, 0, 0)},
		"year":  {limiter.EveryYear, utc(2027, time.January, 1, 0, 0)},
	} {
		// Limits of an entity and resource keep the bucket until the boundary,
		// which may be months away.
		f.setLimits(limiter.Scope{Entity: name, Resource: model}, limiter.Quota("tpd", 100, c.every))
		f.take(0, ask(name, tpd(100)), 0)

		f.holds(c.at-ms(1), name, 0)
		f.holds(c.at, name, 100_000)

		f.take(c.at, ask(name, tpd(70)), 30_000)
		f.refuse(c.at, ask(name, tpd(31)), 30_000)
	}
}

func quotaNoSavings(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1", Resource: model}, daily(100))
	f.take(0, ask("key-1", tpd(10)), 90_000)

	// Six boundaries have passed, and each one would add 100.
	f.refuse(midnight+5*day, ask("key-1", tpd(101)), 100_000)
	f.take(midnight+5*day, ask("key-1", tpd(100)), 0)

	f.refuse(midnight+6*day-ms(1), ask("key-1", tpd(1)), 0)
	f.take(midnight+6*day, ask("key-1", tpd(1)), 99_000)
}

func quotaDebt(f *fixture) {
	f.setDefaults(daily(100))
	account := f.take(0, ask("key-1", tpd(100)), 0).Payers[0].Account
	f.credit(0, account, tpd(-250))

	f.refuse(0, ask("key-1", tpd(0)), -250_000)
	f.refuse(midnight, ask("key-1", tpd(0)), -150_000)
	// This stores the step.
	f.credit(midnight, account, tpd(-10))
	f.refuse(midnight+day, ask("key-1", tpd(0)), -60_000)

	f.take(midnight+2*day, ask("key-1", tpd(40)), 0)
	f.take(midnight+3*day, ask("key-1", tpd(100)), 0)
}

func quotaSeveralAtOnce(f *fixture) {
	f.setDefaults(daily(100))
	f.credit(0, f.take(0, ask("key-1", tpd(100)), 0).Payers[0].Account, tpd(-450))

	// Four boundaries have passed, and add 400 to -450.
	f.holds(midnight+3*day, "key-1", -50_000)
	f.take(midnight+4*day, ask("key-1", tpd(20)), 30_000)
	f.take(midnight+5*day, ask("key-1", tpd(0)), 100_000)
}

func quotaZone(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1"}, daily(100).In("Europe/Berlin"))
	f.setLimits(limiter.Scope{Entity: "key-2"}, limiter.Quota("tpd", 100, limiter.EveryMonth).In("Asia/Kolkata"))

	f.take(0, ask("key-1", tpd(100)), 0)
	// Midnight in Berlin is at 23:00 UTC.
	f.holds(utc(2026, time.March, 14, 23, 0)-ms(1), "key-1", 0)
	f.take(utc(2026, time.March, 14, 23, 0), ask("key-1", tpd(100)), 0)
	f.holds(midnight+time.Hour, "key-1", 0)

	f.take(0, ask("key-2", tpd(100)), 0)
	// Midnight in Kolkata is at 18:30 UTC.
	f.holds(utc(2026, time.March, 31, 18, 30)-ms(1), "key-2", 0)
	f.holds(utc(2026, time.March, 31, 18, 30), "key-2", 100_000)
}

// quotaClockChange spends a window whose day has 23 hours, and one whose day has
// 25. The hour that comes twice adds nothing.
func quotaClockChange(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1", Resource: model}, daily(100).In("Europe/Berlin"))
	for _, c := range []struct{ begin, end time.Duration }{
		{utc(2026, time.March, 28, 23, 0), utc(2026, time.March, 29, 22, 0)},
		{utc(2026, time.October, 24, 22, 0), utc(2026, time.October, 25, 23, 0)},
	} {
		f.take(c.begin, ask("key-1", tpd(100)), 0)
		for d := c.begin; d < c.end; d += time.Hour {
			f.refuse(d, ask("key-1", tpd(1)), 0)
			// A charge of zero is stored, so a wrong step would stay.
			f.take(d, ask("key-1", tpd(0)), 0)
		}

		f.refuse(c.end-ms(1), ask("key-1", tpd(1)), 0)
		f.take(c.end, ask("key-1", tpd(1)), 99_000)
	}
}

func quotaOddDays(f *fixture) {
	for name, c := range map[string]struct {
		zone       string
		begin, end time.Duration
	}{
		"no midnight":    {"America/Santiago", utc(2019, time.September, 8, 4, 0), utc(2019, time.September, 9, 3, 0)},
		"two midnights":  {"America/Havana", utc(2019, time.November, 3, 4, 0), utc(2019, time.November, 4, 5, 0)},
		"no 30 December": {"Pacific/Apia", utc(2011, time.December, 30, 10, 0), utc(2011, time.December, 31, 10, 0)},
	} {
		entity := c.zone[len(c.zone)-4:]

		f.setLimits(limiter.Scope{Entity: entity, Resource: model}, daily(100).In(c.zone))
		account := f.take(c.begin-ms(1), ask(entity, tpd(100)), 0).Payers[0].Account

		// Two boundaries would leave more than 50.
		f.credit(c.begin-ms(1), account, tpd(-50))

		out := f.take(c.begin, ask(entity, tpd(10)), 40_000)
		f.equal(name, out.Payers[0].Detail.Starts, []int64{start(c.begin)})

		f.take(c.end-ms(1), ask(entity, tpd(40)), 0)
		f.credit(c.end-ms(1), account, tpd(-50))
		f.take(c.end, ask(entity, tpd(10)), 40_000)
	}
}

func quotaMonthEnds(f *fixture) {
	own := limiter.Scope{Entity: "key-1", Resource: model}
	f.setLimits(own, limiter.Quota("tpd", 100, limiter.EveryMonth), limiter.Quota("tpy", 1000, limiter.EveryYear))

	charge := ask("key-1", tpd(100).And("tpy", 10))
	for _, c := range []struct{ end, left int64 }{
		{start(utc(2027, time.February, 1, 0, 0)), 990_000},
		{start(utc(2027, time.March, 1, 0, 0)), 980_000}, // after 28 days
		{start(utc(2028, time.February, 1, 0, 0)), 990_000},
		{start(utc(2028, time.March, 1, 0, 0)), 980_000}, // after a leap day
		{start(utc(2100, time.March, 1, 0, 0)), 990_000}, // after none
	} {
		end := time.UnixMilli(c.end).Sub(epoch)
		f.take(end-day-ms(1), charge, 0, c.left)
		f.refuse(end-ms(1), charge, 0, c.left)
		f.holds(end, "key-1", 100_000, c.left)
	}
}

func quotaWeeks(f *fixture) {
	own := limiter.Scope{Entity: "key-1", Resource: model}
	f.setLimits(own, limiter.Quota("tpd", 100, limiter.EveryWeek))

	f.take(utc(2026, time.December, 28, 0, 0), ask("key-1", tpd(100)), 0)
	f.refuse(utc(2027, time.January, 3, 23, 59), ask("key-1", tpd(1)), 0)
	f.take(utc(2027, time.January, 4, 0, 0), ask("key-1", tpd(1)), 99_000)
}

func quotaClockBehind(f *fixture) {
	f.setDefaults(daily(100))

	f.take(0, ask("key-1", tpd(80)), 20_000)
	f.take(midnight, ask("key-1", tpd(30)), 70_000)

	out := f.take(midnight-time.Hour, ask("key-1", tpd(20)), 50_000)
	f.equal("window", out.Payers[0].Detail, &limiter.Detail{
		At: start(midnight - time.Hour), Starts: []int64{start(midnight)},
	})

	f.refuse(0, ask("key-1", tpd(51)), 50_000)
	f.holds(midnight+day-ms(1), "key-1", 50_000)
	f.holds(midnight+day, "key-1", 100_000)
}

func quotaClockAhead(f *fixture) {
	f.setDefaults(daily(100))

	f.take(0, ask("key-1", tpd(100)), 0)
	// This clock is ahead of the others.
	f.take(midnight+2*time.Hour, ask("key-1", tpd(100)), 0)
	for _, d := range []time.Duration{midnight - time.Hour, midnight, midnight + time.Hour, midnight + day - ms(1)} {
		f.refuse(d, ask("key-1", tpd(1)), 0)
	}

	f.take(midnight+day, ask("key-1", tpd(1)), 99_000)
}

// quotaOwnTime lets a rate move the bucket's own time far ahead, to before a
// boundary. The quota steps at the caller's time.
func quotaOwnTime(f *fixture) {
	f.setDefaults(perMinute60, daily(100))

	f.take(0, ask("key-1", rpm(0).And("tpd", 100)), 60_000, 0)
	f.take(midnight-ms(1), ask("key-1", rpm(60)), 0, 0)

	f.refuse(time.Hour, ask("key-1", tpd(1)), 0, 0)

	f.take(midnight, ask("key-1", tpd(1)), 1, 99_000)
	f.take(midnight+10*time.Hour, ask("key-1", rpm(1)), 59_000, 99_000)
	f.take(midnight+time.Hour, ask("key-1", tpd(99)), 59_000, 0)

	f.holds(midnight+day, "key-1", 60_000, 100_000)
}

func quotaUnwritten(f *fixture) {
	f.setDefaults(daily(100))

	f.take(0, ask("key-1", tpd(60)), 40_000)
	f.refuse(midnight, ask("key-1", tpd(101)), 100_000)
	f.equal("balance of a peek", f.peek(midnight, ask("key-1", tpd(1))).Payers[0].Tokens, []int64{99_000})

	// A clock that is behind finds the old window, since neither call has
	// stored the new one.
	f.listed(midnight-ms(1), "key-1", 40_000)
	f.refuse(midnight-ms(1), ask("key-1", tpd(41)), 40_000)

	f.take(midnight-ms(1), ask("key-1", tpd(40)), 0)
	f.take(midnight, ask("key-1", tpd(100)), 0)
}

// quotaEveryWrite writes a bucket early in a window for another limit. A clock that
// is behind then finds the quota in that window.
func quotaEveryWrite(f *fixture) {
	f.setDefaults(perMinute60, daily(100))
	account := f.take(0, ask("key-1", rpm(1).And("tpd", 100)), 59_000, 0).Payers[0].Account
	f.take(midnight, ask("key-1", rpm(1)), 59_000, 100_000)

	f.take(midnight-ms(1), ask("key-1", tpd(100)), 59_000, 0)

	// A credit steps the quota too.
	f.credit(midnight+day, account, rpm(-1))
	f.take(midnight, ask("key-1", tpd(30)), 59_000, 70_000)

	f.holds(midnight+2*day-ms(1), "key-1", 60_000, 70_000)
}

func quotaMixed(f *fixture) {
	f.setDefaults(perMinute60, daily(100))
	both := func(r, d int64) limiter.Charge { return ask("key-1", rpm(r).And("tpd", d)) }

	f.take(0, both(60, 90), 0, 10_000)
	f.refuse(0, both(1, 10), 0, 10_000)
	f.refuse(20*time.Second, both(10, 11), 20_000, 10_000)
	f.take(20*time.Second, both(20, 10), 0, 0)

	f.refuse(midnight-ms(1), both(1, 1), 60_000, 0)
	f.take(midnight, both(60, 100), 0, 0)

	f.holds(midnight+time.Second, "key-1", 1_000, 0)
}

func quotaGiveBack(f *fixture) {
	f.setDefaults(daily(100), slow)
	account := f.take(0, ask("key-1", tpd(50)), 50_000, 10_000).Payers[0].Account

	f.credit(0, account, tpd(20))
	f.holds(0, "key-1", 70_000, 10_000)

	// The new window is full, so this adds nothing.
	f.credit(midnight, account, tpd(30))
	f.holds(midnight, "key-1", 100_000, 10_000)

	f.take(midnight, ask("key-1", tpd(40)), 60_000, 10_000)
	// This clock is behind, but the quota stays in its window.
	f.credit(0, account, tpd(30))
	f.holds(midnight, "key-1", 90_000, 10_000)

	f.credit(midnight, account, tpd(-290))
	// The quota owes 200, and the boundary adds 100.
	f.credit(midnight+day, account, tpd(30))
	f.holds(midnight+day, "key-1", -70_000, 10_000)
}

func quotaBound(f *fixture) {
	f.setDefaults(daily(100), slow)
	out := f.take(0, ask("key-1", tpd(90)), 10_000, 10_000)

	bound := limiter.Credit{Account: out.Payers[0].Account, Amounts: tpd(20), Starts: out.Payers[0].Detail.Starts}
	f.ok("Credit", f.repo.Credit(f.ctx, at(midnight-ms(1)), bound))
	f.holds(0, "key-1", 30_000, 10_000)

	f.take(midnight, ask("key-1", tpd(50)), 50_000, 10_000)

	// The window of the tokens decides, and not the time of the caller.
	for _, d := range []time.Duration{midnight, midnight - ms(1)} {
		f.ok("Credit", f.repo.Credit(f.ctx, at(d), bound))
	}

	f.holds(midnight, "key-1", 50_000, 10_000)

	// A take is charged to any window.
	bound.Amounts = tpd(-20)
	f.ok("Credit", f.repo.Credit(f.ctx, at(midnight), bound))
	f.holds(midnight, "key-1", 30_000, 10_000)

	// A rate has no window, whether or not the bucket remembers other limits.
	bound.Amounts = tpd(20)
	f.setDefaults(limiter.Custom("tpd", 100, 1, time.Hour), slow)
	f.take(midnight, ask("key-1", tpd(0)), 30_000, 10_000)
	f.ok("Credit", f.repo.Credit(f.ctx, at(midnight), bound))
	f.holds(midnight, "key-1", 30_000, 10_000)

	f.setDefaults(limiter.Custom("tpd", 100, 1, time.Hour))
	f.take(midnight, ask("key-1", tpd(0)), 30_000)
	f.ok("Credit", f.repo.Credit(f.ctx, at(midnight), bound))
	f.holds(midnight, "key-1", 30_000)
}

func quotaTakeLate(f *fixture) {
	f.setDefaults(daily(100), slow)
	account := f.take(0, ask("key-1", tpd(90)), 10_000, 10_000).Payers[0].Account

	f.credit(midnight, account, tpd(-30))
	f.holds(midnight, "key-1", 70_000, 10_000)
	f.holds(midnight-ms(1), "key-1", 70_000, 10_000)

	f.credit(0, account, tpd(-80))
	f.holds(midnight, "key-1", -10_000, 10_000)
}

func quotaDetail(f *fixture) {
	f.setDefaults(limiter.Quota("a", 10, limiter.EveryMonth), perMinute60, daily(100).In("Europe/Berlin"))
	berlin := start(utc(2026, time.March, 13, 23, 0))

	want := &limiter.Detail{At: start(ms(7)), Starts: []int64{start(utc(2026, time.March, 1, 0, 0)), 0, berlin}}
	f.equal("a peek", f.peek(ms(7), ask("key-1", rpm(1))).Payers[0].Detail, want)
	f.equal("a charge", f.take(ms(7), ask("key-1", rpm(1))).Payers[0].Detail, want)
	f.equal("a refusal", f.refuse(ms(7), ask("key-1", tpd(101))).Payers[0].Detail, want)

	f.setLimits(limiter.Scope{Entity: "plain"}, perMinute60)
	f.equal("a bucket without quotas", f.take(0, ask("plain", rpm(1))).Payers[0].Detail, (*limiter.Detail)(nil))
}

func quotaListed(f *fixture) {
	f.setDefaults(daily(100))
	f.credit(0, f.take(0, ask("key-1", tpd(100))).Payers[0].Account, tpd(-130))

	b := first(f, "Buckets", f.buckets(midnight+ms(5), limiter.Scope{Entity: "key-1"}))
	f.equal("balance", b.Tokens, []int64{-30_000})
	f.equal("window", b.Detail, &limiter.Detail{At: start(midnight + ms(5)), Starts: []int64{start(midnight)}})
	f.equal("limits", b.Account.Limits, []limiter.Limit{daily(100)})

	f.setDefaults(daily(150))
	// The boundary adds 100 to -130 by the old capacity, and the raise adds 50.
	f.listed(midnight, "key-1", 20_000)

	if pager, ok := limiter.Optional[limiter.BucketPager](f.repo); ok {
		page, err := pager.BucketsAt(f.ctx, at(midnight), []limiter.Scope{{Entity: "key-1", Resource: model}})
		f.ok("BucketsAt", err)
		f.equal("window in a page", first(f, "BucketsAt", page).Detail, &limiter.Detail{
			At: start(midnight), Starts: []int64{start(midnight)},
		})
	}
}

func quotaDefaults(f *fixture) {
	c := ask("key-1", tpd(100))
	c.Defaults = []limiter.Limit{daily(100)}

	f.take(0, c, 0)
	f.refuse(midnight-ms(1), c, 0)
	f.take(midnight, c, 0)

	c.Defaults = []limiter.Limit{daily(120)}
	f.refuse(midnight, c, 20_000)
	c.Amounts = tpd(20)
	f.take(midnight, c, 0)
}

func quotaCascade(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1"}, daily(100))
	f.setLimits(limiter.Scope{Entity: "project-1"}, limiter.Quota("tpd", 250, limiter.EveryMonth))
	f.createCascading("key-1", "project-1")

	f.paid(f.take(0, ask("key-1", tpd(100)), 0), "project-1", 150_000)
	f.paid(f.refuse(0, ask("key-1", tpd(1)), 0), "project-1", 150_000)

	f.paid(f.take(midnight, ask("key-1", tpd(100)), 0), "project-1", 50_000)

	out := f.refuse(midnight+day, ask("key-1", tpd(51)), 100_000)
	f.paid(out, "project-1", 50_000)
	f.equal("window of the parent", out.Payers[1].Detail.Starts, []int64{start(utc(2026, time.March, 1, 0, 0))})

	april := utc(2026, time.April, 1, 0, 0)
	f.paid(f.take(april, ask("key-1", tpd(51)), 49_000), "project-1", 199_000)
}
