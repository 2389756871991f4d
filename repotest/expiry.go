package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// lifetime is the lifetime of an idle bucket of perMinute60: seven fill times.
const lifetime = 7 * time.Minute

const year = 365 * 24 * time.Hour

func expiryChecks() []check {
	return []check{
		{"an idle bucket expires after seven fill times", expiresIdle},
		{"the slowest limit sets the lifetime", expiresBySlowest},
		{"charges and credits renew a bucket", expiryRenewed},
		{"a refusal and a peek do not renew a bucket", expiryNotRenewed},
		{"debt is never forgiven", expiryKeepsDebt},
		{"a bucket in debt expires on a whole second", expiryOfDebtIsWhole},
		{"a bucket made slower by an override expires on a whole second", expiryOfOverrideIsWhole},
		{"a charge by an override keeps a bucket until it is given back", expiryOfOverrideGivenBack},
		{"limits of an entity and resource keep their bucket", expiryNever},
		{"limits of an entity for all resources let buckets expire", expiresEntityDefault},
		{"a bucket stays once it has limits of its own", expiryFollowsSource},
		{"after expiry the next charge finds a full bucket", expiredStartsFull},
		{"a give-back to an expired bucket is dropped", expiredGiveBack},
		{"a take from an expired bucket charges a new one", expiredTake},
		{"a take from a replaced bucket charges the new one", expiredTakeFromNext},
		{"a credit to an expired bucket keeps only its takes", expiredBothSigns},
	}
}

func expiresIdle(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)
	f.listed(lifetime-ms(1), "key-1", 60_000)
	f.unlisted(lifetime, "key-1")
}

func expiresBySlowest(f *fixture) {
	f.setDefaults(limiter.PerSecond("rps", 10), perMinute60)

	f.take(0, ask("key-1", rpm(1)))
	f.listed(lifetime-ms(1), "key-1", 60_000, 10_000)
	f.unlisted(lifetime, "key-1")
}

func expiryRenewed(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(60))).Payers[0].Account

	f.take(6*time.Minute, ask("key-1", rpm(0)))
	f.listed(6*time.Minute+lifetime-ms(1), "key-1", 60_000)
	f.unlisted(6*time.Minute+lifetime, "key-1")

	f.credit(12*time.Minute, account, rpm(-1))
	f.listed(12*time.Minute+lifetime-ms(1), "key-1", 60_000)
	f.unlisted(12*time.Minute+lifetime, "key-1")
}

func expiryNotRenewed(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)))

	f.refuse(6*time.Minute, ask("key-1", rpm(61)))
	f.peek(6*time.Minute, ask("key-1", rpm(1)))

	f.listed(6*time.Minute, "key-1", 60_000)
	f.unlisted(lifetime, "key-1")
}

// expiryKeepsDebt owes ten minutes of refill, more than the lifetime of seven.
func expiryKeepsDebt(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(60))).Payers[0].Account
	f.credit(0, account, rpm(-540))

	f.listed(lifetime+time.Minute, "key-1", -60_000)
	f.refuse(lifetime+time.Minute, ask("key-1", rpm(0)), -60_000)

	f.listed(10*time.Minute-ms(1), "key-1", 59_999)
	f.unlisted(10*time.Minute, "key-1")
	// A credit still reaches the bucket, and a charge does not find it full.
	f.credit(8*time.Minute, account, rpm(1))
	f.take(9*time.Minute, ask("key-1", rpm(1)), 0)
}

// expiryOfDebtIsWhole owes as much, from the middle of a second.
func expiryOfDebtIsWhole(f *fixture) {
	f.setDefaults(perMinute60)

	account := f.take(ms(500), ask("key-1", rpm(60))).Payers[0].Account
	f.credit(ms(500), account, rpm(-540))
	// The bucket is full at 600.5 s, which is rounded up to a whole second.
	f.listed(10*time.Minute+ms(499), "key-1", 59_999)
	f.listed(10*time.Minute+ms(999), "key-1", 60_000)
	f.unlisted(10*time.Minute+time.Second, "key-1")
}

// expiryOfOverrideIsWhole adds a limit that fills in eight minutes to a bucket
// with a lifetime of seven.
func expiryOfOverrideIsWhole(f *fixture) {
	f.setDefaults(perMinute60)

	f.take(0, ask("key-1", rpm(1)))
	f.take(ms(500), overrideCharge("key-1", tpm(8), limiter.Custom("tpm", 8, 1, time.Minute)))
	// The limit is full at 480.5 s, which is rounded up to a whole second.
	f.listed(8*time.Minute+ms(999), "key-1", 60_000)
	f.unlisted(8*time.Minute+time.Second, "key-1")
}

func expiryOfOverrideGivenBack(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(1)))

	account := f.take(0, overrideCharge("key-1", tpm(8), limiter.Custom("tpm", 8, 1, time.Minute))).Payers[0].Account
	f.credit(time.Second, account, tpm(8))
	// The limit is full again, so it does not make the bucket stay for longer
	// than seven minutes.
	f.listed(lifetime+ms(999), "key-1", 60_000)
	f.unlisted(lifetime+time.Second, "key-1")
}

func expiryNever(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1", Resource: model}, perMinute60)
	account := f.take(0, ask("key-1", rpm(60))).Payers[0].Account

	f.listed(year, "key-1", 60_000)

	f.credit(year, account, rpm(-20))
	f.credit(year, account, rpm(5))

	f.holds(year, "key-1", 45_000)
}

func expiresEntityDefault(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1"}, perMinute60)
	f.take(0, ask("key-1", rpm(60)))
	f.unlisted(lifetime, "key-1")
}

func expiryFollowsSource(f *fixture) {
	own := limiter.Scope{Entity: "key-1", Resource: model}
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)

	f.setLimits(own, perMinute60)
	f.take(time.Second, ask("key-1", rpm(0)), 1_000)
	f.listed(year, "key-1", 60_000)

	f.deleteConfig(own)
	f.take(2*time.Second, ask("key-1", rpm(0)), 2_000)
	f.unlisted(2*time.Second+lifetime, "key-1")
}

func expiredStartsFull(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)
	// The old bucket could not have filled beyond 60 at once.
	f.setDefaults(limiter.PerMinute("rpm", 600))

	f.take(year, ask("key-1", rpm(600)), 0)
	f.refuse(year, ask("key-1", rpm(1)), 0)
	f.listed(year, "key-1", 0)
}

func expiredGiveBack(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(60)), 0).Payers[0].Account

	f.credit(8*time.Minute, account, rpm(60))
	f.unlisted(8*time.Minute, "key-1")

	f.take(8*time.Minute, ask("key-1", rpm(60)), 0)
	f.credit(8*time.Minute, account, rpm(60))
	f.holds(8*time.Minute, "key-1", 0)
}

func expiredTake(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(60)), 0).Payers[0].Account

	f.credit(8*time.Minute, account, rpm(-10))
	f.listed(8*time.Minute, "key-1", 50_000)

	f.take(8*time.Minute, ask("key-1", rpm(50)), 0)
	f.unlisted(8*time.Minute+lifetime, "key-1")
}

func expiredTakeFromNext(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(60)), 0).Payers[0].Account
	f.take(8*time.Minute, ask("key-1", rpm(20)), 40_000)

	f.credit(8*time.Minute, account, rpm(-50))
	f.holds(8*time.Minute, "key-1", -10_000)
}

func expiredBothSigns(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	account := f.take(0, ask("key-1", rpm(60).And("tpm", 6000)), 0, 0).Payers[0].Account
	f.take(8*time.Minute, ask("key-1", rpm(60).And("tpm", 1000)), 0, 5_000_000)

	f.credit(8*time.Minute, account, rpm(30).And("tpm", -2000))
	f.holds(8*time.Minute, "key-1", 0, 3_000_000)
}
