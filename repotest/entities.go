package repotest

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go"
)

func entityChecks() []check {
	return []check{
		{"an entity is stored as given", entityStored},
		{"an entity that exists stays as it is", entityExists},
		{"an unknown entity is not found", entityNotFound},
		{"a charge creates no record", entityNotMade},
		{"entities are listed by ID", entityOrder},
		{"children are listed by parent, which may be missing", entityChildren},
		{"a long list is complete", entityManyListed},
		{"metadata are not shared with the caller", entityNotShared},
	}
}

func entityStored(f *fixture) {
	for _, e := range []limiter.Entity{
		{ID: "plain", Name: "plain"},
		{
			ID: "key:1@x.y-z_0", Name: "Schlüssel \"1\" of\n'Ω'", Parent: "missing", Cascade: true,
			Metadata: map[string]string{"a": "", "ü": "1"},
		},
		{ID: "child", Name: "child", Parent: "plain"},
	} {
		f.create(e)
		e.CreatedAt = epoch

		got, err := f.repo.Entity(f.ctx, e.ID)
		f.ok("Entity", err)
		f.equal("entity", got, e)
	}
}

func entityExists(f *fixture) {
	first := limiter.Entity{ID: "key-1", Name: "first", CreatedAt: epoch}
	f.create(first)

	second := limiter.Entity{ID: "key-1", Name: "second", Parent: "project-1", CreatedAt: epoch}
	f.fails("CreateEntity", f.repo.CreateEntity(f.ctx, second, f.event("entity_created", "key-1")), limiter.ErrExists)

	got, err := f.repo.Entity(f.ctx, "key-1")
	f.ok("Entity", err)
	f.equal("entity", got, first)
	// The entity that was refused is no child of the other parent either.
	f.equal("children", len(collect(f, "Entities", f.repo.Entities(f.ctx, "project-1"))), 0)

	f.equal("events", len(f.audit("key-1", "")), 1)
}

func entityNotFound(f *fixture) {
	_, err := f.repo.Entity(f.ctx, "key-1")
	f.fails("Entity", err, limiter.ErrNotFound)
	f.fails("DeleteEntity", f.repo.DeleteEntity(f.ctx, "key-1", f.event("entity_deleted", "key-1")),
		limiter.ErrNotFound)
	f.equal("events", f.audit("key-1", ""), []limiter.AuditEvent(nil))
	f.equal("entities", collect(f, "Entities", f.repo.Entities(f.ctx, "")), []limiter.Entity(nil))
}

func entityNotMade(f *fixture) {
	f.setDefaults(perMinute60)

	f.take(0, ask("key-1", rpm(1)))
	_, err := f.repo.Entity(f.ctx, "key-1")

	f.fails("Entity", err, limiter.ErrNotFound)
	f.equal("entities", f.entityIDs(""), []string(nil))
}

func (f *fixture) entityIDs(parent string) (ids []string) {
	f.Helper()
	for _, e := range collect(f, "Entities", f.repo.Entities(f.ctx, parent)) {
		ids = append(ids, e.ID)
	}
	return ids
}

func entityOrder(f *fixture) {
	for _, id := range []string{"b", "a", "B", "a-1", "10", "9"} {
		f.create(limiter.Entity{ID: id, Name: "z" + id})
	}
	f.equal("entities", f.entityIDs(""), []string{"10", "9", "B", "a", "a-1", "b"})
}

func entityChildren(f *fixture) {
	f.create(limiter.Entity{ID: "c", Name: "c", Parent: "p"})
	f.create(limiter.Entity{ID: "a", Name: "a", Parent: "p", Cascade: true})
	f.create(limiter.Entity{ID: "b", Name: "b", Parent: "p2"})
	f.equal("children", f.entityIDs("p"), []string{"a", "c"})
	f.equal("children of a leaf", f.entityIDs("a"), []string(nil))

	f.create(limiter.Entity{ID: "p", Name: "p"})
	f.deleteEntity("c")
	f.equal("children", f.entityIDs("p"), []string{"a"})
}

func entityManyListed(f *fixture) {
	var want []string
	for i := range 130 {
		id := fmt.Sprintf("key-%03d", i)
		want = append(want, id)
		f.create(limiter.Entity{ID: id, Name: id, Parent: "p"})
	}

	f.equal("entities", f.entityIDs(""), want)
	f.equal("children", f.entityIDs("p"), want)
}

func entityNotShared(f *fixture) {
	mine := map[string]string{"a": "1"}
	f.create(limiter.Entity{ID: "key-1", Name: "key-1", Metadata: mine})

	mine["a"] = "2"
	got, err := f.repo.Entity(f.ctx, "key-1")
	f.ok("Entity", err)
	f.equal("metadata", got.Metadata, map[string]string{"a": "1"})

	clear(got.Metadata)
	clear(first(f, "Entities", collect(f, "Entities", f.repo.Entities(f.ctx, ""))).Metadata)

	got, err = f.repo.Entity(f.ctx, "key-1")
	f.ok("Entity", err)
	f.equal("metadata", got.Metadata, map[string]string{"a": "1"})
}
