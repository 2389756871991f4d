package repotest

import (
	"cmp"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func namespaceChecks() []check {
	return []check{
		{"a registered name is active, once", namespaceRegistered},
		{"a name that is not active has no view", namespaceNotFound},
		{"all states are listed by name, then ID", namespaceOrder},
		{"namespaces see nothing of each other", namespaceIsolated},
		{"views of one namespace see the same", namespaceShared},
		{"calls in a deleted namespace fail", namespaceDeleted},
		{"a lease outlives the delete of its namespace", namespaceCredits},
		{"a recovered namespace is as it was", namespaceRecovered},
		{"a name registered again is empty", namespaceRegisteredAgain},
		{"recover fails with the right error", namespaceRecoverErrors},
		{"a purge deletes the data of one ID only", namespacePurged},
		{"a purge fails with the right error", namespacePurgeErrors},
	}
}

func (f *fixture) namespaces() []limiter.Namespace {
	f.Helper()
	return collect(f, "Namespaces", f.repo.Namespaces(f.ctx))
}

// find returns the listed namespace with an ID.
func (f *fixture) find(id string) limiter.Namespace {
	f.Helper()

	for _, ns := range f.namespaces() {
		if ns.ID == id {
			return ns
		}
	}
	f.Fatalf("namespace %s is not listed", id)
	return limiter.Namespace{}
}

func namespaceRegistered(f *fixture) {
	// A namespace is dated in whole seconds.
	first, err := f.repo.RegisterNamespace(f.ctx, at(ms(999)), "team.a")
	f.ok("RegisterNamespace", err)
	f.equal("namespace", first, limiter.Namespace{ID: first.ID, Name: "team.a", CreatedAt: epoch})

	again, err := f.repo.RegisterNamespace(f.ctx, at(time.Hour), "team.a")
	f.ok("RegisterNamespace", err)
	f.equal("registered again", again, first)

	f.equal("as listed", f.find(first.ID), first)
	f.equal("number of namespaces", len(f.namespaces()), 2)
}

func namespaceNotFound(f *fixture) {
	_, err := f.repo.Namespace(f.ctx, "team-a")
	f.fails("Namespace", err, limiter.ErrNotFound)
	f.fails("DeleteNamespace", f.repo.DeleteNamespace(f.ctx, epoch, "team-a"), limiter.ErrNotFound)

	f.namespace("team-a")
	f.deleteNamespace("team-a")

	_, err = f.repo.Namespace(f.ctx, "team-a")
	f.fails("Namespace", err, limiter.ErrNotFound)
	f.fails("DeleteNamespace", f.repo.DeleteNamespace(f.ctx, epoch, "team-a"), limiter.ErrNotFound)
}

func namespaceOrder(f *fixture) {
	for _, name := range []string{"b", "z", "a", "z", "z", "a"} {
		f.namespace(name)
		// A time of 1.5 s is stored as one second.
		if name != "b" {
			f.ok("DeleteNamespace", f.repo.DeleteNamespace(f.ctx, at(ms(1500)), name))
		}
	}

	all := f.namespaces()
	f.equal("number of namespaces", len(all), 7)

	sorted := slices.IsSortedFunc(all, func(a, b limiter.Namespace) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	f.equal("sorted", sorted, true)

	for _, ns := range all {
		active := ns.Name == "b" || ns.Name == "default"
		f.equal("active", ns.DeletedAt.IsZero(), active)
		if !active {
			f.equal("deleted at", ns.DeletedAt, at(time.Second))
		}
	}
}

func namespaceIsolated(f *fixture) {
	_, other := f.namespace("other")

	empty := other.namespaceState()

	f.populate()
	f.equal("the other namespace", other.namespaceState(), empty)

	other.setDefaults(limiter.PerMinute("rpm", 10))
	other.take(0, ask("key-1", rpm(1)), 9_000)
	other.setMode(limiter.Allow)

	f.holds(0, "key-1", 50_000)
	f.equal("mode", f.repo.OnUnavailable(), limiter.Block)

	other.deleteEntity("key-1")
	f.holds(0, "key-1", 50_000)
}

// namespaceState returns the state without the list of namespaces.
func (f *fixture) namespaceState() state {
	f.Helper()
	s := f.state(0)
	s.Namespaces = nil
	return s
}

func namespaceShared(f *fixture) {
	_, first := f.namespace("other")

	view, err := first.repo.Namespace(f.ctx, "other")
	f.ok("Namespace", err)
	second := f.in(view)

	first.populate()
	f.equal("second view", second.namespaceState(), first.namespaceState())

	second.take(0, ask("key-1", rpm(1)), 49_000)
	first.holds(0, "key-1", 49_000)

	view, err = first.repo.Namespace(f.ctx, "default")
	f.ok("Namespace", err)
	f.equal("a view of the default namespace", f.in(view).namespaceState(), f.namespaceState())
}

func namespaceDeleted(f *fixture) {
	id, inside := f.namespace("other")
	for _, c := range inside.calls(inside.populate()) {
		if !c.scoped {
			continue
		}

		f.deleteNamespace("other")
		err := c.do(f.ctx)

		_, recoverErr := f.repo.RecoverNamespace(f.ctx, epoch, id)
		f.ok("RecoverNamespace", recoverErr)
		// A lease may outlive the delete, so its credits are stored.
		if c.name == "Credit" {
			f.ok("Credit to a deleted namespace", err)
		} else {
			f.fails(c.name+" of a deleted namespace", err, limiter.ErrNotFound)
		}
	}
}

func namespaceCredits(f *fixture) {
	id, inside := f.namespace("other")
	account := inside.populate()

	f.deleteNamespace("other")
	inside.credit(0, account, rpm(-7))
	inside.credit(0, account, rpm(2))

	_, err := f.repo.RecoverNamespace(f.ctx, at(0), id)
	f.ok("RecoverNamespace", err)
	inside.holds(0, "key-1", 45_000)
}

func namespaceRecovered(f *fixture) {
	id, inside := f.namespace("other")

	inside.populate()
	space, before := f.find(id), inside.namespaceState()

	f.deleteNamespace("other")
	f.equal("deleted at", f.find(id).DeletedAt, epoch)

	got, err := f.repo.RecoverNamespace(f.ctx, at(time.Hour), id)
	f.ok("RecoverNamespace", err)
	f.equal("recovered namespace", got, space)
	f.equal("as listed", f.find(id), space)
	// A view that was made before the delete works again.
	f.equal("an old view", inside.namespaceState(), before)

	view, err := f.repo.Namespace(f.ctx, "other")
	f.ok("Namespace", err)
	f.equal("a new view", f.in(view).namespaceState(), before)
}

func namespaceRegisteredAgain(f *fixture) {
	oldID, old := f.namespace("other")
	empty := old.namespaceState()

	old.populate()
	f.deleteNamespace("other")

	newID, fresh := f.namespace("other")
	if newID == oldID {
		f.Errorf("registered again under the old ID %s", oldID)
	}

	f.equal("the new namespace", fresh.namespaceState(), empty)

	_, err := old.repo.Config(f.ctx, limiter.Scope{})
	f.fails("Config of the old view", err, limiter.ErrNotFound)
	f.equal("its mode", fresh.repo.OnUnavailable(), limiter.OnUnavailable(""))
}

func namespaceRecoverErrors(f *fixture) {
	restore := func(id string) error {
		_, err := f.repo.RecoverNamespace(f.ctx, epoch, id)
		return err
	}

	f.fails("RecoverNamespace of nothing", restore("no-such-id"), limiter.ErrNotFound)

	id, _ := f.namespace("other")
	f.fails("RecoverNamespace of an active one", restore(id), limiter.ErrConflict)

	f.deleteNamespace("other")
	taker, _ := f.namespace("other")
	f.fails("RecoverNamespace of a name that is taken", restore(id), limiter.ErrExists)
	f.equal("who has the name", f.find(taker).DeletedAt.IsZero(), true)

	f.deleteNamespace("other")
	f.ok("RecoverNamespace", restore(id))
	f.fails("RecoverNamespace of a name that is taken", restore(taker), limiter.ErrExists)
}

func namespacePurged(f *fixture) {
	id, old := f.namespace("other")
	account := old.populate()

	f.deleteNamespace("other")

	_, fresh := f.namespace("other")
	fresh.populate()
	before := fresh.namespaceState()

	f.ok("PurgeNamespace", f.repo.PurgeNamespace(f.ctx, id))
	f.equal("number of namespaces", len(f.namespaces()), 2)
	f.equal("the new namespace", fresh.namespaceState(), before)

	_, err := f.repo.RecoverNamespace(f.ctx, epoch, id)
	f.fails("RecoverNamespace of a purged one", err, limiter.ErrNotFound)

	_, err = old.repo.Consume(f.ctx, epoch, ask("key-1", rpm(1)))
	f.fails("Consume of a purged namespace", err, limiter.ErrNotFound)
	// A lease of the old namespace has no effect, whatever Credit returns.
	_ = old.repo.Credit(f.ctx, epoch, limiter.Credit{Account: account, Amounts: rpm(-7)})
	f.equal("the new namespace", fresh.namespaceState(), before)
}

func namespacePurgeErrors(f *fixture) {
	f.fails("PurgeNamespace of nothing", f.repo.PurgeNamespace(f.ctx, "no-such-id"), limiter.ErrNotFound)

	id, inside := f.namespace("other")
	inside.populate()
	before := inside.namespaceState()

	f.fails("PurgeNamespace of an active one", f.repo.PurgeNamespace(f.ctx, id), limiter.ErrConflict)
	f.equal("the namespace", inside.namespaceState(), before)

	f.deleteNamespace("other")
	f.ok("PurgeNamespace", f.repo.PurgeNamespace(f.ctx, id))
	f.fails("PurgeNamespace once done", f.repo.PurgeNamespace(f.ctx, id), limiter.ErrNotFound)
}
