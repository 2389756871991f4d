package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func usageChecks() []check {
	return []check{
		{"concurrent charges are all counted", exactlyUsage},
		{"a charge counts in its hour, day and month", usageWindows},
		{"a bucket that stays counts every charge in its own hour", usageOwnHour},
		{"hours add up to days and months", usageAddsUp},
		{"credits count net, and whole", usageNet},
		{"refused, peeked and invalid charges do not count", usageUncounted},
		{"amounts of zero do not count", usageZero},
		{"a clock that is behind counts at the bucket's time", usageClockBehind},
		{"windows are in UTC", usageUTC},
		{"entity and parent each count what they paid", usageCascade},
		{"usage outlives its limit", usageOutlivesLimit},
		{"limits of an override count", usageOverride},
		{"a quota that follows an override keeps its usage", usageFollowed},
		{"usage outlives its bucket", usageOutlivesBucket},
		{"usage is sorted newest first, then by resource, entity and window", usageOrder},
		{"a query selects snapshots", usageQuery},
		{"counters are not shared with the caller", usageNotShared},
	}
}

var (
	thisHour  = time.Date(2026, time.March, 14, 15, 0, 0, 0, time.UTC)
	thisDay   = time.Date(2026, time.March, 14, 0, 0, 0, 0, time.UTC)
	thisMonth = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
)

type counters = map[string]int64

// snapshot returns the expected snapshot of the default resource.
func snapshot(entity string, w limiter.Window, start time.Time, events int64, c counters) limiter.UsageSnapshot {
	_, end := w.Bounds(start)
	return limiter.UsageSnapshot{
		Entity: entity, Resource: model, Window: w, Start: start, End: end, Counters: c, Events: events,
	}
}

// used checks the usage of an entity that was active in the first hour only.
func (f *fixture) used(entity string, events int64, c counters) {
	f.Helper()

	f.equal("usage of "+entity, f.usage(limiter.UsageQuery{Entity: entity}), []limiter.UsageSnapshot{
		snapshot(entity, limiter.Hourly, thisHour, events, c),
		snapshot(entity, limiter.Daily, thisDay, events, c),
		snapshot(entity, limiter.Monthly, thisMonth, events, c),
	})
}

func usageWindows(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	f.take(0, ask("key-1", rpm(2).And("tpm", 500)))
	f.used("key-1", 1, counters{"rpm": 2, "tpm": 500})

	f.take(0, ask("key-1", rpm(1)))
	f.used("key-1", 2, counters{"rpm": 3, "tpm": 500})

	f.equal("end of the hour", first(f, "Usage", f.usage(limiter.UsageQuery{Entity: "key-1"})).End,
		thisHour.Add(time.Hour-time.Second))
}

// usageOwnHour crosses the end of an hour, of a day and of a month.
func usageOwnHour(f *fixture) {
	// The bucket does not expire in a gap.
	f.setLimits(limiter.Scope{Entity: "key-1", Resource: model}, perMinute60)
	account := f.take(0, ask("key-1", rpm(1))).Payers[0].Account

	last := time.Date(2026, time.March, 31, 23, 0, 0, 0, time.UTC)
	f.take(last.Add(time.Hour-ms(1)).Sub(epoch), ask("key-1", rpm(2)))
	f.take(last.Add(time.Hour).Sub(epoch), ask("key-1", rpm(4)))
	f.credit(last.Add(2*time.Hour).Sub(epoch), account, rpm(-8))

	april := last.Add(time.Hour)

	f.equal("usage", f.usage(limiter.UsageQuery{Entity: "key-1"}), []limiter.UsageSnapshot{
		snapshot("key-1", limiter.Hourly, april.Add(time.Hour), 1, counters{"rpm": 8}),
		snapshot("key-1", limiter.Daily, april, 2, counters{"rpm": 12}),
		snapshot("key-1", limiter.Hourly, april, 1, counters{"rpm": 4}),
		snapshot("key-1", limiter.Monthly, april, 2, counters{"rpm": 12}),
		snapshot("key-1", limiter.Hourly, last, 1, counters{"rpm": 2}),
		snapshot("key-1", limiter.Daily, last.Add(-23*time.Hour), 1, counters{"rpm": 2}),
		snapshot("key-1", limiter.Hourly, thisHour, 1, counters{"rpm": 1}),
		snapshot("key-1", limiter.Daily, thisDay, 1, counters{"rpm": 1}),
		snapshot("key-1", limiter.Monthly, thisMonth, 2, counters{"rpm": 3}),
	})
}

// usageAddsUp goes from one month into the next in steps that do not align
// with hours and days.
func usageAddsUp(f *fixture) {
	// The bucket does not expire, and its capacity bounds no credit.
	f.setLimits(limiter.Scope{Entity: "key-1", Resource: model}, limiter.PerMinute("rpm", 1000))

	total := int64(0)
	for i := range int64(60) {
		d := time.Duration(i) * 13 * time.Hour
		out := f.take(d, ask("key-1", rpm(i)))
		f.credit(d+50*time.Minute, out.Payers[0].Account, rpm(i%7-3))
		total += i - (i%7 - 3)
	}

	sums := map[limiter.Window]int64{}
	for _, s := range f.usage(limiter.UsageQuery{Entity: "key-1"}) {
		sums[s.Window] += s.Counters["rpm"]
	}
	f.equal("sums", sums, map[limiter.Window]int64{limiter.Hourly: total, limiter.Daily: total, limiter.Monthly: total})

	months := f.usage(limiter.UsageQuery{Entity: "key-1", Window: limiter.Monthly})
	f.equal("number of months", len(months), 2)
}

func usageNet(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	account := f.take(0, ask("key-1", rpm(10).And("tpm", 100))).Payers[0].Account

	f.credit(0, account, rpm(-5).And("tpm", 40))
	f.used("key-1", 2, counters{"rpm": 15, "tpm": 60})

	// After a credit beyond the capacity, the bucket is full and the count
	// exact.
	f.credit(0, account, rpm(100))
	f.used("key-1", 3, counters{"rpm": -85, "tpm": 60})

	f.credit(0, account, tpm(60))
	f.used("key-1", 4, counters{"rpm": -85})
	f.holds(0, "key-1", 60_000, 6_000_000)

	one := limiter.Credit{Account: account, Amounts: rpm(-1)}
	f.ok("Credit", f.repo.Credit(f.ctx, epoch, one, one))
	// Each of two credits is an event.
	f.used("key-1", 6, counters{"rpm": -83})
}

func usageUncounted(f *fixture) {
	f.setDefaults(perMinute60)
	nothing := []limiter.UsageSnapshot(nil)

	f.refuse(0, ask("key-1", rpm(61)))
	f.peek(0, ask("key-1", rpm(1)))
	_, err := f.repo.Consume(f.ctx, epoch, ask("key-1", rpm(1).And("nonsense", 1)))
	f.invalid("Consume", err)
	f.equal("usage", f.usage(limiter.UsageQuery{Entity: "key-1"}), nothing)

	f.take(0, ask("key-1", rpm(60)))
	f.refuse(0, ask("key-1", rpm(1)))
	f.used("key-1", 1, counters{"rpm": 60})
}

func usageZero(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	account := f.take(0, ask("key-1", rpm(0))).Payers[0].Account

	f.credit(0, account, rpm(0))
	f.credit(0, account, limiter.Tokens("nonsense", 1))
	f.equal("usage", f.usage(limiter.UsageQuery{Entity: "key-1"}), []limiter.UsageSnapshot(nil))

	f.take(0, ask("key-1", rpm(1).And("tpm", 0)))
	f.used("key-1", 1, counters{"rpm": 1})
}

func usageClockBehind(f *fixture) {
	f.setDefaults(perMinute60)

	account := f.take(0, ask("key-1", rpm(1))).Payers[0].Account
	f.take(-2*time.Hour, ask("key-1", rpm(2)))
	f.credit(-26*time.Hour, account, rpm(-4))
	f.used("key-1", 3, counters{"rpm": 7})

	// A credit advances the bucket's time, too.
	f.credit(time.Hour, account, rpm(-8))
	f.take(0, ask("key-1", rpm(16)))

	f.equal("usage by the hour", f.usage(limiter.UsageQuery{Entity: "key-1", Window: limiter.Hourly}),
		[]limiter.UsageSnapshot{
			snapshot("key-1", limiter.Hourly, thisHour.Add(time.Hour), 2, counters{"rpm": 24}),
			snapshot("key-1", limiter.Hourly, thisHour, 3, counters{"rpm": 7}),
		})
}

func usageUTC(f *fixture) {
	f.setDefaults(perMinute60)

	kathmandu := time.FixedZone("+0545", 5*3600+45*60)
	// In UTC this is 19:15 on December 31.
	newYear := time.Date(2026, time.January, 1, 1, 0, 0, 0, kathmandu)
	_, err := f.repo.Consume(f.ctx, newYear, ask("key-1", rpm(1)))
	f.ok("Consume", err)

	one := counters{"rpm": 1}
	december := func(day, hour int) time.Time { return time.Date(2025, time.December, day, hour, 0, 0, 0, time.UTC) }

	f.equal("usage", f.usage(limiter.UsageQuery{Entity: "key-1"}), []limiter.UsageSnapshot{
		snapshot("key-1", limiter.Hourly, december(31, 19), 1, one),
		snapshot("key-1", limiter.Daily, december(31, 0), 1, one),
		snapshot("key-1", limiter.Monthly, december(1, 0), 1, one),
	})
}

func usageCascade(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1"}, perMinute60, limiter.PerMinute("tpm", 6000))
	f.setLimits(limiter.Scope{Entity: "project-1"}, limiter.PerMinute("tpm", 6000))
	f.createCascading("key-1", "project-1")

	out := f.take(0, ask("key-1", rpm(1).And("tpm", 100)))
	f.paid(out, "project-1", 5_900_000)
	f.used("key-1", 1, counters{"rpm": 1, "tpm": 100})
	f.used("project-1", 1, counters{"tpm": 100})

	f.take(0, ask("key-1", rpm(1)))
	f.credit(0, out.Payers[1].Account, tpm(30))

	f.used("key-1", 2, counters{"rpm": 2, "tpm": 100})
	f.used("project-1", 2, counters{"tpm": 70})
}

func usageOutlivesLimit(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	account := f.take(0, ask("key-1", rpm(1).And("tpm", 100))).Payers[0].Account

	f.setDefaults(limiter.PerMinute("a", 5), perMinute60)
	f.take(0, ask("key-1", rpm(1).And("a", 2)))
	f.used("key-1", 2, counters{"a": 2, "rpm": 2, "tpm": 100})

	// This is a credit of the limit that has left.
	f.credit(0, account, tpm(50))
	f.credit(0, account, tpm(10).And("rpm", 1))

	f.used("key-1", 4, counters{"a": 2, "rpm": 1, "tpm": 40})
}

func usageOverride(f *fixture) {
	f.setDefaults(perMinute60)

	f.take(0, ask("key-1", rpm(1)))
	f.take(0, overrideCharge("key-1", rpm(1).And("tpm", 100), perMinute60, limiter.PerMinute("tpm", 6000)))

	f.take(0, ask("key-1", rpm(1)))
	f.used("key-1", 3, counters{"rpm": 3, "tpm": 100})
}

func usageFollowed(f *fixture) {
	f.take(0, overrideCharge("key-1", tpd(10), monthly(100)))
	f.take(0, overrideCharge("key-1", tpd(10), daily(20)))
	// A request above the new capacity never fits, so the bucket does not
	// follow.
	f.refuse(0, overrideCharge("key-1", tpd(21), monthly(20)))
	// The next window covers this request, so the bucket follows.
	f.refuse(0, overrideCharge("key-1", tpd(11), monthly(20)))

	f.take(0, overrideCharge("key-1", tpd(10), monthly(20)))
	f.used("key-1", 3, counters{"tpd": 30})
}

func usageOutlivesBucket(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(10))).Payers[0].Account

	f.unlisted(8*time.Minute, "key-1")
	f.used("key-1", 1, counters{"rpm": 10})

	f.take(8*time.Minute, ask("key-1", rpm(1)))
	// The bucket of the lease has expired, so this is dropped.
	f.credit(8*time.Minute, account, rpm(10))
	f.used("key-1", 2, counters{"rpm": 11})

	f.credit(9*time.Minute, account, rpm(-5))
	f.used("key-1", 3, counters{"rpm": 16})
}
