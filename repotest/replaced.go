package repotest

import (
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func replacedChecks() []check {
	return []check{
		{"a month that is used up does not start again after a while of days", replacedMonth},
		{"a day that is used up does not start again after a while of minutes", replacedDay},
		{"programs whose defaults differ do not start again in turn", replacedDefaults},
		{"limits of an entity and resource do not start again after defaults", replacedOwn},
		{"limits that were full leave nothing", replacedFull},
		{"a reset ends what replaced limits leave", replacedReset},
		{"a reset of one limit does not", replacedResetOne},
		{"a deletion ends what replaced limits leave", replacedDeleted},
		{"a quota that has left keeps its bucket until it is full", leftQuota},
		{"a rate that has left refills, and keeps its bucket until it is full", leftRate},
		{"a limit that was full when it left is new when it returns", leftFull},
		{"a limit that was full when it left remembers the month that it replaced", leftSuccessor},
		{"a rate that was full when it left remembers the day that it replaced", leftSuccessorRate},
		{"a limit that left before it was full remembers what it replaced", leftSuccessorLater},
		{"a limit that has left starts full when what it replaced would be full", leftSuccessorEnds},
		{"a reset ends what a limit that has left remembers", leftSuccessorReset},
		{"a limit that has left returns as another kind with what it has", leftKind},
		{"a limit that has left is not charged with the parent's", leftParent},
		{"a lease gives back to a limit that has left", leftLease},
		{"a lease takes late from a limit that is back", leftLeaseBack},
		{"a lease takes late from a limit that the bucket has forgotten", leftLeaseForgotten},
		{"a lease takes late from a limit that the next bucket lacks", leftLeaseReplaced},
		{"a top-up leaves limits that have left", leftTopUp},
		{"a bucket remembers as many limits as it may have", leftMany},
	}
}

// perDay1000 fills in a day.
var perDay1000 = limiter.PerDay("rpm", 1000)

func replacedMonth(f *fixture) {
	f.setDefaults(monthly(300))
	f.take(0, ask("key-1", tpd(300)), 0)

	f.setDefaults(daily(10))
	f.refuse(time.Hour, ask("key-1", tpd(1)), 0)
	f.take(midnight, ask("key-1", tpd(10)), 0)

	// Without the month the bucket would have expired.
	f.listed(midnight+2*day, "key-1", 10_000)

	f.setDefaults(monthly(300))
	f.refuse(midnight+2*day, ask("key-1", tpd(1)), 0)
	f.listed(nextMonth-ms(1), "key-1", 0)
	f.take(nextMonth, ask("key-1", tpd(300)), 0)
}

func replacedDay(f *fixture) {
	f.setDefaults(perDay1000)

	f.take(0, ask("key-1", rpm(1000)), 0)
	f.setDefaults(limiter.PerMinute("rpm", 10))
	f.refuse(0, ask("key-1", rpm(1)), 0)
	f.take(time.Minute, ask("key-1", rpm(10)), 0)

	f.setDefaults(perDay1000)
	f.take(10*time.Minute, ask("key-1", rpm(10)), 0)
	f.refuse(10*time.Minute, ask("key-1", rpm(1)), 0)

	// The bucket stays as long as the first limit would have kept it.
	f.setDefaults(limiter.PerMinute("rpm", 10))
	f.take(time.Hour, ask("key-1", rpm(1)))
	f.listed(day+10*time.Minute-ms(1), "key-1", 10_000)
	f.unlisted(day+time.Hour, "key-1")
}

// replacedDefaults has two programs that call in turn, with idle times in which a
// bucket of the shorter limit expires.
func replacedDefaults(f *fixture) {
	var admitted int64

	for now := time.Duration(0); now < 10*day; now += 30 * time.Hour {
		for _, l := range []limiter.Limit{monthly(300), daily(10)} {
			for range 2 {
				c := ask("key-1", tpd(l.Capacity))
				c.Defaults = []limiter.Limit{l}
				out, err := f.repo.Consume(f.ctx, at(now), c)
				f.ok("Consume", err)
				if out.Admitted {
					admitted += l.Capacity
				}
			}
		}
	}

	if admitted > 300+10*10 {
		f.Errorf("%d admitted in ten days, want at most 300 in a month and 10 a day", admitted)
	}
}

func replacedOwn(f *fixture) {
	own := limiter.Scope{Entity: "key-1", Resource: model}
	f.setLimits(own, perDay1000)
	f.take(0, ask("key-1", rpm(1000)), 0)

	f.setDefaults(limiter.PerMinute("rpm", 10))
	f.deleteConfig(own)
	f.take(6*time.Second, ask("key-1", rpm(1)))
	f.listed(day-ms(1), "key-1", 10_000)

	f.setLimits(own, perDay1000)
	f.refuse(20*time.Minute, ask("key-1", rpm(30)))
}

func replacedFull(f *fixture) {
	f.setDefaults(perDay1000, monthly(300))
	f.take(0, ask("key-1", rpm(0).And("tpd", 0)), 1_000_000, 300_000)

	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)
	f.unlisted(lifetime, "key-1")
}

func replacedReset(f *fixture) {
	f.setDefaults(perDay1000, monthly(300))
	f.take(0, ask("key-1", rpm(1000).And("tpd", 300)), 0, 0)

	f.setDefaults(perMinute60)
	f.refuse(0, ask("key-1", rpm(1)), 0)

	f.reset(0, "key-1")
	f.take(0, ask("key-1", rpm(60)), 0)
	f.unlisted(lifetime, "key-1")

	f.setDefaults(perDay1000, monthly(300))
	f.take(lifetime, ask("key-1", rpm(1000).And("tpd", 300)), 0, 0)
}

func replacedResetOne(f *fixture) {
	f.setDefaults(perDay1000, limiter.PerMinute("tpm", 6000))
	f.take(0, ask("key-1", rpm(1000)), 0, 6_000_000)

	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	f.refuse(0, ask("key-1", rpm(1)), 0, 6_000_000)

	f.reset(0, "key-1", "tpm")
	f.listed(day-ms(1), "key-1", 60_000, 6_000_000)
	f.unlisted(day, "key-1")
}

func replacedDeleted(f *fixture) {
	f.create(limiter.Entity{ID: "key-1", Name: "key-1"})
	f.setDefaults(perDay1000, monthly(300))
	f.take(0, ask("key-1", rpm(1000).And("tpd", 300)), 0, 0)

	f.setDefaults(perMinute60)
	f.refuse(0, ask("key-1", rpm(1)), 0)
	f.deleteEntity("key-1")

	f.setDefaults(perDay1000, monthly(300))
	f.take(0, ask("key-1", rpm(1000).And("tpd", 300)), 0, 0)
}

func leftQuota(f *fixture) {
	f.setDefaults(perMinute60, daily(100))
	f.credit(0, f.take(0, ask("key-1", tpd(100)), 60_000, 0).Payers[0].Account, tpd(-20))

	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(1)), 59_000)

	f.listed(midnight+day-ms(1), "key-1", 60_000)
	// The second boundary fills the limit that has left.
	f.unlisted(midnight+day, "key-1")

	f.take(midnight, ask("key-1", rpm(1)), 59_000)
	f.setDefaults(perMinute60, daily(100))
	// The write at midnight has stepped the limit.
	out := f.take(midnight-ms(1), ask("key-1", tpd(0)), 59_000, 80_000)

	f.equal("window", out.Payers[0].Detail.Starts, []int64{0, start(midnight)})
}

func leftRate(f *fixture) {
	slower := limiter.PerHour("tpm", 3600)
	f.setDefaults(perMinute60, slower)
	f.take(0, ask("key-1", tpm(3600)), 60_000, 0)

	f.setDefaults(perMinute60)
	f.take(time.Second, ask("key-1", rpm(1)), 59_000)
	f.take(time.Minute, ask("key-1", rpm(1)), 59_000)
	f.listed(time.Hour-ms(1), "key-1", 60_000)
	f.unlisted(time.Hour, "key-1")

	f.setDefaults(perMinute60, slower)
	f.take(10*time.Minute, ask("key-1", tpm(0)), 60_000, 600_000)
}

func leftFull(f *fixture) {
	both := []limiter.Limit{perMinute60, limiter.PerMinute("tpm", 100)}
	f.setDefaults(both...)
	f.take(0, ask("key-1", rpm(60).And("tpm", 100)), 0, 0)

	f.setDefaults(both[0])
	f.take(30*time.Second, ask("key-1", rpm(1)), 29_000)
	// The tpm limit is full, so the bucket forgets it.
	f.take(time.Minute, ask("key-1", rpm(1)), 58_000)

	f.setDefaults(both[0], limiter.PerMinute("tpm", 200))
	f.take(time.Minute, ask("key-1", tpm(200)), 58_000, 0)

	f.setDefaults(both[0])
	f.take(time.Minute, ask("key-1", rpm(1)), 57_000)
	f.setDefaults(both[0], limiter.PerMinute("tpm", 300))
	// Nothing was written since, but the limit was full all the same.
	f.take(150*time.Second, ask("key-1", tpm(300)), 60_000, 0)
}

// perSecond14 is full again within a second.
var perSecond14 = limiter.PerSecond("tpd", 28).WithBurst(14)

// succeed empties a quota, and sets perSecond14 in its place.
func succeed(f *fixture, quota limiter.Limit) {
	f.setDefaults(perMinute60, quota)
	f.take(0, ask("key-1", tpd(quota.Capacity)), 60_000, 0)

	f.setDefaults(perMinute60, perSecond14)
	f.refuse(0, ask("key-1", tpd(1)), 60_000, 0)
}

func leftSuccessor(f *fixture) {
	succeed(f, monthly(179))
	f.take(time.Minute, ask("key-1", tpd(0)), 60_000, 14_000)

	f.setDefaults(perMinute60)
	// The tpd limit is full, but the bucket remembers it with what it replaced.
	f.take(2*time.Minute, ask("key-1", rpm(1)), 59_000)
	f.take(3*time.Minute, ask("key-1", rpm(1)), 59_000)

	f.setDefaults(perMinute60, monthly(179))
	f.take(4*time.Minute, ask("key-1", tpd(14)), 60_000, 0)
	f.refuse(4*time.Minute, ask("key-1", tpd(1)), 60_000, 0)

	f.take(nextMonth, ask("key-1", tpd(179)), 60_000, 0)
}

func leftSuccessorRate(f *fixture) {
	f.setDefaults(perDay1000, limiter.PerMinute("tpm", 60))
	f.take(0, ask("key-1", rpm(1000)), 0, 60_000)

	f.setDefaults(limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 60))
	f.refuse(0, ask("key-1", rpm(1)), 0, 60_000)
	f.take(10*time.Minute, ask("key-1", rpm(0)), 10_000, 60_000)

	// The limit is full at 10, but at 1,000 a day it would not be.
	f.setDefaults(limiter.PerMinute("tpm", 60))
	f.take(10*time.Minute, ask("key-1", tpm(1)), 59_000)

	f.setDefaults(perDay1000, limiter.PerMinute("tpm", 60))
	f.take(10*time.Minute, ask("key-1", rpm(10)), 0, 59_000)
	f.refuse(10*time.Minute, ask("key-1", rpm(1)), 0, 59_000)
}

// leftSuccessorLater has a limit that leaves empty, and that no write finds full before
// it returns.
func leftSuccessorLater(f *fixture) {
	succeed(f, monthly(179))

	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(1)), 59_000)

	f.setDefaults(perMinute60, monthly(179))
	f.take(time.Hour, ask("key-1", tpd(14)), 60_000, 0)
	f.refuse(time.Hour, ask("key-1", tpd(1)), 60_000, 0)
}

func leftSuccessorEnds(f *fixture) {
	succeed(f, daily(100))
	f.take(time.Minute, ask("key-1", tpd(0)), 60_000, 14_000)

	f.setDefaults(perMinute60)
	f.take(midnight-ms(1), ask("key-1", rpm(1)), 59_000)
	f.take(midnight, ask("key-1", rpm(1)), 58_001)

	f.setDefaults(perMinute60, daily(100))
	f.take(midnight, ask("key-1", tpd(100)), 58_001, 0)
}

func leftSuccessorReset(f *fixture) {
	succeed(f, monthly(179))
	f.take(time.Minute, ask("key-1", tpd(0)), 60_000, 14_000)

	f.setDefaults(perMinute60)
	f.take(2*time.Minute, ask("key-1", rpm(1)), 59_000)
	f.reset(2*time.Minute, "key-1")

	f.setDefaults(perMinute60, monthly(179))
	f.take(2*time.Minute, ask("key-1", tpd(179)), 60_000, 0)
}

func leftKind(f *fixture) {
	f.setDefaults(perMinute60, daily(100))
	f.take(0, ask("key-1", tpd(70)), 60_000, 30_000)

	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(1)), 59_000)

	f.setDefaults(perMinute60, perHourTPD)
	f.take(time.Minute, ask("key-1", tpd(0)), 60_000, 30_000)

	f.setDefaults(perMinute60)
	f.take(time.Minute, ask("key-1", rpm(1)), 59_000)

	f.setDefaults(perMinute60, monthly(100))
	f.take(2*time.Minute, ask("key-1", tpd(31)), 60_000, 0)
	f.listed(nextMonth-ms(1), "key-1", 60_000, 0)
}

func leftParent(f *fixture) {
	f.createCascading("key-1", "project-1")

	f.setLimits(limiter.Scope{Entity: "project-1"}, limiter.PerMinute("tpm", 6000))
	own := limiter.Scope{Entity: "key-1"}
	f.setLimits(own, perMinute60, limiter.PerDay("tpm", 1000))

	f.paid(f.take(0, ask("key-1", rpm(1).And("tpm", 400)), 59_000, 600_000), "project-1", 5_600_000)

	f.setLimits(own, perMinute60)
	f.paid(f.take(0, ask("key-1", rpm(1).And("tpm", 400)), 58_000), "project-1", 5_200_000)
	f.paid(f.take(0, ask("key-1", tpm(400)), 58_000), "project-1", 4_800_000)

	f.setLimits(own, perMinute60, limiter.PerDay("tpm", 1000))
	f.paid(f.take(0, ask("key-1", tpm(600)), 58_000, 0), "project-1", 4_200_000)
}

func leftLease(f *fixture) {
	f.setDefaults(perMinute60, daily(100))
	lim := f.limiter(0)
	lease, err := lim.Acquire(f.ctx, request(rpm(1).And("tpd", 90)))
	f.ok("Acquire", err)

	f.setDefaults(perMinute60)
	f.ok("Consume", lease.Consume(f.ctx, rpm(1)))
	f.ok("Used", lease.Used("tpd", 40))
	f.ok("Commit", lease.Commit(f.ctx))

	f.setDefaults(perMinute60, daily(100))
	f.take(0, ask("key-1", tpd(60)), 58_000, 0)
}

// leftLeaseBack has a limit that was full when it left, and is in force again before its
// bucket was charged.
func leftLeaseBack(f *fixture) {
	f.setDefaults(daily(100))
	account := f.take(0, ask("key-1", tpd(0)), 100_000).Payers[0].Account

	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(1)), 59_000)

	f.setDefaults(daily(100))
	f.credit(0, account, tpd(-80))
	f.holds(0, "key-1", 20_000)

	f.take(0, ask("key-1", tpd(20)), 0)
	f.holds(midnight, "key-1", 100_000)
}

// leftLeaseForgotten fills the limit before it leaves.
func leftLeaseForgotten(f *fixture) {
	f.setDefaults(perMinute60, daily(100))
	account := f.take(0, ask("key-1", rpm(1).And("tpd", 30)), 59_000, 70_000).Payers[0].Account

	f.setDefaults(perMinute60)
	// At midnight the limit is full, and the next write forgets it.
	f.take(midnight, ask("key-1", rpm(60)), 0)
	f.take(midnight+time.Second, ask("key-1", rpm(1)), 0)

	f.credit(midnight+time.Second, account, rpm(-2).And("tpd", -80))
	f.refuse(midnight+time.Second, ask("key-1", rpm(0)), -2_000)

	f.setDefaults(perMinute60, daily(100))
	f.take(midnight+time.Minute, ask("key-1", tpd(20)), 57_000, 0)

	f.holds(midnight+day, "key-1", 60_000, 100_000)
}

// leftLeaseReplaced lets the bucket of the lease expire.
func leftLeaseReplaced(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	account := f.take(0, ask("key-1", rpm(1).And("tpm", 1000))).Payers[0].Account

	f.setDefaults(perMinute60)
	late := 30 * day
	f.unlisted(late, "key-1")

	f.credit(late, account, tpm(-500))

	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	f.take(late, ask("key-1", rpm(1)), 59_000, 5_500_000)

	if f.countsUsage {
		u := first(f, "Usage",
			f.usage(limiter.UsageQuery{Entity: "key-1", Window: limiter.Daily, From: at(late - day)}))
		f.equal("usage", u.Counters, map[string]int64{"tpm": 500, "rpm": 1})
	}
}

func leftTopUp(f *fixture) {
	f.setDefaults(perMinute60, daily(100))
	f.take(0, ask("key-1", rpm(60).And("tpd", 100)), 0, 0)

	f.setDefaults(perMinute60)
	f.topUp(0, rpm(10), "gift", true)
	f.take(0, ask("key-1", rpm(10)), 0)

	f.setDefaults(perMinute60, daily(100))
	f.refuse(0, ask("key-1", tpd(1)), 0, 0)
}

// leftMany replaces 20 limits by 10 others. 14 of the first stay, the emptiest.
func leftMany(f *fixture) {
	name := func(i int) string { return fmt.Sprintf("limit-%02d", i) }
	var first, others []limiter.Limit
	var amounts limiter.Amounts
	for i := range 20 {
		first = append(first, limiter.Quota(name(i), 100, limiter.EveryDay))
		amounts = amounts.And(name(i), int64(50+i))
	}

	for i := range 10 {
		others = append(others, limiter.Quota(fmt.Sprintf("other-%02d", i), 100, limiter.EveryDay))
	}

	f.setDefaults(first...)
	f.take(0, ask("key-1", amounts))

	f.setDefaults(others...)
	f.take(0, ask("key-1", limiter.Tokens("other-00", 1)))

	f.setDefaults(first...)
	out := f.take(0, ask("key-1", limiter.Tokens(name(0), 0)))

	for i, got := range out.Payers[0].Tokens {
		want := int64(50-i) * 1000
		// The fullest were forgotten.
		if i < 6 {
			want = 100_000
		}

		if got != want {
			f.Errorf("%s has %d thousandths, want %d", name(i), got, want)
		}
	}
}
