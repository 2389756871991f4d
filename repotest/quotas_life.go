package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func quotaExpiry(f *fixture) {
	f.setDefaults(daily(100))
	f.credit(0, f.take(0, ask("key-1", tpd(100)), 0).Payers[0].Account, tpd(-101))

	f.take(0, ask("key-2", tpd(1)), 99_000)
	// A bucket of quotas alone stays for a day after its last write.
	f.listed(midnight-ms(1), "key-2", 99_000)
	f.listed(day-ms(1), "key-2", 100_000)
	f.unlisted(day, "key-2")

	// The boundaries leave -1, then 99, and the third one fills the quota.
	f.listed(midnight+2*day-ms(1), "key-1", 99_000)
	f.unlisted(midnight+2*day, "key-1")

	f.take(midnight, ask("key-2", tpd(100)), 0)
	f.listed(midnight+day-ms(1), "key-2", 0)
}

func quotaMixedExpiry(f *fixture) {
	f.setDefaults(perMinute60, daily(100))

	f.take(0, ask("key-1", rpm(60).And("tpd", 1)), 0, 99_000)
	f.listed(lifetime, "key-1", 60_000, 99_000)
	f.listed(midnight-ms(1), "key-1", 60_000, 99_000)
	f.unlisted(midnight, "key-1")

	// Shortly before the boundary, the idle time of the rate ends after the
	// window.
	f.take(midnight-time.Minute, ask("key-2", tpd(1)), 60_000, 99_000)
	f.listed(midnight-time.Minute+lifetime-ms(1), "key-2", 60_000, 100_000)
	f.unlisted(midnight-time.Minute+lifetime, "key-2")
}

func quotaStays(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1", Resource: model}, daily(100))
	f.take(0, ask("key-1", tpd(1)), 99_000)
	f.listed(midnight+400*day, "key-1", 100_000)
}

func quotaExpiredTake(f *fixture) {
	f.setDefaults(daily(100))

	account := f.take(0, ask("key-1", tpd(90)), 10_000).Payers[0].Account
	// The bucket is gone, so there is nothing to give back to.
	f.credit(midnight+day, account, tpd(90))
	f.credit(midnight+day+time.Hour, account, tpd(-30))

	f.holds(midnight+day+time.Hour, "key-1", 70_000)
	f.holds(midnight+2*day, "key-1", 100_000)
}

// quotaOpenLease gives back to the window in which a lease ends.
func quotaOpenLease(f *fixture) {
	f.setDefaults(daily(100))
	account := f.take(midnight-time.Minute, ask("key-1", tpd(60)), 40_000).Payers[0].Account

	f.take(midnight+time.Minute, ask("key-1", tpd(50)), 50_000)

	f.credit(midnight+2*time.Minute, account, tpd(40))
	f.holds(midnight+2*time.Minute, "key-1", 90_000)
}

func quotaRetryAfter(f *fixture) {
	f.setDefaults(perMinute60, daily(100))
	account := f.take(0, ask("key-1", tpd(70))).Payers[0].Account

	d := f.refusal(time.Hour, request(tpd(31)))
	f.equal("RetryAfter", d.RetryAfter(), midnight-time.Hour)
	f.equal("start", d.Primary().WindowStart, at(midnight-day))
	f.equal("end", d.Primary().WindowEnd, at(midnight))

	f.refusal(midnight-ms(1), request(tpd(31)))

	until, err := f.limiter(time.Hour).TimeUntil(f.ctx, request(tpd(31)))
	f.ok("TimeUntil", err)
	f.equal("TimeUntil", until, midnight-time.Hour)

	// With 200 in debt, the third boundary fills the quota, and the second ends
	// the debt.
	f.credit(0, account, tpd(-230))
	f.equal("RetryAfter in debt", f.refusal(0, request(tpd(1))).RetryAfter(), midnight+2*day)
	f.equal("RetryAfter of nothing", f.refusal(0, request(tpd(0))).RetryAfter(), midnight+day)
	f.equal("RetryAfter a window later", f.refusal(midnight, request(tpd(1))).RetryAfter(), 2*day)

	statuses, err := f.limiter(0).Status(f.ctx, "key-1")
	f.ok("Status", err)
	f.equal("FullAfter", statuses[1].FullAfter, midnight+2*day)

	_, err = f.limiter(midnight+2*day).Acquire(f.ctx, request(tpd(100)))
	f.ok("Acquire after the wait", err)
}

// quotaRetryBehind has a caller whose clock is before the window that another clock
// has begun.
func quotaRetryBehind(f *fixture) {
	f.setDefaults(daily(100))
	f.take(midnight, ask("key-1", tpd(100)), 0)

	d := f.refusal(midnight-time.Hour, request(tpd(1)))
	f.equal("RetryAfter", d.RetryAfter(), day+time.Hour)
	f.equal("start", d.Primary().WindowStart, at(midnight))
	f.equal("end", d.Primary().WindowEnd, at(midnight+day))

	f.refusal(midnight+day-ms(1), request(tpd(1)))
	_, err := f.limiter(midnight+day).Acquire(f.ctx, request(tpd(1)))
	f.ok("Acquire after the wait", err)
}

func quotaNeverFits(f *fixture) {
	f.setDefaults(daily(100))
	f.take(0, ask("key-1", tpd(1)))

	d := f.refusal(0, request(tpd(101)))
	f.equal("NeverFits", d.NeverFits(), true)
	f.equal("RetryAfter", d.RetryAfter(), midnight)
}
