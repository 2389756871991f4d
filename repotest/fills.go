package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func fillChecks() []check {
	return []check{
		{"a reset fills every limit", resetAll},
		{"a reset fills only the limits it names", resetSome},
		{"a reset forgives debt", resetDebt},
		{"a reset puts a quota into the current window", resetQuota},
		{"a reset takes a quota back from a clock that was ahead", resetAhead},
		{"a reset by a clock that is a little behind keeps the window", resetLittleBehind},
		{"a reset refills the other limits at its time", resetOthers},
		{"a reset by a clock that is behind moves no rate back", resetBehind},
		{"a top-up adds, up to the capacity", topUpAdds},
		{"a top-up pays debt", topUpDebt},
		{"a top-up of a quota stays in its window", topUpQuota},
		{"a top-up after a boundary steps first", topUpSteps},
		{"a repeated top-up does nothing", topUpRepeated},
		{"an ID is forgotten after a day", topUpForgotten},
		{"an ID counts for one bucket", topUpPerBucket},
		{"an ID used for a missing bucket is used", topUpMissingRepeated},
		{"a missing bucket stays missing", fillMissing},
		{"an expired bucket stays expired", fillExpired},
		{"a limit that the bucket lacks is invalid", fillUnknown},
		{"a bucket without limits is invalid", fillNoLimits},
		{"defaults are limits", fillDefaults},
		{"a fill applies changed limits first", fillRepairs},
		{"a fill does not touch usage or parent", fillUsage},
		{"a fill keeps leases usable", fillLease},
		{"a fill renews a bucket", fillRenews},
		{"a fill without limits in force keeps the lifetime", fillKeepsLifetime},
		{"shadow limits are filled, too", fillShadow},
		{"limits that joined with an override are filled", fillOverride},
		{"namespaces have their own IDs", fillNamespaces},
		{"fills are audited, repetitions and errors are not", fillAudit},
		{"a limiter's Reset and TopUp use the port", fillLimiter},
		{"a top-up made at the same time by many is made once", topUpConcurrent},
	}
}

// reset resets limits of an entity for the default resource.
func (f *fixture) reset(d time.Duration, entity string, limits ...string) {
	f.Helper()

	done, err := f.repo.Fill(f.ctx, at(d), limiter.Fill{Entity: entity, Resource: model, Limits: limits},
		f.event("bucket_reset", entity))

	f.ok("Fill", err)
	f.equal("a reset is carried out", done, true)
}

// topUp adds amounts to the bucket of key-1, and checks whether that was carried out.
func (f *fixture) topUp(d time.Duration, amounts limiter.Amounts, id string, want bool) {
	f.Helper()

	done, err := f.repo.Fill(f.ctx, at(d), limiter.Fill{Entity: "key-1", Resource: model, Amounts: amounts, ID: id},
		f.event("bucket_topped_up", "key-1"))

	f.ok("Fill", err)
	f.equal("top-up "+id+" is carried out", done, want)
}

func resetAll(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))

	f.take(0, ask("key-1", rpm(60).And("tpm", 100)), 0, 5_900_000)
	f.take(0, ask("key-2", rpm(60)), 0, 6_000_000)

	f.reset(0, "key-1")

	f.take(0, ask("key-1", rpm(1)), 59_000, 6_000_000)
	f.holds(0, "key-2", 0, 6_000_000)
}

func resetSome(f *fixture) {
	f.setDefaults(limiter.PerMinute("a", 10), perMinute60, limiter.PerMinute("tpm", 6000))
	f.take(0, ask("key-1", limiter.Tokens("a", 10).And("rpm", 60).And("tpm", 6000)), 0, 0, 0)

	f.reset(0, "key-1", "tpm", "a")
	f.holds(0, "key-1", 10_000, 0, 6_000_000)

	f.reset(0, "key-1", "rpm")
	f.holds(0, "key-1", 10_000, 60_000, 6_000_000)
}

func resetDebt(f *fixture) {
	f.setDefaults(perMinute60)
	f.credit(0, f.take(0, ask("key-1", rpm(60))).Payers[0].Account, rpm(-1000))

	f.reset(time.Second, "key-1")
	f.holds(time.Second, "key-1", 60_000)
	f.take(time.Second, ask("key-1", rpm(60)), 0)
	f.holds(2*time.Second, "key-1", 1_000)
}

func resetQuota(f *fixture) {
	f.setDefaults(daily(100), slow)
	f.credit(0, f.take(0, ask("key-1", tpd(100))).Payers[0].Account, tpd(-500))

	f.reset(midnight, "key-1", "tpd")
	f.take(midnight, ask("key-1", tpd(100)), 0, 10_000)
	f.refuse(midnight+day-ms(1), ask("key-1", tpd(1)), 0, 10_000)
	// A clock that is behind sees the window of the reset, and the boundary
	// adds nothing to it.
	f.holds(midnight-ms(1), "key-1", 0, 10_000)

	f.holds(midnight+day, "key-1", 100_000, 10_000)
}

// resetLittleBehind resets a quota by a clock that is before a boundary that others
// have passed. What the reset gives must not be given again at the boundary.
func resetLittleBehind(f *fixture) {
	f.setDefaults(daily(100), slow)

	f.take(0, ask("key-1", tpd(100)), 0, 10_000)
	f.take(midnight, ask("key-1", tpd(100)), 0, 10_000)

	f.reset(midnight-ms(1), "key-1")
	out := f.take(midnight-ms(1), ask("key-1", tpd(100)), 0, 10_000)
	f.equal("window", out.Payers[0].Detail.Starts, []int64{start(midnight), 0})

	f.refuse(midnight, ask("key-1", tpd(1)), 0, 10_000)

	// Clocks of one deployment may differ by two minutes.
	f.reset(midnight-2*time.Minute, "key-1")
	f.take(midnight, ask("key-1", tpd(100)), 0, 10_000)

	f.holds(midnight+day, "key-1", 100_000, 10_000)
}

// resetAhead resets a quota that a clock three days ahead has put into a window in
// which it would stay empty for long.
func resetAhead(f *fixture) {
	f.setDefaults(daily(100), slow)

	f.take(midnight+3*day, ask("key-1", tpd(100)), 0, 10_000)
	f.refuse(midnight, ask("key-1", tpd(1)), 0, 10_000)

	f.reset(time.Hour, "key-1")
	out := f.take(time.Hour, ask("key-1", tpd(100)), 0, 10_000)
	f.equal("window", out.Payers[0].Detail.Starts, []int64{start(midnight - day), 0})

	f.take(midnight, ask("key-1", tpd(100)), 0, 10_000)
}

func resetOthers(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000), daily(100))
	f.take(0, ask("key-1", rpm(60).And("tpm", 6000).And("tpd", 90)), 0, 10_000, 0)

	f.reset(time.Second, "key-1", "tpm")
	f.holds(time.Second, "key-1", 1_000, 10_000, 6_000_000)
	f.holds(2*time.Second, "key-1", 2_000, 10_000, 6_000_000)

	f.take(time.Second, ask("key-1", tpm(6000)), 1_000, 10_000, 0)
	f.holds(2*time.Second, "key-1", 2_000, 10_000, 100_000)
}

func resetBehind(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))

	f.take(time.Minute, ask("key-1", rpm(60).And("tpm", 6000)), 0, 0)
	f.reset(0, "key-1", "rpm")

	f.holds(time.Minute, "key-1", 60_000, 0)
	f.take(time.Minute, ask("key-1", rpm(60)), 0, 0)
	f.holds(61*time.Second, "key-1", 1_000, 100_000)
}

func topUpAdds(f *fixture) {
	f.setDefaults(perMinute60, limiter.PerMinute("tpm", 6000))
	f.take(0, ask("key-1", rpm(60).And("tpm", 6000)), 0, 0)

	f.topUp(0, rpm(10), "a", true)
	f.holds(0, "key-1", 10_000, 0)

	f.topUp(time.Second, tpm(1000).And("rpm", 1), "b", true)
	f.holds(time.Second, "key-1", 12_000, 1_100_000)

	f.topUp(time.Second, rpm(1000), "c", true)
	f.holds(time.Second, "key-1", 60_000, 1_100_000)
	f.refuse(time.Second, ask("key-1", rpm(61)), 60_000, 1_100_000)
}

func topUpDebt(f *fixture) {
	f.setDefaults(perMinute60)
	f.credit(0, f.take(0, ask("key-1", rpm(60))).Payers[0].Account, rpm(-100))

	f.topUp(0, rpm(70), "a", true)
	f.refuse(0, ask("key-1", rpm(0)), -30_000)

	f.topUp(0, rpm(70), "b", true)
	f.take(0, ask("key-1", rpm(40)), 0)
}

func topUpQuota(f *fixture) {
	f.setDefaults(daily(100), slow)
	f.take(0, ask("key-1", tpd(100)), 0, 10_000)

	f.topUp(time.Hour, tpd(30), "a", true)
	f.take(time.Hour, ask("key-1", tpd(30)), 0, 10_000)

	f.holds(midnight-ms(1), "key-1", 0, 10_000)
	f.holds(midnight, "key-1", 100_000, 10_000)

	// A clock that is behind does not take the quota back to its window.
	f.take(midnight, ask("key-1", tpd(80)), 20_000, 10_000)
	f.topUp(0, tpd(30), "b", true)
	f.holds(midnight, "key-1", 50_000, 10_000)
	f.holds(midnight+day-ms(1), "key-1", 50_000, 10_000)
}

func topUpSteps(f *fixture) {
	f.setDefaults(daily(100), slow)

	f.credit(0, f.take(0, ask("key-1", tpd(100))).Payers[0].Account, tpd(-120))
	// The boundary adds 100 to -120, and the top-up 30.
	f.topUp(midnight, tpd(30), "a", true)

	f.holds(midnight, "key-1", 10_000, 10_000)
	f.holds(midnight-ms(1), "key-1", 10_000, 10_000)
}

func topUpRepeated(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)

	f.topUp(0, rpm(10), "invoice-1", true)
	f.topUp(0, rpm(10), "invoice-1", false)
	// An ID repeats a top-up whatever its amounts.
	f.topUp(0, rpm(20), "invoice-1", false)
	f.topUp(time.Second, rpm(10), "invoice-1", false)
	f.holds(time.Second, "key-1", 11_000)

	f.topUp(time.Second, rpm(10), "invoice-2", true)
	// IDs differ by case.
	f.topUp(time.Second, rpm(10), "Invoice-1", true)
	f.holds(time.Second, "key-1", 31_000)

	f.take(time.Second, ask("key-1", rpm(31)), 0)

	// A reset forgets no ID.
	f.reset(time.Second, "key-1")
	f.take(time.Second, ask("key-1", rpm(60)), 0)
	f.topUp(2*time.Second, rpm(10), "invoice-1", false)
	f.holds(2*time.Second, "key-1", 1_000)
}

func topUpForgotten(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1", Resource: model}, limiter.PerDay("rpm", 1000))
	f.take(0, ask("key-1", rpm(1000)), 0)

	f.topUp(0, rpm(1), "a", true)
	f.topUp(limiter.TopUpLife-time.Second, rpm(1), "a", false)
	f.topUp(limiter.TopUpLife+time.Second, rpm(1), "a", true)
	f.topUp(limiter.TopUpLife+2*time.Second, rpm(1), "a", false)
}

func topUpPerBucket(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	for _, c := range []limiter.Scope{
		{Entity: "key-1", Resource: model},
		{Entity: "key-2", Resource: model},
		{Entity: "key-1", Resource: "claude"},
	} {
		charge := limiter.Charge{Entity: c.Entity, Resource: c.Resource, Amounts: rpm(60)}

		f.take(0, charge, 0)
		for _, want := range []bool{true, false} {
			fill := limiter.Fill{Entity: c.Entity, Resource: c.Resource, Amounts: rpm(10), ID: "a"}
			done, err := f.repo.Fill(f.ctx, epoch, fill, f.event("bucket_topped_up", c.Entity))
			f.ok("Fill", err)
			f.equal("carried out", done, want)
		}

		charge.Amounts = rpm(0)
		f.take(0, charge, 10_000)
	}
}

func topUpMissingRepeated(f *fixture) {
	f.setDefaults(perMinute60)

	f.topUp(0, rpm(10), "a", true)
	f.take(0, ask("key-1", rpm(60)), 0)

	f.topUp(0, rpm(10), "a", false)
	f.holds(0, "key-1", 0)
}

func fillMissing(f *fixture) {
	f.setDefaults(perMinute60)

	f.reset(0, "key-1")
	f.topUp(0, rpm(10), "a", true)

	f.unlisted(0, "key-1")
	f.take(0, ask("key-1", rpm(1)), 59_000)
}

func fillExpired(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)))

	f.reset(lifetime, "key-1")
	f.topUp(lifetime, rpm(10), "a", true)

	f.unlisted(lifetime, "key-1")
}

func fillUnknown(f *fixture) {
	f.setDefaults(perMinute60)
	// The first round has no bucket, and the second has one.
	for range 2 {
		for _, fill := range []limiter.Fill{
			{Limits: []string{"tpm"}},
			{Limits: []string{"rpm", "tpm"}},
			{Amounts: tpm(1), ID: "a"},
			{Amounts: rpm(1).And("tpm", 1), ID: "a"},
		} {
			fill.Entity, fill.Resource = "key-1", model
			done, err := f.repo.Fill(f.ctx, epoch, fill, f.event("bucket_reset", "key-1"))
			f.invalid("Fill of a limit that does not exist", err)
			f.equal("carried out", done, false)
		}

		f.take(0, ask("key-1", rpm(30)))
	}

	f.holds(0, "key-1", 0)
	// A fill that is invalid does not use its ID.
	f.topUp(0, rpm(1), "a", true)
	f.equal("actions", actions(f.audit("key-1", "")), []string{"bucket_topped_up"})
}

func fillNoLimits(f *fixture) {
	fill := limiter.Fill{Entity: "key-1", Resource: model}
	_, err := f.repo.Fill(f.ctx, epoch, fill, f.event("bucket_reset", "key-1"))
	f.fails("Fill without limits", err, limiter.ErrNoLimits)

	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(60)), 0)
	f.deleteConfig(limiter.Scope{Resource: model})

	// The bucket has limits, although no level holds any.
	f.reset(0, "key-1")

	f.listed(0, "key-1", 60_000)
}

func fillDefaults(f *fixture) {
	charge := ask("key-1", rpm(60))
	charge.Defaults = []limiter.Limit{perMinute60}
	f.take(0, charge, 0)

	fill := limiter.Fill{
		Entity: "key-1", Resource: model, Limits: []string{"tpm"},
		Defaults: []limiter.Limit{perMinute60, limiter.PerMinute("tpm", 100)},
	}

	done, err := f.repo.Fill(f.ctx, epoch, fill, f.event("bucket_reset", "key-1"))
	f.ok("Fill", err)
	f.equal("carried out", done, true)
	f.listed(0, "key-1", 0, 100_000)

	fill.Entity = "key-2"
	_, err = f.repo.Fill(f.ctx, epoch, fill, f.event("bucket_reset", "key-2"))
	f.ok("Fill without a bucket", err)
}
