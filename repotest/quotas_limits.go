package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func quotaChangeChecks() []check {
	return []check{
		{"a raised capacity gives the difference at once", quotaRaised},
		{"a lowered capacity takes the difference, below zero too", quotaLowered},
		{"a capacity that goes down and up mints nothing", quotaFlips},
		{"a reset ends what was spent above a lowered capacity", quotaFlipsReset},
		{"what was taken under a higher capacity is given back to what was used", quotaFlipsGivenBack},
		{"a give-back under the same capacity is spent again", quotaFlipsRolledBack},
		{"windows that change in turn mint nothing", quotaFlipsWindows},
		{"a bucket remembers what was used until the window ends", quotaFlipsIdle},
		{"a boundary carries what was used above the largest capacity", quotaPeak},
		{"a refusal of a lowered quota waits for one boundary", quotaPeakWait},
		{"a lease that is charged after its quota was lowered has used what it used", quotaLoweredLease},
		{"a lease that is rolled back after its quota was lowered has used nothing", quotaLoweredRollback},
		{"an adjustment gives back what was used above a lowered quota", quotaLoweredAdjust},
		{"a capacity changed after a boundary steps by the old one", quotaResizedLater},
		{"limits of an entity and resource change at once", quotaResizedAtOnce},
		{"another window keeps the tokens and steps nothing", quotaOtherWindow},
		{"a change of window by a clock that is behind gives no step", quotaOtherWindowBehind},
		{"another zone keeps the tokens and steps nothing", quotaOtherZone},
		{"a rate that becomes a quota keeps its tokens", quotaFromRate},
		{"a quota that becomes a rate keeps its tokens", quotaToRate},
		{"a quota that joins is full and in the current window", quotaJoins},
		{"a quota deleted and set again has what it had", quotaReadded},
		{"a change of another limit steps at the caller's time", quotaNeighbour},
	}
}

func quotaRaised(f *fixture) {
	f.setDefaults(daily(50))
	f.take(0, ask("key-1", tpd(30)), 20_000)

	f.credit(0, f.take(0, ask("key-2", tpd(50)), 0).Payers[0].Account, tpd(-70))

	f.setDefaults(daily(100))
	f.listed(0, "key-1", 70_000)
	f.take(0, ask("key-1", tpd(70)), 0)
	// The raise pays 50 of the debt of 70.
	f.refuse(0, ask("key-2", tpd(0)), -20_000)

	f.holds(midnight, "key-1", 100_000)
	f.holds(midnight, "key-2", 80_000)
}

func quotaLowered(f *fixture) {
	f.setDefaults(daily(100))
	f.take(0, ask("key-1", tpd(10)), 90_000)
	f.take(0, ask("key-2", tpd(80)), 20_000)
	f.credit(0, f.take(0, ask("key-3", tpd(100)), 0).Payers[0].Account, tpd(-7))

	f.setDefaults(daily(40))
	// Every balance falls by 60, so the use stays the same.
	f.take(0, ask("key-1", tpd(0)), 30_000)
	f.refuse(0, ask("key-2", tpd(0)), -40_000)
	f.refuse(0, ask("key-3", tpd(0)), -67_000)

	f.listed(0, "key-2", -40_000)

	f.setDefaults(daily(100))
	f.take(0, ask("key-1", tpd(0)), 90_000)
	f.take(0, ask("key-2", tpd(0)), 20_000)
	f.refuse(0, ask("key-3", tpd(0)), -7_000)
}

// quotaFlips changes the capacity again and again: what was spent stays spent until
// the window ends.
func quotaFlips(f *fixture) {
	f.setDefaults(daily(100))
	f.take(0, ask("key-1", tpd(90)), 10_000)

	for range 3 {
		f.setDefaults(daily(50))
		f.refuse(0, ask("key-1", tpd(0)), -40_000)
		f.setDefaults(daily(70))
		f.refuse(0, ask("key-1", tpd(0)), -20_000)
		f.setDefaults(daily(100))
		f.take(0, ask("key-1", tpd(0)), 10_000)
	}

	f.setDefaults(daily(50))
	f.refuse(0, ask("key-1", tpd(0)), -40_000)

	f.take(midnight, ask("key-1", tpd(50)), 0)
	f.setDefaults(daily(100))
	f.take(midnight, ask("key-1", tpd(50)), 0)
}

// quotaFlipsReset resets a quota whose capacity was lowered below its use.
func quotaFlipsReset(f *fixture) {
	f.setDefaults(daily(100))
	f.take(0, ask("key-1", tpd(90)), 10_000)

	f.setDefaults(daily(50))
	f.refuse(0, ask("key-1", tpd(0)), -40_000)

	f.reset(0, "key-1")
	f.take(0, ask("key-1", tpd(50)), 0)

	f.setDefaults(daily(100))
	f.take(0, ask("key-1", tpd(50)), 0)
}

// quotaFlipsGivenBack settles leases that are open while the capacity is lowered.
func quotaFlipsGivenBack(f *fixture) {
	f.setDefaults(daily(100))

	some := f.take(0, ask("key-1", tpd(100)), 0).Payers[0].Account
	most := f.take(0, ask("key-2", tpd(100)), 0).Payers[0].Account
	debt := f.take(0, ask("key-3", tpd(100)), 0).Payers[0].Account
	f.credit(0, debt, tpd(-5))

	f.setDefaults(daily(50))

	for _, key := range []string{"key-1", "key-2"} {
		f.refuse(0, ask(key, tpd(1)), -50_000)
	}

	f.refuse(0, ask("key-3", tpd(1)), -55_000)

	f.credit(0, some, tpd(40))
	// Of 50, 60 are used.
	f.refuse(0, ask("key-1", tpd(1)), -10_000)

	f.credit(0, most, tpd(60))
	// Of 50, 40 are used.
	f.refuse(0, ask("key-2", tpd(11)), 10_000)

	f.credit(0, debt, tpd(10))
	f.refuse(0, ask("key-3", tpd(0)), -45_000)

	f.setDefaults(daily(100))
	f.take(0, ask("key-1", tpd(0)), 40_000)
	f.take(0, ask("key-2", tpd(0)), 60_000)
	f.take(0, ask("key-3", tpd(0)), 5_000)
}

func quotaFlipsRolledBack(f *fixture) {
	f.setDefaults(daily(100))
	f.take(0, ask("key-1", tpd(100)), 0)

	f.setDefaults(daily(50))
	f.refuse(0, ask("key-1", tpd(1)), -50_000)

	f.topUp(0, tpd(70), "gift", true)
	account := f.take(0, ask("key-1", tpd(20)), 0).Payers[0].Account

	f.credit(0, account, tpd(20))
	f.take(0, ask("key-1", tpd(20)), 0)
	// A give-back adds no more than was used.
	f.credit(0, account, tpd(90))
	f.take(0, ask("key-1", tpd(0)), 50_000)
}

// quotaFlipsWindows has two programs that disagree on the windows and the capacity.
func quotaFlipsWindows(f *fixture) {
	f.setDefaults(daily(100))
	f.take(0, ask("key-1", tpd(80)), 20_000)
	f.take(0, ask("key-2", tpd(20)), 80_000)

	for range 3 {
		f.setDefaults(monthly(50))
		f.take(0, ask("key-1", tpd(0)), 20_000)
		f.take(0, ask("key-2", tpd(0)), 50_000)
		f.setDefaults(daily(100))
		f.take(0, ask("key-1", tpd(0)), 20_000)
		f.take(0, ask("key-2", tpd(0)), 50_000)
	}

	f.credit(0, f.take(0, ask("key-1", tpd(0)), 20_000).Payers[0].Account, tpd(-50))
	f.setDefaults(monthly(200))
	f.refuse(0, ask("key-1", tpd(0)), -30_000)

	f.holds(nextMonth, "key-1", 170_000)
}

// quotaFlipsIdle has a bucket that nothing charges for days.
func quotaFlipsIdle(f *fixture) {
	f.setDefaults(monthly(100))
	f.take(0, ask("key-1", tpd(60)), 40_000)

	f.setDefaults(monthly(30))
	f.refuse(0, ask("key-1", tpd(1)), -30_000)
	f.refuse(10*day, ask("key-1", tpd(0)), -30_000)

	f.setDefaults(monthly(100))
	f.take(10*day, ask("key-1", tpd(40)), 0)
}

// quotaPeak has debt beside what a higher capacity allowed.
func quotaPeak(f *fixture) {
	f.setDefaults(daily(100), slow)
	for _, key := range []string{"key-1", "key-2"} {
		f.credit(0, f.take(0, ask(key, tpd(100))).Payers[0].Account, tpd(-30))
	}

	f.take(0, ask("key-3", tpd(100)))

	f.setDefaults(daily(40), slow)
	f.refuse(0, ask("key-1", tpd(0)), -90_000, 10_000)
	f.refuse(0, ask("key-3", tpd(0)), -60_000, 10_000)

	f.setDefaults(daily(60), slow)
	f.refuse(0, ask("key-2", tpd(0)), -70_000, 10_000)

	// The boundary adds the peak of 100, so only the debt of 30 is carried
	// over.
	f.take(midnight, ask("key-1", tpd(0)), 30_000, 10_000)
	f.take(midnight, ask("key-2", tpd(0)), 30_000, 10_000)

	f.take(midnight, ask("key-3", tpd(60)), 0, 10_000)
	// The peak has ended with its window, so this boundary adds 60.
	f.credit(midnight, f.take(midnight, ask("key-3", tpd(0))).Payers[0].Account, tpd(-50))
	f.holds(midnight+day, "key-3", 10_000, 10_000)

	f.refuse(0, ask("key-1", tpd(31)), 30_000, 10_000)
}

// quotaPeakWait asks when a quota that was lowered below its use covers a call.
func quotaPeakWait(f *fixture) {
	f.setDefaults(daily(100))
	f.take(0, ask("key-1", tpd(100)), 0)

	f.setDefaults(daily(20))
	// The boundary adds the peak of 100. With its capacity of 20 it would not
	// cover the call.
	d := f.refusal(0, request(tpd(20)))
	f.equal("RetryAfter", d.RetryAfter(), midnight)
	f.equal("FullAfter", d.Primary().FullAfter, midnight)

	b := first(f, "Buckets", f.buckets(0, limiter.Scope{Entity: "key-1"}))
	f.equal("detail", b.Detail, &limiter.Detail{
		At: start(0), Starts: []int64{start(midnight - day)}, Peaks: []int64{100_000},
	})

	f.take(midnight, ask("key-1", tpd(20)), 0)
	f.equal("detail", f.refuse(midnight, ask("key-1", tpd(1)), 0).Payers[0].Detail, &limiter.Detail{
		At: start(midnight), Starts: []int64{start(midnight)},
	})
}

// lowered returns a limiter and its lease of 100 tokens of a quota, which was lowered
// to 50 since.
func (f *fixture) lowered() (*limiter.RateLimiter, *limiter.Lease) {
	f.Helper()
	f.setDefaults(perMinute60, daily(100))

	lim := f.limiter(0)
	lease, err := lim.Acquire(f.ctx, request(rpm(1).And("tpd", 100)))
	f.ok("Acquire", err)

	f.setDefaults(perMinute60, daily(50))
	return lim, lease
}

// quotaLoweredLease charges a lease in between, which shows it the lower quota.
func quotaLoweredLease(f *fixture) {
	_, lease := f.lowered()

	f.ok("Consume", lease.Consume(f.ctx, rpm(1)))
	f.ok("Used", lease.Used("tpd", 60))
	f.ok("Commit", lease.Commit(f.ctx))
	// Of 50, 60 are used.
	f.holds(0, "key-1", 58_000, -10_000)
	f.refuse(0, ask("key-1", tpd(1)), 58_000, -10_000)

	f.setDefaults(perMinute60, daily(100))
	f.take(0, ask("key-1", tpd(40)), 58_000, 0)
}

func quotaLoweredRollback(f *fixture) {
	_, lease := f.lowered()

	f.ok("Consume", lease.Consume(f.ctx, rpm(1)))
	f.ok("Rollback", lease.Rollback(f.ctx))
	f.holds(0, "key-1", 60_000, 50_000)

	f.setDefaults(perMinute60, daily(100))
	f.take(0, ask("key-1", tpd(100)), 60_000, 0)
}

func quotaLoweredAdjust(f *fixture) {
	lim, _ := f.lowered()

	_, err := lim.Adjust(f.ctx, request(tpd(-40)))
	f.ok("Adjust", err)
	f.refuse(0, ask("key-1", tpd(1)), 59_000, -10_000)

	f.setDefaults(perMinute60, daily(100))
	f.take(0, ask("key-1", tpd(40)), 59_000, 0)
}

func quotaResizedLater(f *fixture) {
	f.setDefaults(daily(50))

	f.credit(0, f.take(0, ask("key-1", tpd(50)), 0).Payers[0].Account, tpd(-70))
	f.take(0, ask("key-2", tpd(30)), 20_000)

	f.setDefaults(daily(80))
	// The boundary adds the old capacity of 50 to -70, and then the raise adds
	// 30.
	f.refuse(midnight, ask("key-1", tpd(11)), 10_000)
	f.take(midnight, ask("key-2", tpd(80)), 0)

	f.holds(midnight+day, "key-1", 80_000)
}

func quotaResizedAtOnce(f *fixture) {
	f.setOwn(0, "key-1", daily(50))

	f.take(0, ask("key-1", tpd(50)), 0)
	f.setOwn(midnight-ms(1), "key-1", daily(80))
	f.refuse(midnight-ms(1), ask("key-1", tpd(31)), 30_000)

	f.holds(midnight, "key-1", 80_000)
	// The boundary fills the quota to 80 before the capacity falls by 20.
	f.setOwn(midnight, "key-1", daily(60))
	f.take(midnight, ask("key-1", tpd(0)), 60_000)

	// The change has begun the window, also for a clock that is behind.
	f.take(midnight-ms(1), ask("key-1", tpd(60)), 0)
	f.holds(midnight+ms(1), "key-1", 0)
}

func quotaOtherWindow(f *fixture) {
	f.setDefaults(daily(100), slow)

	f.take(0, ask("key-1", tpd(70)), 30_000, 10_000)
	f.setDefaults(limiter.Quota("tpd", 200, limiter.EveryMonth), slow)
	// The other window takes no step, and gives no more tokens.
	out := f.refuse(midnight, ask("key-1", tpd(31)), 30_000, 10_000)
	f.equal("window", out.Payers[0].Detail.Starts, []int64{start(utc(2026, time.March, 1, 0, 0)), 0})

	f.holds(midnight+day, "key-1", 30_000, 10_000)
	f.holds(utc(2026, time.April, 1, 0, 0), "key-1", 200_000, 10_000)

	f.setDefaults(limiter.Quota("tpd", 20, limiter.EveryHour), slow)
	f.take(midnight+ms(1), ask("key-1", tpd(15)), 5_000, 10_000)
	f.holds(midnight+time.Hour-ms(1), "key-1", 5_000, 10_000)
	f.holds(midnight+time.Hour, "key-1", 20_000, 10_000)
}

// quotaOtherWindowBehind changes the window of a quota by a clock that is before a
// boundary of both windows, which others have passed and spent.
func quotaOtherWindowBehind(f *fixture) {
	f.setDefaults(limiter.Quota("tpd", 100, limiter.EveryHour), slow)
	f.take(midnight, ask("key-1", tpd(100)), 0, 10_000)

	f.setDefaults(daily(100), slow)
	f.take(midnight-ms(1), ask("key-1", limiter.Tokens(slow.Name, 1)), 0, 9_000)

	out := f.refuse(midnight, ask("key-1", tpd(1)), 0, 9_000)
	f.equal("window", out.Payers[0].Detail.Starts, []int64{start(midnight), 0})
	f.holds(midnight+day, "key-1", 100_000, 10_000)
}

func quotaOtherZone(f *fixture) {
	f.setDefaults(daily(100), slow)
	f.take(0, ask("key-1", tpd(70)), 30_000, 10_000)

	f.setDefaults(daily(100).In("Europe/Berlin"), slow)
	berlin := utc(2026, time.March, 14, 23, 0)
	f.take(berlin-ms(1), ask("key-1", tpd(5)), 25_000, 10_000)
	f.holds(berlin, "key-1", 100_000, 10_000)

	// Seen for the first time after a boundary of the old zone and of the new one.
	f.setDefaults(daily(100).In("Asia/Tokyo"), slow)
	out := f.take(midnight+time.Hour, ask("key-1", tpd(5)), 20_000, 10_000)
	f.equal("window", out.Payers[0].Detail.Starts, []int64{start(utc(2026, time.March, 14, 15, 0)), 0})
	f.holds(utc(2026, time.March, 15, 15, 0)-ms(1), "key-1", 20_000, 10_000)
	f.holds(utc(2026, time.March, 15, 15, 0), "key-1", 100_000, 10_000)
}

func quotaFromRate(f *fixture) {
	f.setDefaults(limiter.Custom("tpd", 60, 60, time.Minute))

	f.take(0, ask("key-1", tpd(60)), 0)
	f.take(0, ask("key-2", tpd(10)), 50_000)

	f.setDefaults(daily(40))
	// Ten seconds at the old rate refill 10.
	f.take(10*time.Second, ask("key-1", tpd(3)), 7_000)
	f.take(10*time.Second, ask("key-2", tpd(0)), 40_000)

	f.holds(midnight-ms(1), "key-1", 7_000)
	f.holds(midnight, "key-1", 40_000)
}

func quotaToRate(f *fixture) {
	f.setDefaults(daily(100), slow)

	f.take(0, ask("key-1", tpd(95)), 5_000, 10_000)
	f.setDefaults(limiter.Custom("tpd", 60, 60, time.Minute), slow)
	// The step that was due is not taken.
	out := f.take(midnight, ask("key-1", tpd(5)), 0, 10_000)
	f.equal("detail", out.Payers[0].Detail, (*limiter.Detail)(nil))

	f.holds(midnight+ms(1), "key-1", 1, 10_000)
	f.holds(midnight+time.Minute, "key-1", 60_000, 10_000)
}

func quotaJoins(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)

	f.setDefaults(perMinute60, daily(100))
	out := f.take(midnight+time.Second, ask("key-1", rpm(60).And("tpd", 30)), 0, 70_000)
	f.equal("window", out.Payers[0].Detail.Starts, []int64{0, start(midnight)})

	f.holds(midnight+day-ms(1), "key-1", 60_000, 70_000)
	f.holds(midnight+day, "key-1", 60_000, 100_000)
}

func quotaReadded(f *fixture) {
	f.setDefaults(perMinute60, daily(100))
	f.credit(0, f.take(0, ask("key-1", tpd(100)), 60_000, 0).Payers[0].Account, tpd(-50))

	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(10)), 50_000)

	f.setDefaults(perMinute60, daily(100))
	f.refuse(0, ask("key-1", tpd(0)), 50_000, -50_000)

	f.setDefaults(perMinute60)
	f.take(midnight, ask("key-1", rpm(10)), 50_000)

	f.setDefaults(perMinute60, daily(120))
	// The boundary has left 50, and the higher capacity adds 20.
	f.take(midnight, ask("key-1", tpd(1)), 50_000, 69_000)
}

// quotaNeighbour changes a rate while the bucket's own time is behind a boundary
// and the caller is past it, and the other way round.
func quotaNeighbour(f *fixture) {
	f.setDefaults(perMinute60, daily(100))
	f.take(0, ask("key-1", rpm(0).And("tpd", 90)), 60_000, 10_000)

	f.setDefaults(limiter.PerMinute("rpm", 30), daily(100))
	f.take(midnight, ask("key-1", tpd(20)), 30_000, 80_000)

	f.setDefaults(limiter.PerMinute("rpm", 20), daily(100))
	out := f.take(0, ask("key-1", tpd(20)), 20_000, 60_000)
	f.equal("window", out.Payers[0].Detail.Starts, []int64{0, start(midnight)})
}
