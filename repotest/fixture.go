package repotest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
)

// model is the resource of tests that need only one.
const model = "gpt-4"

// epoch is when every test begins: no round number, so that a refill that
// begins to count at its first call differs from one that telescopes.
var epoch = time.Date(2026, time.March, 14, 15, 9, 26, 0, time.UTC)

// at is d after the beginning.
func at(d time.Duration) time.Time { return epoch.Add(d) }

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func rpm(n int64) limiter.Amounts { return limiter.Tokens("rpm", n) }
func tpm(n int64) limiter.Amounts { return limiter.Tokens("tpm", n) }

// perMinute60 refills a thousandth of a token every millisecond, so that
// expected balances can be read off the time.
var perMinute60 = limiter.PerMinute("rpm", 60)

// ask is a charge for the usual resource.
func ask(entity string, amounts limiter.Amounts) limiter.Charge {
	return limiter.Charge{Entity: entity, Resource: model, Amounts: amounts}
}

// overridden is ask with limits of its own.
func overridden(entity string, amounts limiter.Amounts, limits ...limiter.Limit) limiter.Charge {
	c := ask(entity, amounts)
	c.Limits = limits
	return c
}

// fixture is one test with its repository: calls that must succeed, and
// comparisons.
type fixture struct {
	*testing.T
	repo   limiter.Repository
	ctx    context.Context
	events *atomic.Int64
	// countsUsage is false for a store that leaves that to another program.
	countsUsage bool
}

func newFixture(t *testing.T, repo limiter.Repository) *fixture {
	t.Helper()
	return &fixture{T: t, repo: repo, ctx: context.Background(), events: new(atomic.Int64)}
}

// in is the same test on another repository.
func (f *fixture) in(repo limiter.Repository) *fixture {
	g := *f
	g.repo = repo
	return &g
}

// ok stops the test on an error.
func (f *fixture) ok(what string, err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("%s: %v", what, err)
	}
}

// fails checks that err is the error wanted.
func (f *fixture) fails(what string, err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// invalid checks that err is an *InvalidError.
func (f *fixture) invalid(what string, err error) {
	f.Helper()
	if _, ok := errors.AsType[*limiter.InvalidError](err); !ok {
		f.Errorf("%s: error %v, want *limiter.InvalidError", what, err)
	}
}

// equal compares what anyone but the store may look at: not Account.Ref, and
// not whether an empty list or map is nil.
func (f *fixture) equal(what string, got, want any) {
	f.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(limiter.Account{}, "Ref"), cmpopts.EquateEmpty()); diff != "" {
		f.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// event is a new one; later events have higher IDs.
func (f *fixture) event(action, entity string) limiter.AuditEvent {
	return limiter.AuditEvent{
		ID: eventID(f.events.Add(1)), Action: action, Entity: entity, Principal: "tester",
		At: epoch, Details: map[string]any{},
	}
}

// eventID has the 26 characters of a ULID and rises with n.
func eventID(n int64) string { return fmt.Sprintf("01JP%022d", n) }

// audited is the entity under which changes of a scope are recorded.
func audited(s limiter.Scope) string {
	switch {
	case s.Entity != "":
		return s.Entity
	case s.Resource != "":
		return "$RESOURCE:" + s.Resource
	}
	return "$SYSTEM"
}

func (f *fixture) setLimits(s limiter.Scope, limits ...limiter.Limit) {
	f.Helper()
	cfg := limiter.Config{Scope: s, Limits: limits}
	f.ok("SetConfig", f.repo.SetConfig(f.ctx, cfg, f.event("limits_set", audited(s))))
}

// setDefaults stores limits of the usual resource.
func (f *fixture) setDefaults(limits ...limiter.Limit) {
	f.Helper()
	f.setLimits(limiter.Scope{Resource: model}, limits...)
}

func (f *fixture) deleteConfig(s limiter.Scope) {
	f.Helper()
	f.ok("DeleteConfig", f.repo.DeleteConfig(f.ctx, s, f.event("limits_deleted", audited(s))))
}

func (f *fixture) create(e limiter.Entity) {
	f.Helper()
	e.CreatedAt = epoch
	f.ok("CreateEntity", f.repo.CreateEntity(f.ctx, e, f.event("entity_created", e.ID)))
}

// cascading creates a child whose parent pays too.
func (f *fixture) cascading(child, parent string) {
	f.Helper()
	f.create(limiter.Entity{ID: child, Name: child, Parent: parent, Cascade: true})
}

func (f *fixture) deleteEntity(id string) {
	f.Helper()
	f.ok("DeleteEntity", f.repo.DeleteEntity(f.ctx, id, f.event("entity_deleted", id)))
}

// namespace registers a name and returns its ID and a fixture inside it.
func (f *fixture) namespace(name string) (id string, inside *fixture) {
	f.Helper()
	ns, err := f.repo.RegisterNamespace(f.ctx, epoch, name)
	f.ok("RegisterNamespace", err)
	view, err := f.repo.Namespace(f.ctx, name)
	f.ok("Namespace", err)
	return ns.ID, f.in(view)
}

func (f *fixture) deleteNamespace(name string) {
	f.Helper()
	f.ok("DeleteNamespace", f.repo.DeleteNamespace(f.ctx, epoch, name))
}

// collect is a sequence that must end without error.
func collect[T any](f *fixture, what string, seq iter.Seq2[T, error]) []T {
	f.Helper()
	all, err := gather(f, what, seq)
	f.ok(what, err)
	return all
}

// first is the first of a list that must not be empty: a test stops there,
// where an index would stop all of them.
func first[T any](f *fixture, what string, all []T) T {
	f.Helper()
	if len(all) == 0 {
		f.Fatalf("%s: none, want at least one", what)
	}
	return all[0]
}

// gather ranges over a sequence, whose error must be its last pair.
func gather[T any](f *fixture, what string, seq iter.Seq2[T, error]) (all []T, err error) {
	f.Helper()
	for v, failure := range seq {
		switch {
		case err != nil:
			f.Errorf("%s: goes on after the error %v", what, err)
		case failure != nil:
			err = failure
		default:
			all = append(all, v)
		}
	}
	return all, err
}
