package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// shadowUseChecks tests shadow limits through a limiter, and how stores count them.
func shadowUseChecks() []check {
	return []check{
		{"a status would refuse and is not exceeded", shadowStatus},
		{"a refusal by another limit says what would refuse too", shadowStatusRefused},
		{"Explain and Acquire agree", shadowExplain},
		{"a commit corrects the usage alone", shadowCommit},
		{"a rollback gives back usage alone, and keeps the count", shadowRollback},
		{"a lease corrects what it paid and what it was spared", shadowMixedLease},
		{"Adjust takes from a shadow limit into debt", shadowAdjust},
		{"what would be refused counts in its hour, day and month", shadowCounts},
		{"refused, peeked and strict charges do not count", shadowUncounted},
		{"a limit spared twice at once counts each charge", shadowCountsCascade},
		{"counts outlive the limit", shadowCountsOutlive},
	}
}

func shadowStatus(f *fixture) {
	f.setDefaults(shadowed)
	f.take(0, ask("key-1", rpm(50)))

	lease, err := f.limiter(0).Acquire(f.ctx, request(rpm(61)))
	f.ok("Acquire", err)

	s := first(f, "Statuses", lease.Decision().Statuses)
	f.equal("status", []any{s.WouldRefuse, s.Exceeded, s.NeverFits, s.RetryAfter, s.Available, s.Requested},
		[]any{true, false, false, time.Duration(0), int64(10), int64(61)})
	f.equal("admitted", lease.Decision().Admitted(), true)

	lease, err = f.limiter(0).Acquire(f.ctx, request(rpm(10)))
	f.ok("Acquire", err)
	f.equal("WouldRefuse of a charge", first(f, "Statuses", lease.Decision().Statuses).WouldRefuse, false)
}

func shadowStatusRefused(f *fixture) {
	f.setDefaults(shadowed, limiter.PerMinute("tpm", 100))
	f.take(0, ask("key-1", rpm(50).And("tpm", 90)))

	d := f.refusal(0, request(rpm(11).And("tpm", 11)))
	f.equal("shadow", []bool{d.Statuses[0].WouldRefuse, d.Statuses[0].Exceeded}, []bool{true, false})
	f.equal("the limit that refuses", d.Primary().Limit.Name, "tpm")

	d = f.refusal(0, request(rpm(10).And("tpm", 11)))
	f.equal("shadow that covers", d.Statuses[0].WouldRefuse, false)
}

func shadowExplain(f *fixture) {
	f.setDefaults(shadowed, daily(100).Shadow())
	f.take(0, ask("key-1", rpm(50).And("tpd", 90)))

	for _, req := range []limiter.Request{
		request(rpm(11)), request(rpm(1).And("tpd", 11)), request(rpm(9).And("tpd", 10)),
	} {
		explained, err := f.limiter(0).Explain(f.ctx, req)
		f.ok("Explain", err)

		lease, err := f.limiter(0).Acquire(f.ctx, req)
		f.ok("Acquire", err)

		f.equal("decision", explained, lease.Decision())
	}
}

// wouldRefuse checks the counters and the counts of an entity in the first hour.
func (f *fixture) wouldRefuse(entity string, used, would counters) {
	f.Helper()
	if !f.countsUsage {
		return
	}

	for _, s := range f.usage(limiter.UsageQuery{Entity: entity}) {
		f.equal("counters, "+string(s.Window), s.Counters, used)
		f.equal("would refuse, "+string(s.Window), s.WouldRefuse, would)
	}
}

func shadowCommit(f *fixture) {
	f.setDefaults(shadowed, limiter.PerMinute("tpm", 100))
	f.take(0, ask("key-1", rpm(50)))

	lease, err := f.limiter(0).Acquire(f.ctx, request(rpm(20).And("tpm", 40)))
	f.ok("Acquire", err)

	f.ok("Used", lease.Used("rpm", 5))
	f.ok("Used", lease.Used("tpm", 10))
	f.ok("Flush", lease.Flush(f.ctx))

	f.holds(0, "key-1", 10_000, 90_000)

	f.ok("Used", lease.Used("rpm", 70))
	f.ok("Commit", lease.Commit(f.ctx))
	f.equal("Consumed", lease.Consumed().Get("rpm"), int64(70))

	f.holds(0, "key-1", 10_000, 90_000)
	// The usage of rpm is 50 from the charge before, and 70 of the lease.
	f.wouldRefuse("key-1", counters{"rpm": 120, "tpm": 10}, counters{"rpm": 1})
}

func shadowRollback(f *fixture) {
	f.setDefaults(shadowed, limiter.PerMinute("tpm", 100))
	f.take(0, ask("key-1", rpm(50)))

	lease, err := f.limiter(0).Acquire(f.ctx, request(rpm(20).And("tpm", 40)))
	f.ok("Acquire", err)

	f.ok("Rollback", lease.Rollback(f.ctx))

	f.holds(0, "key-1", 10_000, 100_000)
	f.wouldRefuse("key-1", counters{"rpm": 50}, counters{"rpm": 1})
}

// shadowMixedLease charges a lease that pays, and then again when the limit does
// not cover more.
func shadowMixedLease(f *fixture) {
	f.setDefaults(shadowed)
	lease, err := f.limiter(0).Acquire(f.ctx, request(rpm(50)))
	f.ok("Acquire", err)

	f.ok("Consume", lease.Consume(f.ctx, rpm(20)))
	f.holds(0, "key-1", 10_000)
	// The lease has paid this limit before, so the adjustment is paid as well.
	f.ok("Adjust", lease.Adjust(rpm(3)))
	f.ok("Flush", lease.Flush(f.ctx))
	f.holds(0, "key-1", 7_000)

	f.ok("Rollback", lease.Rollback(f.ctx))
	f.holds(0, "key-1", 60_000)
	f.wouldRefuse("key-1", counters{}, counters{"rpm": 1})

	lease, err = f.limiter(0).Acquire(f.ctx, request(rpm(61)))
	f.ok("Acquire", err)

	f.ok("Consume", lease.Consume(f.ctx, rpm(30)))
	f.holds(0, "key-1", 30_000)

	// Of what is given back, 30 were paid and 10 were spared.
	f.ok("Release", lease.Release(rpm(40)))
	f.ok("Commit", lease.Commit(f.ctx))
	f.holds(0, "key-1", 60_000)

	f.wouldRefuse("key-1", counters{"rpm": 51}, counters{"rpm": 2})
}

func shadowAdjust(f *fixture) {
	f.setDefaults(shadowed)
	_, err := f.limiter(0).Adjust(f.ctx, request(rpm(50)))
	f.ok("Adjust", err)
	f.holds(0, "key-1", 10_000)

	d, err := f.limiter(0).Adjust(f.ctx, request(rpm(30)))
	f.ok("Adjust", err)

	s := first(f, "Statuses", d.Statuses)
	f.equal("status", []any{s.Available, s.Exceeded, s.WouldRefuse}, []any{int64(-20), false, false})

	f.holds(0, "key-1", -20_000)
	f.wouldRefuse("key-1", counters{"rpm": 80}, nil)
}

func shadowCounts(f *fixture) {
	if !f.countsUsage {
		f.Skip("another program counts the usage of this store")
	}
	f.setLimits(limiter.Scope{Entity: "key-1", Resource: model}, shadowed, limiter.PerMinute("tpm", 100))

	f.take(0, ask("key-1", rpm(61).And("tpm", 1)))
	f.take(0, ask("key-1", rpm(62)))
	f.take(time.Hour, ask("key-1", rpm(63)))
	f.take(time.Hour, ask("key-1", rpm(60)))
	f.take(midnight, ask("key-1", rpm(64)))

	want := func(w limiter.Window, at time.Time, events, spared int64, c counters) limiter.UsageSnapshot {
		s := snapshot("key-1", w, at, events, c)
		s.WouldRefuse = counters{"rpm": spared}
		return s
	}

	next := thisDay.Add(day)

	f.equal("usage", f.usage(limiter.UsageQuery{Entity: "key-1"}), []limiter.UsageSnapshot{
		want(limiter.Daily, next, 1, 1, counters{"rpm": 64}),
		want(limiter.Hourly, next, 1, 1, counters{"rpm": 64}),
		want(limiter.Hourly, thisHour.Add(time.Hour), 2, 1, counters{"rpm": 123}),
		want(limiter.Hourly, thisHour, 2, 2, counters{"rpm": 123, "tpm": 1}),
		want(limiter.Daily, thisDay, 4, 3, counters{"rpm": 246, "tpm": 1}),
		want(limiter.Monthly, thisMonth, 5, 4, counters{"rpm": 310, "tpm": 1}),
	})
}

func shadowUncounted(f *fixture) {
	if !f.countsUsage {
		f.Skip("another program counts the usage of this store")
	}
	f.setDefaults(shadowed, limiter.PerMinute("tpm", 100))
	f.take(0, ask("key-1", rpm(60).And("tpm", 100)))

	f.refuse(0, ask("key-1", rpm(1).And("tpm", 1)))
	f.peek(0, ask("key-1", rpm(1)))

	strict := ask("key-1", rpm(1))
	strict.Strict = true
	f.refuse(0, strict)

	f.used("key-1", 1, counters{"rpm": 60, "tpm": 100})
}

func shadowCountsCascade(f *fixture) {
	f.setDefaults(shadowed)
	f.createCascading("key-1", "project-1")
	f.take(0, ask("key-1", rpm(61)))
	f.take(0, ask("key-1", rpm(40)))
	f.take(0, ask("project-1", rpm(30)))

	f.wouldRefuse("key-1", counters{"rpm": 101}, counters{"rpm": 1})
	f.wouldRefuse("project-1", counters{"rpm": 131}, counters{"rpm": 2})
}

func shadowCountsOutlive(f *fixture) {
	f.setDefaults(limiter.PerMinute("a", 5).Shadow(), shadowed)
	f.take(0, ask("key-1", rpm(61).And("a", 6)))

	f.setDefaults(shadowed, limiter.PerMinute("tpm", 5).Shadow())
	f.take(0, ask("key-1", rpm(61).And("tpm", 6)))

	f.wouldRefuse("key-1", counters{"a": 6, "rpm": 122, "tpm": 6}, counters{"a": 1, "rpm": 2, "tpm": 1})

	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)))
	f.deleteEntity("key-1")
	f.equal("usage of a deleted entity", f.usage(limiter.UsageQuery{Entity: "key-1"}), []limiter.UsageSnapshot(nil))
}
