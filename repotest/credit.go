package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func creditChecks() []check {
	return []check{
		{"giving back stops at the capacity", creditStopsAtCapacity},
		{"taking goes into debt", creditTakesIntoDebt},
		{"a bucket is refilled before it is credited", creditRefillsFirst},
		{"one credit may give and take", creditBothSigns},
		{"each credit is applied by itself", creditsAddUp},
		{"a credit for a bucket that is gone does not stop the others", creditsIndependent},
		{"a clock that is behind moves nothing back", creditClockBehind},
		{"a limit that has left is credited until it is full", creditLeftLimit},
		{"what was spared of a limit that the bucket lacks keeps no bucket", creditSparedLeft},
		{"an account outlives a change of limits", creditAfterRepair},
		{"entity and parent are credited each by itself", creditParent},
		{"an empty credit does nothing", creditNothing},
		{"the largest credits do not wrap around", creditLargest},
		{"a charge of nothing has accounts that can be credited", creditAfterNothing},
	}
}

func creditStopsAtCapacity(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(10)), 50_000).Payers[0].Account

	f.credit(0, account, rpm(4))
	f.holds(0, "key-1", 54_000)

	f.credit(0, account, rpm(7))
	f.holds(0, "key-1", 60_000)
	f.refuse(0, ask("key-1", rpm(61)), 60_000)

	// The part above the capacity was not kept for the next take.
	f.credit(0, account, rpm(9))
	f.credit(0, account, rpm(-5))
	f.holds(0, "key-1", 55_000)
}

func creditTakesIntoDebt(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(10)), 50_000).Payers[0].Account

	f.credit(0, account, rpm(-200))
	f.holds(0, "key-1", -150_000)

	f.credit(0, account, rpm(160))
	f.holds(0, "key-1", 10_000)
}

// creditRefillsFirst takes late from a bucket that has been full for a while.
// The bucket pays from its capacity, and does not get the time it was full
// again.
func creditRefillsFirst(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(10)), 50_000).Payers[0].Account

	f.credit(30*time.Second, account, rpm(-20))
	f.holds(30*time.Second, "key-1", 40_000)

	f.credit(35*time.Second, account, rpm(16))
	f.holds(35*time.Second, "key-1", 60_000)
	f.holds(36*time.Second, "key-1", 60_000)
}

func creditBothSigns(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	account := f.take(0, ask("key-1", rpm(10).And("tpm", 1000)), 50_000, 5_000_000).Payers[0].Account

	f.credit(0, account, rpm(1).And("tpm", -6000))
	f.holds(0, "key-1", 51_000, -1_000_000)
}

func creditsAddUp(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(10)), 50_000).Payers[0].Account

	give, take := limiter.Credit{Account: account, Amounts: rpm(8)}, limiter.Credit{Account: account, Amounts: rpm(-5)}

	f.ok("Credit", f.repo.Credit(f.ctx, epoch, give, take, take))
	f.holds(0, "key-1", 48_000)
}

func creditsIndependent(f *fixture) {
	f.setDefaults(perMinute60)

	gone := f.take(0, ask("key-1", rpm(10))).Payers[0].Account
	here := f.take(0, ask("key-2", rpm(10))).Payers[0].Account
	f.deleteEntity("key-1")

	f.ok("Credit",
		f.repo.Credit(f.ctx, epoch, limiter.Credit{Account: gone, Amounts: rpm(1)},
			limiter.Credit{Account: here, Amounts: rpm(2)}))
	f.holds(0, "key-2", 52_000)
}

func creditClockBehind(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(time.Minute, ask("key-1", rpm(60)), 0).Payers[0].Account

	f.credit(0, account, rpm(5))
	// A bucket whose time went back would gain this minute again.
	f.holds(time.Minute, "key-1", 5_000)

	f.credit(62*time.Second, account, rpm(-1))
	f.holds(0, "key-1", 6_000)
	f.holds(63*time.Second, "key-1", 7_000)
}

func creditLeftLimit(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	account := f.take(0, ask("key-1", rpm(10).And("tpm", 1000))).Payers[0].Account

	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(0)), 50_000)

	f.credit(0, account, tpm(-9000).And("rpm", 3))
	f.holds(0, "key-1", 53_000)

	// A second has refilled 100.
	f.credit(time.Second, account, tpm(500))

	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	f.take(time.Second, ask("key-1", rpm(0)), 54_000, -3_400_000)

	f.setDefaults(perMinute60)
	f.take(time.Second, ask("key-1", rpm(0)), 54_000)

	// This fills the limit, so that the bucket forgets it.
	f.credit(time.Second, account, tpm(9400))
	f.credit(time.Second, account, tpm(-9000))

	// A higher capacity adds nothing: the limit has 6,000 less the 9,000 that
	// it owes.
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 7000))
	f.refuse(time.Second, ask("key-1", tpm(0)), 54_000, -3_000_000)
}

// creditSparedLeft has a bucket that expires after seven minutes without a write.
func creditSparedLeft(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	account := f.take(0, ask("key-1", rpm(1))).Payers[0].Account
	f.setDefaults(perMinute60)
	f.take(time.Second, ask("key-1", rpm(0)), 60_000)

	spared := limiter.Credit{Account: account, Amounts: tpm(-5), Spared: []string{"tpm"}}
	f.ok("Credit", f.repo.Credit(f.ctx, at(6*time.Minute), spared))
	// The last write was at 1 s: a credit that changes no balance does not
	// renew the bucket.
	f.listed(7*time.Minute, "key-1", 60_000)
	f.unlisted(8*time.Minute, "key-1")
}

func creditAfterRepair(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(30)), 30_000).Payers[0].Account

	f.setDefaults(limiter.PerMinute("rpm", 600))
	f.take(0, ask("key-1", rpm(0)), 30_000)
	f.credit(0, account, rpm(40))
	f.holds(0, "key-1", 70_000)

	f.setDefaults(limiter.PerMinute("rpm", 30))
	f.take(0, ask("key-1", rpm(20)), 10_000)
	f.credit(0, account, rpm(40))
	f.holds(0, "key-1", 30_000)
}

func creditParent(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")
	out := f.take(0, ask("key-1", rpm(10)), 50_000)
	f.paid(out, "project-1", 50_000)

	f.credit(0, out.Payers[0].Account, rpm(1))
	f.holds(0, "project-1", 50_000)

	f.credit(0, out.Payers[1].Account, rpm(2))
	f.holds(0, "key-1", 51_000)
	f.holds(0, "project-1", 52_000)
}

func creditNothing(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(10)), 50_000).Payers[0].Account

	f.ok("Credit", f.repo.Credit(f.ctx, epoch))
	f.credit(0, account, limiter.Amounts{})
	f.credit(0, account, rpm(0))

	f.holds(0, "key-1", 50_000)
	f.holds(time.Second, "key-1", 51_000)
}

func creditLargest(f *fixture) {
	const most = 1<<63 - 1
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(10))).Payers[0].Account

	f.credit(0, account, rpm(most))
	f.holds(0, "key-1", 60_000)

	// Each debit alone reaches the end of the range of an int64, so that the
	// next one could wrap around.
	for range 3 {
		f.credit(0, account, rpm(-most))
		out := f.refuse(time.Hour, ask("key-1", rpm(0)))
		if left := first(f, "balance", out.Payers[0].Tokens); left >= 0 {
			f.Errorf("balance %d after everything was taken, want debt", left)
		}
	}
}

// creditAfterNothing charges nothing while the parent is in debt. The charge is
// admitted and creates the missing bucket, so that the bucket can pay.
func creditAfterNothing(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")
	f.credit(0, f.take(0, ask("project-1", rpm(60))).Payers[0].Account, rpm(-60))

	out := f.take(0, ask("key-1", limiter.Amounts{}), 60_000)
	f.paid(out, "project-1", -60_000)

	f.credit(0, out.Payers[0].Account, rpm(-70))
	f.credit(0, out.Payers[1].Account, rpm(-70))

	f.holds(0, "key-1", -10_000)
	f.holds(0, "project-1", -130_000)
}
