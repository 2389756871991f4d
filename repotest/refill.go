package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func refillChecks() []check {
	return []check{
		{"twice the capacity never gets through", noDoubleBurst},
		{"refill telescopes", telescopes},
		{"splitting an interval does not change the refill", cutIntervals},
		{"a slow limit beside a busy one does not starve", slowDoesNotStarve},
		{"refill stops at the capacity", stopsAtCapacity},
		{"a clock that is behind mints nothing", clockBehind},
		{"times count in whole milliseconds", wholeMilliseconds},
		{"debt is repaid by refill", debtRepaid},
		{"the largest limits stay exact", largestLimits},
		{"the slowest limits stay exact", slowestLimits},
	}
}

func noDoubleBurst(f *fixture) {
	f.setDefaults(limiter.PerMinute("rpm", 100))

	f.take(0, ask("key-1", rpm(1)), 99_000)
	f.take(time.Minute, ask("key-1", rpm(99)), 1_000)
	f.refuse(time.Minute, ask("key-1", rpm(100)), 1_000)
}

// telescopes has a rate of 7 thousandths in 60 ms. Counted from 1970, the
// epoch is 20 ms into such a period: floor(now*7/60) has just passed 2.
func telescopes(f *fixture) {
	f.setDefaults(limiter.Custom("tpm", 1000, 7, time.Minute))
	f.take(0, ask("key-1", tpm(500)), 500_000)

	for _, step := range [][2]int64{
		{5, 500_000}, {6, 500_001}, {14, 500_001}, {15, 500_002}, {60, 500_007}, {65, 500_007}, {66, 500_008},
	} {
		f.holds(ms(step[0]), "key-1", step[1])
	}
}

func cutIntervals(f *fixture) {
	f.setDefaults(limiter.Custom("tpm", 1000, 7, time.Minute))
	f.take(0, ask("whole", tpm(500)))
	f.take(0, ask("cut", tpm(500)))

	for i := range int64(95) {
		f.take(ms(i), ask("cut", tpm(0)))
	}

	// (20+94)*7/60 is 13.3, less the 2 of the beginning.
	f.holds(ms(94), "whole", 500_011)
	f.holds(ms(94), "cut", 500_011)
}

// slowDoesNotStarve refills the slow limit by a thousandth in 8.64 s, and
// writes ten times as often.
func slowDoesNotStarve(f *fixture) {
	f.setDefaults(limiter.PerDay("slow", 10), limiter.PerSecond("busy", 1000))
	f.take(0, ask("key-1", limiter.Tokens("slow", 10)))

	for i := range int64(108) {
		f.take(ms((i+1)*800), ask("key-1", limiter.Tokens("busy", 1)))
	}
	f.holds(ms(86_400), "key-1", 999_000, 10)
}

func stopsAtCapacity(f *fixture) {
	f.setDefaults(limiter.Custom("rpm", 100, 60, time.Minute))
	f.take(0, ask("key-1", rpm(100)), 0)
	f.holds(ms(99_999), "key-1", 99_999)
	f.holds(100*time.Second, "key-1", 100_000)
	f.take(300*time.Second, ask("key-1", rpm(0)), 100_000)
}

func clockBehind(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(60*time.Second, ask("key-1", rpm(10)), 50_000)

	f.take(0, ask("key-1", rpm(1)), 49_000)
	f.holds(0, "key-1", 49_000)
	f.holds(60*time.Second, "key-1", 49_000)
	f.holds(61*time.Second, "key-1", 50_000)
}

func wholeMilliseconds(f *fixture) {
	f.setDefaults(perMinute60)
	// The clock counts as 0 ms here, and as 1 ms in the next call.
	f.take(999*time.Microsecond, ask("key-1", rpm(60)), 0)
	f.take(1999*time.Microsecond, ask("key-1", rpm(0)), 1)
	f.holds(ms(2), "key-1", 2)
}

func debtRepaid(f *fixture) {
	f.setDefaults(perMinute60)
	out := f.take(0, ask("key-1", rpm(60)), 0)
	f.credit(0, out.Payers[0].Account, rpm(-90))

	f.holds(time.Second, "key-1", -89_000)
	f.refuse(90*time.Second, ask("key-1", rpm(1)), 0)
	f.take(91*time.Second, ask("key-1", rpm(1)), 0)
}

// largestLimits has products of time and rate far beyond 64 bits.
func largestLimits(f *fixture) {
	const most = (1<<63 - 1) / 1000
	f.setDefaults(limiter.PerSecond("tpm", most))
	f.take(0, ask("key-1", tpm(most)), 0)

	f.holds(time.Millisecond, "key-1", most)
	f.holds(ms(999), "key-1", most*999)
	f.holds(time.Minute, "key-1", most*1000)

	f.take(time.Millisecond, ask("key-1", tpm(most/1000)), most-most/1000*1000)
}

// slowestLimits refills a token in a hundred years, a thousandth in 36.5 days.
func slowestLimits(f *fixture) {
	const year = 365 * 24 * time.Hour
	f.setLimits(limiter.Scope{Entity: "key-1", Resource: model}, limiter.Custom("rpm", 5, 1, 100*year))
	f.take(0, ask("key-1", rpm(5)), 0)

	f.holds(year, "key-1", 10)
	f.holds(100*year, "key-1", 1_000)
}
