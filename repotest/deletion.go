package repotest

import (
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func deletionChecks() []check {
	return []check{
		{"a delete removes record, limits, buckets and usage, not the audit trail", deleteTakesAll},
		{"a delete leaves other entities alone", deleteLeavesOthers},
		{"a delete is complete, however much there is", deleteComplete},
		{"an entity without a record can be deleted", deleteUncreated},
		{"a deleted entity is not found", deleteTwice},
		{"a deleted entity starts again", deleteBeginsAnew},
		{"a lease of a deleted entity has no effect", deleteDropsCredits},
		{"a lease of a bucket that expired before the delete has no effect", deleteDropsExpiredCredits},
		{"a lease of a bucket that was replaced before the delete has no effect", deleteDropsReplacedCredits},
		{"an event without details gets the store's details", deleteWithoutDetails},
	}
}

func deleteWithoutDetails(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.create(limiter.Entity{ID: "key-1", Name: "key-1"})
	// A store that adds its details to a nil map panics.
	bare := func(action, entity string) limiter.AuditEvent {
		ev := f.event(action, entity)
		ev.Details = nil
		return ev
	}

	f.ok("DeleteEntity", f.repo.DeleteEntity(f.ctx, "key-1", bare("entity_deleted", "key-1")))
	f.ok("DeleteConfig", f.repo.DeleteConfig(f.ctx, limiter.Scope{}, bare("limits_deleted", "$SYSTEM")))
	f.equal("details", f.audit("key-1", "")[0].Details["records_deleted"], int64(1))
	f.equal("details", f.audit("$SYSTEM", "")[0].Details, map[string]any{"limits": []any{"rpm"}, "on_unavailable": nil})
}

func deleteTakesAll(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.create(limiter.Entity{ID: "key-1", Name: "key-1", Parent: "p"})
	f.setLimits(limiter.Scope{Entity: "key-1"}, perMinute60)
	f.setLimits(limiter.Scope{Entity: "key-1", Resource: "x"}, perMinute60)

	for _, resource := range []string{"x", "y"} {
		c := ask("key-1", rpm(1))
		c.Resource = resource
		f.take(0, c)
	}

	f.deleteEntity("key-1")
	_, err := f.repo.Entity(f.ctx, "key-1")
	f.fails("Entity", err, limiter.ErrNotFound)

	f.equal("children of its parent", f.entityIDs("p"), []string(nil))
	for _, s := range []limiter.Scope{{Entity: "key-1"}, {Entity: "key-1", Resource: "x"}} {
		cfg, err := f.repo.Config(f.ctx, s)
		f.ok("Config", err)
		f.equal("config", cfg, limiter.Config{Scope: s})
	}

	f.unlisted(0, "key-1")
	f.equal("usage", f.usage(limiter.UsageQuery{Entity: "key-1"}), []limiter.UsageSnapshot(nil))
	f.equal("events", len(f.audit("key-1", "")), 4)
}

func deleteLeavesOthers(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)
	f.createCascading("key-1", "project-1")
	f.create(limiter.Entity{ID: "child", Name: "child", Parent: "key-1"})
	// A store that deletes by a prefix of keys, or ignores case, would delete
	// these too.
	others := []string{"key-10", "key-1:x", "Key-1", "project-1"}

	for _, id := range others {
		f.take(0, ask(id, rpm(10)), 50_000)
		f.setLimits(limiter.Scope{Entity: id}, perMinute60)
	}

	f.paid(f.take(0, ask("key-1", rpm(1))), "project-1", 49_000)
	f.deleteEntity("key-1")

	f.holds(0, "project-1", 49_000)
	f.equal("children", f.entityIDs("key-1"), []string{"child"})
	for _, id := range others {
		cfg, err := f.repo.Config(f.ctx, limiter.Scope{Entity: id})
		f.ok("Config", err)
		f.equal("limits of "+id, cfg.Limits, []limiter.Limit{perMinute60})
		if f.countsUsage {
			f.equal("snapshots of "+id, len(f.usage(limiter.UsageQuery{Entity: id})), 3)
		}
		f.equal("buckets of "+id, len(f.buckets(0, limiter.Scope{Entity: id})), 1)
	}
}

// deleteComplete has more records than a store can delete in one request.
func deleteComplete(f *fixture) {
	f.setLimits(limiter.Scope{}, perMinute60)

	for i := range 40 {
		c := ask("key-1", rpm(1))
		c.Resource = fmt.Sprintf("r%d", i)
		f.take(0, c)
	}

	f.deleteEntity("key-1")
	f.unlisted(0, "key-1")
	f.equal("usage", f.usage(limiter.UsageQuery{Entity: "key-1"}), []limiter.UsageSnapshot(nil))
}

func deleteUncreated(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(0, ask("charged", rpm(1)))
	f.deleteEntity("charged")

	f.setLimits(limiter.Scope{Entity: "limited"}, perMinute60)
	f.deleteEntity("limited")

	// The bucket has expired, but its row or its usage may be stored.
	f.take(-time.Hour, ask("used-once", rpm(1)))
	f.unlisted(0, "used-once")
	f.deleteEntity("used-once")
	f.equal("usage", f.usage(limiter.UsageQuery{Resource: model}), []limiter.UsageSnapshot(nil))
}

func deleteTwice(f *fixture) {
	f.create(limiter.Entity{ID: "key-1", Name: "key-1"})

	f.deleteEntity("key-1")
	f.fails("DeleteEntity", f.repo.DeleteEntity(f.ctx, "key-1", f.event("entity_deleted", "key-1")),
		limiter.ErrNotFound)
	f.equal("events", len(f.audit("key-1", "")), 2)
}

func deleteBeginsAnew(f *fixture) {
	f.setDefaults(perMinute60)
	f.create(limiter.Entity{ID: "key-1", Name: "old", Metadata: map[string]string{"a": "1"}})
	f.take(0, ask("key-1", rpm(60)), 0)

	f.deleteEntity("key-1")

	f.create(limiter.Entity{ID: "key-1", Name: "new"})
	got, err := f.repo.Entity(f.ctx, "key-1")
	f.ok("Entity", err)
	f.equal("entity", got, limiter.Entity{ID: "key-1", Name: "new", CreatedAt: epoch})

	f.take(0, ask("key-1", rpm(60)), 0)
}

func deleteDropsCredits(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(0, ask("key-1", rpm(20))).Payers[0].Account
	f.deleteEntity("key-1")
	f.drops(0, account)
}

func deleteDropsExpiredCredits(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(-time.Hour, ask("key-1", rpm(20))).Payers[0].Account
	f.deleteEntity("key-1")
	f.drops(0, account)
}

func deleteDropsReplacedCredits(f *fixture) {
	f.setDefaults(perMinute60)
	account := f.take(-time.Hour, ask("key-1", rpm(20))).Payers[0].Account
	f.take(0, ask("key-1", rpm(20)), 40_000)
	f.deleteEntity("key-1")
	f.drops(0, account)
}

// drops checks that credits to an account of key-1 do nothing, while the
// bucket is gone and after there is a new one.
func (f *fixture) drops(d time.Duration, account *limiter.Account) {
	f.Helper()
	f.credit(d, account, rpm(-5))
	f.credit(d, account, rpm(5))
	f.unlisted(d, "key-1")
	f.equal("usage", f.usage(limiter.UsageQuery{Entity: "key-1"}), []limiter.UsageSnapshot(nil))

	f.take(d, ask("key-1", rpm(30)), 30_000)
	f.credit(d, account, rpm(-5))
	f.holds(d, "key-1", 30_000)
	f.credit(d, account, rpm(5))
	f.holds(d, "key-1", 30_000)
}
