package repotest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// The checks in this file change windows and capacities together.
func quotaCarriedChecks() []check {
	return []check{
		{"a raise after a change of windows shows what was used before", quotaCarriedRaise},
		{"what is left after a change of windows is there after a raise", quotaCarriedRoom},
		{"a capacity that is lowered again after a change of windows owes nothing", quotaCarriedTypo},
		{"a quota that is lowered and changes its windows in turn owes nothing more", quotaCarriedLowered},
		{"debt stays when windows and capacities change", quotaCarriedDebt},
		{"a raise after a while as a rate shows what was used before", quotaCarriedRate},
		{"a rate that becomes a quota owes nothing after changes of its capacity", quotaCarriedUnknown},
		{"a give-back reaches what a change of windows has hidden", quotaCarriedGiven},
		{"a boundary ends what a change of windows has hidden", quotaCarriedBoundary},
		{"a reset ends what a change of windows has hidden", quotaCarriedReset},
		{"a limit that leaves remembers what a change of windows has hidden", quotaCarriedLeft},
		{"windows and capacities that change in any order admit the largest capacity", quotaCarriedAny},
	}
}

// yearly returns a quota of n tokens a year.
func yearly(n int64) limiter.Limit { return limiter.Quota("tpd", n, limiter.EveryYear) }

// setOwn stores limits of a key and the default resource, which change its bucket at
// once.
func (f *fixture) setOwn(d time.Duration, key string, limits ...limiter.Limit) {
	f.Helper()
	ev := f.event("limits_set", key)
	ev.At = at(d)
	own := limiter.Scope{Entity: key, Resource: model}
	f.ok("SetConfig", f.repo.SetConfig(f.ctx, limiter.Config{Scope: own, Limits: limits}, ev))
}

// becomes changes the limit of key-1, and checks its balance.
func (f *fixture) becomes(d time.Duration, l limiter.Limit, want int64) {
	f.Helper()
	f.setOwn(d, "key-1", l)
	f.equal(fmt.Sprintf("balance of %s after %v", l, d), f.peek(d, ask("key-1", tpd(0))).Payers[0].Tokens,
		[]int64{want})
}

func quotaCarriedRaise(f *fixture) {
	f.setOwn(0, "key-1", monthly(100))

	f.take(0, ask("key-1", tpd(100)), 0)
	f.becomes(0, daily(10), 0)
	f.becomes(0, daily(60), 0)
	f.becomes(0, daily(100), 0)

	f.becomes(0, monthly(100), 0)
	f.becomes(0, daily(10), 0)
	f.becomes(0, yearly(10), 0)
	// The largest capacity before was 100, so 50 are new.
	f.becomes(0, yearly(150), 50_000)
	f.becomes(0, monthly(150), 50_000)
	f.becomes(0, yearly(70), 50_000)
	f.becomes(0, yearly(150), 50_000)

	f.take(0, ask("key-1", tpd(50)), 0)
	f.holds(nextMonth, "key-1", 0)
}

// quotaCarriedRoom has changes that hide nothing, or less than the whole raise.
func quotaCarriedRoom(f *fixture) {
	f.setOwn(0, "key-1", monthly(100))
	f.take(0, ask("key-1", tpd(50)), 50_000)

	f.becomes(0, daily(10), 10_000)
	f.take(0, ask("key-1", tpd(4)), 6_000)

	f.becomes(0, yearly(10), 6_000)
	f.becomes(0, daily(10), 6_000)
	// Of the 100, 54 are used.
	f.becomes(0, daily(100), 46_000)

	f.becomes(0, daily(120), 66_000)
	f.becomes(0, daily(100), 46_000)
	f.becomes(0, monthly(100), 46_000)

	f.reset(0, "key-1")

	f.becomes(0, daily(10), 10_000)
	f.take(0, ask("key-1", tpd(4)), 6_000)
	f.becomes(0, daily(100), 96_000)
}

func quotaCarriedTypo(f *fixture) {
	f.setOwn(0, "key-1", monthly(100))

	f.take(0, ask("key-1", tpd(100)), 0)

	f.becomes(0, daily(1000), 0)
	// With nothing left, 1,000 a day show a use of 1,000. The 900 that nothing
	// has used must not become debt.
	f.becomes(0, daily(100), 0)
	f.becomes(0, monthly(100), 0)

	f.becomes(0, monthly(130), 30_000)
	f.becomes(0, monthly(100), 0)

	f.holds(nextMonth, "key-1", 100_000)
}

func quotaCarriedLowered(f *fixture) {
	f.setOwn(0, "key-1", monthly(100))

	f.take(0, ask("key-1", tpd(100)), 0)
	for range 3 {
		f.becomes(0, monthly(10), -90_000)
		f.becomes(0, daily(10), -90_000)
		f.becomes(0, monthly(100), 0)
		f.becomes(0, daily(10), 0)
		f.becomes(0, daily(5), -5_000)
		f.becomes(0, monthly(100), 0)
	}

	f.holds(nextMonth, "key-1", 100_000)
}

func quotaCarriedDebt(f *fixture) {
	f.setOwn(0, "key-1", monthly(100))

	f.credit(0, f.take(0, ask("key-1", tpd(100)), 0).Payers[0].Account, tpd(-50))
	for _, l := range []limiter.Limit{daily(200), daily(100), yearly(100), yearly(300).In("Asia/Tokyo"), daily(50)} {
		f.becomes(0, l, -50_000)
	}

	f.becomes(0, monthly(100), -50_000)
	f.holds(nextMonth, "key-1", 50_000)
}

// quotaCarriedRate changes to a rate that fills at once, and to one that does not.
func quotaCarriedRate(f *fixture) {
	f.setOwn(0, "key-1", daily(100))
	f.take(0, ask("key-1", tpd(100)), 0)

	f.becomes(0, limiter.Custom("tpd", 1, 1, time.Second), 0)
	f.becomes(time.Minute, daily(1), 1_000)
	f.becomes(time.Minute, daily(100), 1_000)

	f.becomes(time.Minute, limiter.Custom("tpd", 70, 1, 365*day), 1_000)
	f.becomes(time.Minute, daily(70), 1_000)
	f.becomes(time.Minute, daily(100), 1_000)

	f.holds(midnight, "key-1", 100_000)
}

// quotaCarriedUnknown has a rate that replaced a quota, and one that is not full.
func quotaCarriedUnknown(f *fixture) {
	f.setOwn(0, "key-1", yearly(50))
	f.take(0, ask("key-1", tpd(1)), 49_000)

	f.becomes(0, limiter.Custom("tpd", 50, 1, time.Second), 49_000)
	for range 3 {
		f.becomes(time.Minute, monthly(50), 50_000)
		f.becomes(time.Minute, monthly(150), 50_000)
	}

	f.take(time.Minute, ask("key-1", tpd(20)), 30_000)
	f.becomes(time.Minute, monthly(10), 10_000)
	f.becomes(time.Minute, monthly(50), 10_000)

	f.holds(nextMonth, "key-1", 50_000)

	f.reset(nextMonth, "key-1")
	f.becomes(nextMonth, limiter.Custom("tpd", 1000, 1, 365*day), 50_000)
	f.becomes(nextMonth, monthly(1000), 50_000)
	f.becomes(nextMonth, monthly(20), 20_000)
	f.becomes(nextMonth, monthly(1000), 20_000)
}

// quotaCarriedGiven gives back more than a smaller quota of other windows shows.
func quotaCarriedGiven(f *fixture) {
	f.setOwn(0, "key-1", monthly(100))
	account := f.take(0, ask("key-1", tpd(90)), 10_000).Payers[0].Account

	f.becomes(0, daily(10), 10_000)
	f.credit(0, account, tpd(50))
	// Of the 90, 40 are still used.
	f.becomes(0, daily(100), 60_000)
	f.becomes(0, daily(10), -30_000)

	f.credit(0, account, tpd(40))
	f.becomes(0, daily(10), 10_000)
	f.becomes(0, daily(100), 100_000)
	f.becomes(0, daily(10), 10_000)

	f.setOwn(0, "key-1", monthly(10))
	f.take(0, ask("key-1", tpd(4)), 6_000)
	f.becomes(0, monthly(100), 96_000)
}

func quotaCarriedBoundary(f *fixture) {
	f.setOwn(0, "key-1", monthly(100))

	f.take(0, ask("key-1", tpd(100)), 0)
	f.becomes(0, daily(10), 0)

	f.take(midnight, ask("key-1", tpd(4)), 6_000)
	f.becomes(midnight, daily(100), 96_000)
	f.becomes(midnight, daily(10), 6_000)
}

func quotaCarriedReset(f *fixture) {
	f.setOwn(0, "key-1", monthly(100))

	f.take(0, ask("key-1", tpd(100)), 0)
	f.becomes(0, daily(10), 0)
	f.reset(0, "key-1", "tpd")

	f.take(0, ask("key-1", tpd(4)), 6_000)
	f.becomes(0, daily(100), 96_000)
}

func quotaCarriedLeft(f *fixture) {
	f.setOwn(0, "key-1", monthly(100), slow)

	f.take(0, ask("key-1", tpd(100)), 0, 10_000)
	f.setOwn(0, "key-1", daily(10), slow)
	f.refuse(0, ask("key-1", tpd(1)), 0, 10_000)

	f.setOwn(0, "key-1", slow)
	f.take(0, ask("key-1", limiter.Tokens(slow.Name, 1)), 9_000)

	f.setOwn(0, "key-1", daily(100), slow)
	f.refuse(0, ask("key-1", tpd(1)), 0, 9_000)

	f.setOwn(0, "key-1", slow)
	f.take(0, ask("key-1", limiter.Tokens(slow.Name, 1)), 8_000)

	f.setOwn(0, "key-1", daily(110), slow)
	// The limit has 10 more than what is used.
	f.refuse(0, ask("key-1", tpd(11)), 10_000, 8_000)
}

// quotaCarriedAny changes limits at random while no boundary passes, and takes what it
// gets, or gives some back. No sum may exceed the largest capacity that was in force.
func quotaCarriedAny(f *fixture) {
	windows := []func(n int64) limiter.Limit{
		daily, monthly, yearly,
		func(n int64) limiter.Limit { return daily(n).In("Asia/Tokyo") },
		func(n int64) limiter.Limit { return limiter.Custom("tpd", n, 1, 365*day) },
	}
	for seed := range uint64(12) {
		rng, key := rand.New(rand.NewPCG(seed, 0)), fmt.Sprint("key-", seed)
		var used, largest int64
		for range 24 {
			l := windows[rng.IntN(len(windows))](1 + rng.Int64N(100))

			largest = max(largest, l.Capacity)
			f.setOwn(0, key, l)

			self := f.peek(0, ask(key, tpd(0))).Payers[0]
			n := self.Tokens[0] / milli
			switch {
			case n > 0 && rng.IntN(3) > 0:
				f.take(0, ask(key, tpd(n)))
				used += n
			case used > 0 && rng.IntN(3) == 0:
				n = 1 + rng.Int64N(used)
				f.credit(0, self.Account, tpd(n))
				used -= n
			}

			if used > largest {
				f.Fatalf("seed %d: %d admitted where at most %d a window were in force, the last %s", seed, used,
					largest, l)
			}
		}
	}
}
