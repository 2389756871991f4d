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

// epoch is the start time of every test. It is not a round number, so that a
// refill counted from the first call differs from one that telescopes.
var epoch = time.Date(2026, time.March, 14, 15, 9, 26, 0, time.UTC)

// at returns the time d after the epoch.
func at(d time.Duration) time.Time { return epoch.Add(d) }

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func rpm(n int64) limiter.Amounts { return limiter.Tokens("rpm", n) }
func tpm(n int64) limiter.Amounts { return limiter.Tokens("tpm", n) }

// perMinute60 refills a thousandth of a token every millisecond, which makes
// expected balances easy to read.
var perMinute60 = limiter.PerMinute("rpm", 60)

// ask returns a charge for the default resource of the tests.
func ask(entity string, amounts limiter.Amounts) limiter.Charge {
	return limiter.Charge{Entity: entity, Resource: model, Amounts: amounts}
}

// overrideCharge returns a charge with limits of its own.
func overrideCharge(entity string, amounts limiter.Amounts, limits ...limiter.Limit) limiter.Charge {
	c := ask(entity, amounts)
	c.Limits = limits
	return c
}

// fixture is a test with its repository. It has helpers for calls that must
// succeed, and for comparisons.
type fixture struct {
	*testing.T
	repo   limiter.Repository
	ctx    context.Context
	events *atomic.Int64
	// countsUsage is false for a store whose usage another program counts.
	countsUsage bool
}

func newFixture(t *testing.T, repo limiter.Repository) *fixture {
	t.Helper()
	return &fixture{T: t, repo: repo, ctx: context.Background(), events: new(atomic.Int64)}
}

// in returns the fixture with another repository.
func (f *fixture) in(repo limiter.Repository) *fixture {
	g := *f
	g.repo = repo
	return &g
}

// ok stops the test if err is not nil.
func (f *fixture) ok(what string, err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("%s: %v", what, err)
	}
}

// fails checks that err matches want.
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

// equal compares two values. It ignores Account.Ref, which only the store
// interprets, and treats nil and empty lists and maps as equal.
func (f *fixture) equal(what string, got, want any) {
	f.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(limiter.Account{}, "Ref"), cmpopts.EquateEmpty()); diff != "" {
		f.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// event returns a new event. Later events have higher IDs.
func (f *fixture) event(action, entity string) limiter.AuditEvent {
	return limiter.AuditEvent{
		ID: eventID(f.events.Add(1)), Action: action, Entity: entity, Principal: "tester",
		At: epoch, Details: map[string]any{},
	}
}

// eventID returns an ID of 26 characters, like a ULID, that rises with n.
func eventID(n int64) string { return fmt.Sprintf("01JP%022d", n) }

// auditEntity returns the entity whose trail records changes of a scope.
func auditEntity(s limiter.Scope) string {
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
	f.ok("SetConfig", f.repo.SetConfig(f.ctx, cfg, f.event("limits_set", auditEntity(s))))
}

// setDefaults stores limits of the default resource of the tests.
func (f *fixture) setDefaults(limits ...limiter.Limit) {
	f.Helper()
	f.setLimits(limiter.Scope{Resource: model}, limits...)
}

func (f *fixture) deleteConfig(s limiter.Scope) {
	f.Helper()
	f.ok("DeleteConfig", f.repo.DeleteConfig(f.ctx, s, f.event("limits_deleted", auditEntity(s))))
}

func (f *fixture) create(e limiter.Entity) {
	f.Helper()
	e.CreatedAt = epoch
	f.ok("CreateEntity", f.repo.CreateEntity(f.ctx, e, f.event("entity_created", e.ID)))
}

// createCascading creates a child that cascades to its parent.
func (f *fixture) createCascading(child, parent string) {
	f.Helper()
	f.create(limiter.Entity{ID: child, Name: child, Parent: parent, Cascade: true})
}

func (f *fixture) deleteEntity(id string) {
	f.Helper()
	f.ok("DeleteEntity", f.repo.DeleteEntity(f.ctx, id, f.event("entity_deleted", id)))
}

// namespace registers a name. It returns the ID and a fixture inside the
// namespace.
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

// collect returns the elements of a sequence, which must not fail.
func collect[T any](f *fixture, what string, seq iter.Seq2[T, error]) []T {
	f.Helper()
	all, err := gather(f, what, seq)
	f.ok(what, err)
	return all
}

// first returns the first element. It stops the test if there is none.
func first[T any](f *fixture, what string, all []T) T {
	f.Helper()
	if len(all) == 0 {
		f.Fatalf("%s: none, want at least one", what)
	}
	return all[0]
}

// gather returns the elements and the error of a sequence. It checks that the
// sequence ends with its error.
func gather[T any](f *fixture, what string, seq iter.Seq2[T, error]) (all []T, err error) {
	f.Helper()

	for v, failure := range seq {
		switch {
		// The error ends a sequence, so that a caller may stop there and miss
		// nothing.
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
