package repotest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go"
)

func managedChecks() []check {
	checks := []check{
		{"nothing is managed at first", managedNothing},
		{"the stored list is sorted by entity, then resource", managedStored},
		{"another hash is a conflict and changes nothing", managedRefused},
		{"one of several concurrent writes succeeds", managedOnce},
		{"a long list is stored completely", managedMany},
		{"the owner is stored with the list", managedOwner},
		{"a level is replaced as a whole", managedReplaced},
		{"a replaced level applies to live buckets", managedReplacedLive},
	}

	for i, c := range checks {
		checks[i].run = func(f *fixture) {
			if _, ok := limiter.Optional[limiter.ManagedStore](f.repo); !ok {
				f.Skip("the store has no Managed and SetManaged, so that no manifest can be applied to it")
			}
			c.run(f)
		}
	}
	return checks
}

// managedCalls returns the calls of the optional interface, if the store has
// it.
func (f *fixture) managedCalls() []call {
	store, ok := limiter.Optional[limiter.ManagedStore](f.repo)
	if !ok {
		return nil
	}
	return []call{
		{"Managed", true, func(ctx context.Context) error { _, _, _, err := store.Managed(ctx); return err }},
		{"SetManaged", true, func(ctx context.Context) error {
			return store.SetManaged(ctx, epoch, "hash", "hash", "", nil)
		}},
		{"ReplaceConfig", true, func(ctx context.Context) error {
			return store.ReplaceConfig(ctx, limiter.Config{OnUnavailable: limiter.Block},
				f.event("limits_set", "$SYSTEM"))
		}},
	}
}

// managedStore returns the store, which must have the optional interface.
func (f *fixture) managedStore() limiter.ManagedStore {
	f.Helper()
	store, ok := limiter.Optional[limiter.ManagedStore](f.repo)

	if !ok {
		f.Fatalf("%T has no Managed and SetManaged", f.repo)
	}
	return store
}

func (f *fixture) managed() ([]limiter.Scope, string) {
	f.Helper()

	scopes, hash, _, err := f.managedStore().Managed(f.ctx)
	f.ok("Managed", err)
	return scopes, hash
}

// checkManaged compares the stored values.
func (f *fixture) checkManaged(hash string, scopes ...limiter.Scope) {
	f.Helper()

	gotScopes, gotHash := f.managed()
	f.equal("hash", gotHash, hash)
	f.equal("managed scopes", gotScopes, scopes)
}

func (f *fixture) setManaged(previous, hash string, scopes ...limiter.Scope) error {
	f.Helper()
	return f.managedStore().SetManaged(f.ctx, at(ms(123)), previous, hash, "", scopes)
}

func managedNothing(f *fixture) {
	f.setDefaults(perMinute60)
	f.checkManaged("")

	_, other := f.namespace("other")
	f.ok("SetManaged", other.setManaged("", "first", limiter.Scope{}))
	f.checkManaged("")
	other.checkManaged("first", limiter.Scope{})
}

func managedStored(f *fixture) {
	all := []limiter.Scope{
		{Entity: "k", Resource: "b"},
		{Resource: "openai/gpt-4"},
		{},
		{Entity: "k"},
		{Resource: "B"},
		{Entity: "k", Resource: "B"},
		{Entity: "12", Resource: "b"},
	}

	f.ok("SetManaged", f.setManaged("", "first", all...))
	f.checkManaged("first", all[2], all[4], all[1], all[6], all[3], all[5], all[0])

	f.ok("SetManaged", f.setManaged("first", "second", all[1]))
	f.checkManaged("second", all[1])

	f.ok("SetManaged", f.setManaged("second", "second", all[3]))
	f.checkManaged("second", all[3])
	f.ok("SetManaged", f.setManaged("second", "third"))
	f.checkManaged("third")

	// A list of managed levels stores no limits.
	f.defaults()
}

func managedRefused(f *fixture) {
	f.fails("SetManaged after what never was", f.setManaged("first", "second", limiter.Scope{}), limiter.ErrConflict)
	f.checkManaged("")

	f.ok("SetManaged", f.setManaged("", "first", limiter.Scope{Resource: model}))
	// A hash that is only similar is another one.
	for _, previous := range []string{"", "second", "firs", "first "} {
		f.fails("SetManaged after "+previous, f.setManaged(previous, "third", limiter.Scope{}), limiter.ErrConflict)
	}

	f.checkManaged("first", limiter.Scope{Resource: model})
}

func managedOnce(f *fixture) {
	const rivals, rounds = 8, 5

	previous := ""
	for round := range rounds {
		var won atomic.Int64
		var group sync.WaitGroup
		for i := range rivals {
			group.Go(func() {
				err := f.setManaged(previous, fmt.Sprintf("%d of round %d", i, round),
					limiter.Scope{Entity: fmt.Sprint(i)})
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, limiter.ErrConflict):
					f.Errorf("SetManaged: error %v, want %v", err, limiter.ErrConflict)
				}
			})
		}

		group.Wait()
		f.equal("how many succeeded", won.Load(), int64(1))
		scopes, hash := f.managed()
		// Each hash begins with the number of its writer, whose list it must
		// come with.
		f.equal("whose list it is", first(f, "managed scopes", scopes).Entity, hash[:1])

		previous = hash
	}
}

func managedMany(f *fixture) {
	var all []limiter.Scope
	for i := range 1000 {
		all = append(all, limiter.Scope{Entity: fmt.Sprintf("key-%04d", i), Resource: model})
	}

	f.ok("SetManaged", f.setManaged("", "first", all...))
	f.checkManaged("first", all...)
}
