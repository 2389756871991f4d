package repotest

import (
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func cascadeChecks() []check {
	return []check{
		{"entity and parent pay together", bothPay},
		{"a parent that refuses leaves the entity as it was", parentRefuses},
		{"an entity that refuses leaves the parent as it was", entityRefuses},
		{"a parent in debt refuses", parentInDebtRefuses},
		{"without cascade the parent pays nothing", parentPaysNothing},
		{"one level up and no further", oneLevelUp},
		{"children share their parent's bucket", childrenShare},
		{"each account pays the limits it has", paysWhatItHas},
		{"a parent needs limits, but no record", parentNeedsLimits},
		{"an entity created later cascades on the bucket it had", createdLater},
		{"a deleted entity does not cascade", deletedDoesNotCascade},
		{"a parent that is ahead keeps its own time", parentAhead},
		{"changed limits of the parent rule the next charge", parentRepaired},
	}
}

func bothPay(f *fixture) {
	f.setDefaults(perMinute60)
	projects := limiter.Scope{Entity: "project-1", Resource: model}

	f.setLimits(projects, limiter.PerMinute("rpm", 600))
	f.createCascading("key-1", "project-1")

	out := f.take(0, ask("key-1", rpm(10)), 50_000)
	f.paid(out, "project-1", 590_000)
	f.equal("parent", out.Payers[1].Account, &limiter.Account{
		Entity: "project-1", Resource: model, Limits: []limiter.Limit{limiter.PerMinute("rpm", 600)}, Source: projects,
	})

	// The parent has ten times the refill, by limits of its own.
	f.holds(time.Second, "key-1", 51_000)
	f.holds(time.Second, "project-1", 600_000)
}

func parentRefuses(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")

	f.take(0, ask("project-1", rpm(40)), 20_000)
	out := f.refuse(10*time.Second, ask("key-1", rpm(31)), 60_000)
	f.paid(out, "project-1", 30_000)

	f.unlisted(0, "key-1")
	// If the refusal at 10 s had been stored, the parent would hold 30,000 by
	// its own time.
	f.holds(5*time.Second, "project-1", 25_000)

	f.paid(f.take(10*time.Second, ask("key-1", rpm(30)), 30_000), "project-1", 0)
}

func entityRefuses(f *fixture) {
	f.setDefaults(limiter.PerMinute("rpm", 600))
	f.setLimits(limiter.Scope{Entity: "key-1"}, perMinute60)
	f.createCascading("key-1", "project-1")

	f.refuse(0, ask("key-1", rpm(61)), 60_000)
	f.unlisted(0, "project-1")

	f.paid(f.take(0, ask("key-1", rpm(60)), 0), "project-1", 540_000)

	f.refuse(time.Second, ask("key-1", rpm(2)), 1_000)
	// The parent keeps what the entity cannot use.
	f.holds(0, "project-1", 540_000)
}

func parentInDebtRefuses(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")
	out := f.take(0, ask("key-1", rpm(1)), 59_000)
	f.paid(out, "project-1", 59_000)

	f.credit(0, out.Payers[1].Account, rpm(-60))
	f.refuse(0, ask("key-1", rpm(0)), 59_000)
	f.paid(f.take(time.Second, ask("key-1", rpm(0)), 60_000), "project-1", 0)
}

func parentPaysNothing(f *fixture) {
	f.setDefaults(perMinute60)
	f.create(limiter.Entity{ID: "key-1", Name: "key-1", Parent: "project-1"})
	out := f.take(0, ask("key-1", rpm(1)), 59_000)

	f.equal("payers", len(out.Payers), 1)
	f.unlisted(0, "project-1")
}

func oneLevelUp(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "team-1")
	f.createCascading("team-1", "org-1")

	f.paid(f.take(0, ask("key-1", rpm(10)), 50_000), "team-1", 50_000)
	f.unlisted(0, "org-1")
	f.paid(f.take(0, ask("team-1", rpm(1)), 49_000), "org-1", 59_000)
}

func childrenShare(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")
	f.createCascading("key-2", "project-1")

	f.paid(f.take(0, ask("key-1", rpm(40)), 20_000), "project-1", 20_000)
	f.paid(f.refuse(0, ask("key-2", rpm(21)), 60_000), "project-1", 20_000)
	f.paid(f.take(0, ask("key-2", rpm(20)), 40_000), "project-1", 0)
}

func paysWhatItHas(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1"}, perMinute60)
	f.setLimits(limiter.Scope{Entity: "project-1"}, limiter.PerMinute("tpm", 6000))
	f.createCascading("key-1", "project-1")

	f.paid(f.take(0, ask("key-1", rpm(1).And("tpm", 1000)), 59_000), "project-1", 5_000_000)
	f.paid(f.take(0, ask("key-1", tpm(1000)), 59_000), "project-1", 4_000_000)

	f.refuse(0, ask("key-1", rpm(1).And("tpm", 4001)), 59_000)

	_, err := f.repo.Consume(f.ctx, epoch, ask("key-1", rpm(1).And("nonsense", 1)))
	f.invalid("Consume of a limit that neither has", err)

	f.holds(0, "key-1", 59_000)
	f.holds(0, "project-1", 4_000_000)
}

func parentNeedsLimits(f *fixture) {
	f.setLimits(limiter.Scope{Entity: "key-1"}, perMinute60)
	f.createCascading("key-1", "project-1")

	_, err := f.repo.Consume(f.ctx, epoch, ask("key-1", rpm(1)))
	f.fails("Consume for a parent without limits", err, limiter.ErrNoLimits)
	f.unlisted(0, "key-1")

	f.setLimits(limiter.Scope{}, perMinute60)
	f.paid(f.take(0, ask("key-1", rpm(1)), 59_000), "project-1", 59_000)

	_, err = f.repo.Entity(f.ctx, "project-1")
	f.fails("Entity of a parent without record", err, limiter.ErrNotFound)
}

func createdLater(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("key-1", rpm(1)), 59_000)

	f.createCascading("key-1", "project-1")
	f.paid(f.take(0, ask("key-1", rpm(1)), 58_000), "project-1", 59_000)
}

func deletedDoesNotCascade(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")
	f.take(0, ask("key-1", rpm(1)), 59_000)

	f.deleteEntity("key-1")
	out := f.take(0, ask("key-1", rpm(1)), 59_000)
	f.equal("payers", len(out.Payers), 1)
	f.holds(0, "project-1", 59_000)
}

func parentAhead(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")
	f.take(time.Minute, ask("project-1", rpm(30)), 30_000)

	// The parent's refill begins at its own time, a minute ahead of its
	// child's.
	f.paid(f.take(0, ask("key-1", rpm(10)), 50_000), "project-1", 20_000)
	f.holds(time.Second, "key-1", 51_000)
	f.holds(time.Second, "project-1", 20_000)
	f.holds(61*time.Second, "project-1", 21_000)
}

func parentRepaired(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "project-1")
	f.take(0, ask("key-1", rpm(10)))

	f.setLimits(limiter.Scope{Entity: "project-1"}, limiter.PerMinute("rpm", 30), limiter.PerMinute("tpm", 100))
	f.paid(f.take(0, ask("key-1", rpm(1)), 49_000), "project-1", 29_000, 100_000)
}
