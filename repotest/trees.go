package repotest

import (
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func treeChecks() []check {
	return []check{
		{"every level of a chain pays", everyLevelPays},
		{"a level that refuses leaves all others as they were", anyLevelRefuses},
		{"from the grandparent up only limits of the entity count", ownLimitsOnly},
		{"an ancestor without limits of its own passes charges on", passesOn},
		{"the bucket of an ancestor's own charges does not pay for others by wider limits", ownBucketStays},
		{"limits of a call and defaults end at the parent", callLimitsEnd},
		{"an ancestor that does not cascade ends the chain", chainEnds},
		{"a record without a generation ends the chain at its parent", oldRecordsEnd},
		{"a deleted record ends the chain", deletedRecordEnds},
		{"a level that is off refuses all below", switchAbove},
		{"an amount is known if any level has the limit", anyLevelKnows},
		{"quotas of ancestors step with the charge", quotaAbove},
		{"shadow limits of ancestors are spared", shadowAncestors},
		{"chains of eight levels pay, and longer ones cannot be stored", eightLevels},
		{"no entity becomes its own ancestor", noCycle},
		{"changed limits of an ancestor rule the next charge", ancestorRepaired},
		{"a peek shows every level", peekLevels},
		{"charges of many keys through one organization admit exactly its capacity", exactlyOrganization},
	}
}

// tree stores a chain of entities that cascade, the lowest first.
func (f *fixture) tree(ids ...string) {
	f.Helper()
	for i, id := range ids {
		e := limiter.Entity{ID: id, Name: id, Generation: epoch.UnixMilli()}
		if i+1 < len(ids) {
			e.Parent, e.Cascade = ids[i+1], true
		}
		f.create(e)
	}
}

// payers checks which entities an outcome names, and what their first limit has left.
func (f *fixture) payers(out limiter.Outcome, want ...any) {
	f.Helper()
	var got []any
	for _, b := range out.Payers {
		got = append(got, b.Account.Entity, b.Tokens[0])
	}
	for i := 1; i < len(want); i += 2 {
		if n, ok := want[i].(int); ok {
			want[i] = int64(n)
		}
	}
	f.equal("payers", got, want)
}

func everyLevelPays(f *fixture) {
	f.setDefaults(perMinute60)
	f.tree("key-1", "project-1", "team-1", "org-1")
	f.setLimits(limiter.Scope{Entity: "team-1"}, limiter.PerMinute("rpm", 600))
	f.setLimits(limiter.Scope{Entity: "org-1", Resource: model}, limiter.PerMinute("rpm", 6000))

	f.payers(f.take(0, ask("key-1", rpm(10))), "key-1", 50_000, "project-1", 50_000, "team-1", 590_000,
		"org-1", 5_990_000)
	f.payers(f.take(0, ask("project-1", rpm(1))), "project-1", 49_000, "team-1", 589_000, "org-1", 5_989_000)
	f.payers(f.take(0, ask("team-1", rpm(1))), "team-1", 588_000, "org-1", 5_988_000)

	// Each level refills by its own limit.
	f.holds(time.Second, "key-1", 51_000)
	f.holds(time.Second, "team-1", 598_000)
}

func anyLevelRefuses(f *fixture) {
	f.setDefaults(limiter.PerMinute("rpm", 100))
	for tight := range 4 {
		var levels []string
		for level, name := range []string{"key", "project", "team", "org"} {
			id := fmt.Sprintf("%s-%d", name, tight)
			n := int64(100)
			if level == tight {
				n = 20
			}
			f.setLimits(limiter.Scope{Entity: id}, limiter.PerMinute("rpm", n))
			levels = append(levels, id)
		}
		f.tree(levels...)

		f.take(0, ask(levels[0], rpm(10)))
		f.refuse(0, ask(levels[0], rpm(11)))
		for level, id := range levels {
			f.holds(0, id, map[bool]int64{true: 10_000, false: 90_000}[level == tight])
		}
		f.take(0, ask(levels[0], rpm(10)))
	}
}

func ownLimitsOnly(f *fixture) {
	f.setDefaults(perMinute60)
	f.setLimits(limiter.Scope{}, limiter.PerMinute("tpm", 1000))
	f.tree("key-1", "project-1", "team-1", "org-1")
	f.setLimits(limiter.Scope{Entity: "org-1"}, limiter.PerMinute("rpm", 30))

	// The defaults of the resource hold for a key and its project, not for a team.
	out := f.take(0, ask("key-1", rpm(10)))
	f.payers(out, "key-1", 50_000, "project-1", 50_000, "org-1", 20_000)
	f.equal("exempt", out.Exempt, []string{"team-1"})
	f.equal("exempt from a peek", f.peek(0, ask("key-1", rpm(1))).Exempt, []string{"team-1"})
	f.equal("source", out.Payers[2].Account.Source, limiter.Scope{Entity: "org-1"})
	f.unlisted(0, "team-1")

	f.refuse(0, ask("key-1", rpm(21)))
	f.deleteConfig(limiter.Scope{Entity: "org-1"})
	f.payers(f.take(0, ask("key-1", rpm(21))), "key-1", 29_000, "project-1", 29_000)
}

func passesOn(f *fixture) {
	f.setDefaults(perMinute60)
	f.tree("key-1", "project-1", "a", "b", "c", "org-1")
	f.setLimits(limiter.Scope{Entity: "org-1"}, limiter.PerMinute("rpm", 100))

	f.payers(f.take(0, ask("key-1", rpm(10))), "key-1", 50_000, "project-1", 50_000, "org-1", 90_000)
	// The charge of an ancestor itself is held to the defaults.
	f.payers(f.take(0, ask("b", rpm(10))), "b", 50_000, "c", 50_000, "org-1", 80_000)
}

func ownBucketStays(f *fixture) {
	f.setDefaults(perMinute60)
	f.tree("key-1", "project-1", "team-1")

	f.take(0, ask("team-1", rpm(60)), 0)
	f.payers(f.take(0, ask("key-1", rpm(10))), "key-1", 50_000, "project-1", 50_000)
	f.holds(0, "team-1", 0)

	// From now on it pays for both with one bucket.
	f.setLimits(limiter.Scope{Entity: "team-1"}, perMinute60)
	f.refuse(0, ask("key-1", rpm(1)))
	f.payers(f.take(time.Second, ask("key-1", rpm(1))), "key-1", 50_000, "project-1", 50_000, "team-1", 0)
}

func callLimitsEnd(f *fixture) {
	f.tree("key-1", "project-1", "team-1", "org-1")
	f.setLimits(limiter.Scope{Entity: "org-1"}, limiter.PerMinute("rpm", 100))

	c := ask("key-1", rpm(10))
	c.Defaults = []limiter.Limit{perMinute60}
	f.payers(f.take(0, c), "key-1", 50_000, "project-1", 50_000, "org-1", 90_000)

	over := overrideCharge("key-1", rpm(5), limiter.PerMinute("rpm", 6))
	f.payers(f.take(0, over), "key-1", 1_000, "project-1", 1_000, "org-1", 85_000)
	over.Amounts = rpm(7)
	f.refuse(0, over)
	f.holds(0, "org-1", 85_000)
}

func chainEnds(f *fixture) {
	f.setDefaults(perMinute60)
	f.tree("project-1", "team-1", "org-1")
	for _, id := range []string{"team-1", "org-1"} {
		f.setLimits(limiter.Scope{Entity: id}, limiter.PerMinute("rpm", 100))
	}
	f.create(limiter.Entity{ID: "key-1", Name: "key-1", Parent: "project-1", Cascade: true, Generation: 1})
	f.create(limiter.Entity{ID: "loose", Name: "loose", Parent: "org-1", Generation: 1})
	f.create(limiter.Entity{ID: "user", Name: "user", Parent: "loose", Cascade: true, Generation: 1})

	f.payers(f.take(0, ask("key-1", rpm(1))), "key-1", 59_000, "project-1", 59_000, "team-1", 99_000, "org-1", 99_000)
	f.payers(f.take(0, ask("user", rpm(1))), "user", 59_000, "loose", 59_000)
}

func oldRecordsEnd(f *fixture) {
	f.setDefaults(perMinute60)
	for _, id := range []string{"c", "d", "e"} {
		f.setLimits(limiter.Scope{Entity: id}, limiter.PerMinute("rpm", 100))
	}
	// b is from before there were generations, a was created later.
	f.create(limiter.Entity{ID: "d", Name: "d", Parent: "e", Cascade: true, Generation: 1})
	f.create(limiter.Entity{ID: "c", Name: "c", Parent: "d", Cascade: true, Generation: 1})
	f.createCascading("b", "c")
	f.create(limiter.Entity{ID: "a", Name: "a", Parent: "b", Cascade: true, Generation: 1})

	f.payers(f.take(0, ask("b", rpm(1))), "b", 59_000, "c", 99_000)
	f.payers(f.take(0, ask("a", rpm(1))), "a", 59_000, "b", 58_000, "c", 98_000)
	f.payers(f.take(0, ask("c", rpm(1))), "c", 97_000, "d", 99_000, "e", 99_000)

	// Two entities that are each other's parent are in old trees only.
	f.createCascading("x", "y")
	f.createCascading("y", "x")
	f.payers(f.take(0, ask("x", rpm(1))), "x", 59_000, "y", 59_000)
}

func deletedRecordEnds(f *fixture) {
	f.setDefaults(perMinute60)
	f.tree("key-1", "project-1", "team-1", "org-1")
	for _, id := range []string{"team-1", "org-1"} {
		f.setLimits(limiter.Scope{Entity: id}, limiter.PerMinute("rpm", 100))
	}
	f.take(0, ask("key-1", rpm(1)))

	f.deleteEntity("team-1")
	f.payers(f.take(0, ask("key-1", rpm(1))), "key-1", 58_000, "project-1", 58_000)
	f.holds(0, "org-1", 99_000)
}

func switchAbove(f *fixture) {
	f.setDefaults(perMinute60)
	f.tree("key-1", "project-1", "team-1", "org-1")
	f.setLimits(limiter.Scope{Entity: "org-1"}, limiter.PerMinute("rpm", 100))
	f.take(0, ask("key-1", rpm(1)))

	// team-1 pays nothing, and its switch holds all the same.
	for _, off := range []limiter.Scope{{Entity: "team-1"}, {Entity: "org-1", Resource: model}} {
		f.disable(off, "")
		f.disabled(ask("key-1", rpm(1)), off)
		f.disabled(ask("project-1", rpm(1)), off)
		f.equal("last switch", f.repo.LastSwitch("key-1", model) != nil, true)
		f.enable(off)
		f.take(0, ask("key-1", rpm(1)))
	}
	f.holds(0, "org-1", 97_000)
}

func anyLevelKnows(f *fixture) {
	f.setDefaults(perMinute60)
	f.tree("key-1", "project-1", "team-1", "org-1")
	f.setLimits(limiter.Scope{Entity: "org-1"}, limiter.PerMinute("tpm", 100))

	f.payers(f.take(0, ask("key-1", rpm(1).And("tpm", 40))), "key-1", 59_000, "project-1", 59_000, "org-1", 60_000)
	f.refuse(0, ask("key-1", tpm(61)))
	_, err := f.repo.Consume(f.ctx, epoch, ask("key-1", rpm(1).And("nonsense", 1)))
	f.invalid("Consume of a limit that no level has", err)
	f.holds(0, "key-1", 59_000)
}

func quotaAbove(f *fixture) {
	f.setDefaults(limiter.PerDay("rpm", 1000))
	f.tree("key-1", "project-1", "team-1")
	f.setLimits(limiter.Scope{Entity: "team-1"}, daily(100))

	f.take(0, ask("key-1", rpm(1).And("tpd", 100)))
	f.refuse(midnight-ms(1), ask("key-1", tpd(1)))
	out := f.take(midnight, ask("key-1", tpd(30)))
	f.equal("balance", out.Payers[2].Tokens, []int64{70_000})
	f.equal("window", out.Payers[2].Detail.Starts, []int64{start(midnight)})
}

func shadowAncestors(f *fixture) {
	f.setDefaults(perMinute60)
	f.tree("key-1", "project-1", "team-1")
	f.setLimits(limiter.Scope{Entity: "team-1"}, limiter.PerMinute("rpm", 5).Shadow())

	out := f.take(0, ask("key-1", rpm(10)))
	f.payers(out, "key-1", 50_000, "project-1", 50_000, "team-1", 5_000)
	f.spared(out.Payers[2], true)
	out = f.take(0, ask("key-1", rpm(5)))
	f.payers(out, "key-1", 45_000, "project-1", 45_000, "team-1", 0)
	f.spared(out.Payers[2])
}

func eightLevels(f *fixture) {
	f.setDefaults(perMinute60)
	var levels []string
	for i := range limiter.MaxLevels {
		id := fmt.Sprintf("level-%d", i+1)
		levels = append(levels, id)
		f.setLimits(limiter.Scope{Entity: id}, limiter.PerMinute("rpm", int64(100+i)))
	}
	f.tree(levels...)

	out := f.take(0, ask("level-1", rpm(10)))
	f.equal("payers", len(out.Payers), limiter.MaxLevels)
	for i, id := range levels {
		f.holds(0, id, int64(90+i)*1000)
	}

	// A change of every level concerns the next charge, which finds all of them.
	for i, id := range levels {
		f.setLimits(limiter.Scope{Entity: id}, limiter.PerMinute("rpm", int64(200+i)))
	}
	f.equal("payers", len(f.take(time.Minute, ask("level-1", rpm(10))).Payers), limiter.MaxLevels)
	for i, id := range levels {
		f.holds(time.Minute, id, int64(90+i)*1000)
	}

	deeper := limiter.Entity{ID: "deeper", Name: "deeper", Parent: "level-1", Cascade: true, Generation: 1}
	f.invalid("CreateEntity of a ninth level", f.repo.CreateEntity(f.ctx, deeper, f.event("entity_created", "deeper")))
	_, err := f.repo.Entity(f.ctx, "deeper")
	f.fails("Entity that was refused", err, limiter.ErrNotFound)

	// Without cascade it is a leaf of its own.
	deeper.Cascade = false
	f.create(deeper)
	f.payers(f.take(0, ask("deeper", rpm(1))), "deeper", 59_000)

	// A chain that was put together from below is found by the charge.
	f.create(limiter.Entity{ID: "below", Name: "below", Parent: "missing", Cascade: true, Generation: 1})
	f.create(limiter.Entity{ID: "missing", Name: "missing", Parent: "level-2", Cascade: true, Generation: 1})
	_, err = f.repo.Consume(f.ctx, at(time.Minute), ask("below", rpm(1)))
	f.invalid("Consume through nine levels", err)
	f.holds(time.Minute, "level-2", 91_000)

	f.disable(limiter.Scope{Entity: "level-7"}, "")
	f.disabled(ask("below", rpm(1)), limiter.Scope{Entity: "level-7"})
}

func noCycle(f *fixture) {
	f.create(limiter.Entity{ID: "a", Name: "a", Parent: "b", Cascade: true, Generation: 1})
	f.create(limiter.Entity{ID: "b", Name: "b", Parent: "c", Generation: 1})
	for _, cascade := range []bool{true, false} {
		e := limiter.Entity{ID: "c", Name: "c", Parent: "a", Cascade: cascade, Generation: 1}
		f.invalid("CreateEntity of a cycle", f.repo.CreateEntity(f.ctx, e, f.event("entity_created", "c")))
	}
	again := limiter.Entity{ID: "a", Name: "a", Parent: "c", Cascade: true, Generation: 2}
	f.fails("CreateEntity again", f.repo.CreateEntity(f.ctx, again, f.event("entity_created", "a")), limiter.ErrExists)
	// What exists comes before what would be a circle.
	f.create(limiter.Entity{ID: "c", Name: "c", Generation: 1})
	again = limiter.Entity{ID: "c", Name: "c", Parent: "a", Cascade: true, Generation: 2}
	f.fails("CreateEntity of c again", f.repo.CreateEntity(f.ctx, again, f.event("entity_created", "c")),
		limiter.ErrExists)

	// Older releases and Python have stored circles, below which there is room.
	f.createCascading("x", "y")
	f.createCascading("y", "x")
	f.create(limiter.Entity{ID: "z", Name: "z", Parent: "x", Cascade: true, Generation: 1})
	f.equal("entities", f.entityIDs(""), []string{"a", "b", "c", "x", "y", "z"})
}

func ancestorRepaired(f *fixture) {
	f.setDefaults(perMinute60)
	f.tree("key-1", "project-1", "team-1")
	f.setLimits(limiter.Scope{Entity: "team-1"}, limiter.PerMinute("rpm", 100))
	f.take(0, ask("key-1", rpm(10)))

	f.setLimits(limiter.Scope{Entity: "team-1"}, limiter.PerMinute("rpm", 30), limiter.PerMinute("tpm", 100))
	out := f.take(0, ask("key-1", rpm(1).And("tpm", 60)))
	f.equal("balances", out.Payers[2].Tokens, []int64{29_000, 40_000})
}

func peekLevels(f *fixture) {
	f.setDefaults(perMinute60)
	f.tree("key-1", "project-1", "team-1", "org-1")
	f.setLimits(limiter.Scope{Entity: "team-1"}, limiter.PerMinute("rpm", 20))
	f.setLimits(limiter.Scope{Entity: "org-1"}, limiter.PerMinute("rpm", 100))

	f.checkPeek(0, ask("key-1", rpm(15)))
	f.checkPeek(0, ask("key-1", rpm(15)))
	f.checkPeek(0, ask("project-1", rpm(5)))
}

func exactlyOrganization(f *fixture) {
	const room = 200
	f.setDefaults(limiter.PerDay("rpm", 100_000))
	f.setLimits(limiter.Scope{Entity: "org-1"}, limiter.Quota("rpm", room, limiter.EveryYear))
	f.tree("project-1", "team-1", "org-1")
	for i := range workers {
		f.create(limiter.Entity{
			ID: fmt.Sprintf("key-%d", i), Name: "key", Parent: "project-1", Cascade: true, Generation: 1,
		})
	}

	n := f.admitted(func(worker int) limiter.Charge { return ask(fmt.Sprintf("key-%d", worker), rpm(1)) })
	f.equal("admitted", n, int64(room))
	f.holds(0, "org-1", 0)
}
