package repotest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// ErrInjected is the error of every fault. It is none that the limiter knows,
// so that to a caller it is an outage.
var ErrInjected = errors.New("injected fault")

// Fault is what goes wrong with a call.
type Fault int

// The faults there are.
const (
	// None passes the call on.
	None Fault = iota
	// Before fails without passing the call on: nothing was written.
	Before
	// After passes the call on and drops its answer: the caller cannot know that
	// it was executed. A sequence yields what it has before it fails.
	After
)

// Faulty is a repository that fails as planned. Its views follow the same plan.
// Close and OnUnavailable, which does no I/O, are always passed on.
type Faulty struct {
	repo limiter.Repository
	plan func(method string) Fault
}

var _ limiter.Repository = (*Faulty)(nil)

// NewFaulty makes repo fail as plan decides. It is asked once for every call,
// by the name of the method, and for a sequence whenever a loop begins; it must
// be safe for concurrent use if the repository is used so.
func NewFaulty(repo limiter.Repository, plan func(method string) Fault) *Faulty {
	return &Faulty{repo, plan}
}

// do makes a call that has no answer but its error.
func (f *Faulty) do(method string, call func() error) error {
	_, err := answered(f, method, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// answered makes a call, or fails.
func answered[T any](f *Faulty, method string, call func() (T, error)) (T, error) {
	var none T
	switch f.plan(method) {
	case Before:
		return none, injected(method)
	case After:
		_, _ = call()
		return none, injected(method)
	}
	return call()
}

// ranged is a sequence, or what there is of it.
func ranged[T any](f *Faulty, method string, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		fault := f.plan(method)
		if fault != Before {
			for v, err := range seq {
				if err != nil && fault == After {
					break // the injected one takes its place
				}
				if !yield(v, err) {
					return
				}
			}
		}
		if fault != None {
			var none T
			yield(none, injected(method))
		}
	}
}

func injected(method string) error { return fmt.Errorf("%s: %w", method, ErrInjected) }

// Consume may fail by plan.
func (f *Faulty) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	return answered(f, "Consume", func() (limiter.Outcome, error) { return f.repo.Consume(ctx, now, charge) })
}

// Peek may fail by plan.
func (f *Faulty) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	return answered(f, "Peek", func() (limiter.Outcome, error) { return f.repo.Peek(ctx, now, charge) })
}

// Credit may fail by plan.
func (f *Faulty) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	return f.do("Credit", func() error { return f.repo.Credit(ctx, now, credits...) })
}

// Buckets may fail by plan.
func (f *Faulty) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return ranged(f, "Buckets", f.repo.Buckets(ctx, now, of))
}

// CreateEntity may fail by plan.
func (f *Faulty) CreateEntity(ctx context.Context, e limiter.Entity, ev limiter.AuditEvent) error {
	return f.do("CreateEntity", func() error { return f.repo.CreateEntity(ctx, e, ev) })
}

// Entity may fail by plan.
func (f *Faulty) Entity(ctx context.Context, id string) (limiter.Entity, error) {
	return answered(f, "Entity", func() (limiter.Entity, error) { return f.repo.Entity(ctx, id) })
}

// Entities may fail by plan.
func (f *Faulty) Entities(ctx context.Context, parent string) iter.Seq2[limiter.Entity, error] {
	return ranged(f, "Entities", f.repo.Entities(ctx, parent))
}

// DeleteEntity may fail by plan.
func (f *Faulty) DeleteEntity(ctx context.Context, id string, ev limiter.AuditEvent) error {
	return f.do("DeleteEntity", func() error { return f.repo.DeleteEntity(ctx, id, ev) })
}

// SetConfig may fail by plan.
func (f *Faulty) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	return f.do("SetConfig", func() error { return f.repo.SetConfig(ctx, cfg, ev) })
}

// Config may fail by plan.
func (f *Faulty) Config(ctx context.Context, s limiter.Scope) (limiter.Config, error) {
	return answered(f, "Config", func() (limiter.Config, error) { return f.repo.Config(ctx, s) })
}

// DeleteConfig may fail by plan.
func (f *Faulty) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	return f.do("DeleteConfig", func() error { return f.repo.DeleteConfig(ctx, s, ev) })
}

// ResourcesWithDefaults may fail by plan.
func (f *Faulty) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	return answered(f, "ResourcesWithDefaults", func() ([]string, error) { return f.repo.ResourcesWithDefaults(ctx) })
}

// ResourcesWithLimits may fail by plan.
func (f *Faulty) ResourcesWithLimits(ctx context.Context) ([]string, error) {
	return answered(f, "ResourcesWithLimits", func() ([]string, error) { return f.repo.ResourcesWithLimits(ctx) })
}

// EntitiesWithLimits may fail by plan.
func (f *Faulty) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	return ranged(f, "EntitiesWithLimits", f.repo.EntitiesWithLimits(ctx, resource))
}

// OnUnavailable is that of the repository.
func (f *Faulty) OnUnavailable() limiter.OnUnavailable { return f.repo.OnUnavailable() }

// Namespace is a view that fails by the same plan, or may itself fail by it.
func (f *Faulty) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := answered(f, "Namespace", func() (limiter.Repository, error) { return f.repo.Namespace(ctx, name) })
	if err != nil {
		return nil, err
	}
	return NewFaulty(view, f.plan), nil
}

// Namespaces may fail by plan.
func (f *Faulty) Namespaces(ctx context.Context) iter.Seq2[limiter.Namespace, error] {
	return ranged(f, "Namespaces", f.repo.Namespaces(ctx))
}

// RegisterNamespace may fail by plan.
func (f *Faulty) RegisterNamespace(ctx context.Context, now time.Time, name string) (limiter.Namespace, error) {
	return answered(f, "RegisterNamespace", func() (limiter.Namespace, error) { return f.repo.RegisterNamespace(ctx, now, name) })
}

// DeleteNamespace may fail by plan.
func (f *Faulty) DeleteNamespace(ctx context.Context, now time.Time, name string) error {
	return f.do("DeleteNamespace", func() error { return f.repo.DeleteNamespace(ctx, now, name) })
}

// RecoverNamespace may fail by plan.
func (f *Faulty) RecoverNamespace(ctx context.Context, now time.Time, id string) (limiter.Namespace, error) {
	return answered(f, "RecoverNamespace", func() (limiter.Namespace, error) { return f.repo.RecoverNamespace(ctx, now, id) })
}

// PurgeNamespace may fail by plan.
func (f *Faulty) PurgeNamespace(ctx context.Context, id string) error {
	return f.do("PurgeNamespace", func() error { return f.repo.PurgeNamespace(ctx, id) })
}

// Managed may fail by plan. A repository without it is errors.ErrUnsupported.
func (f *Faulty) Managed(ctx context.Context) (scopes []limiter.Scope, hash, owner string, err error) {
	store, ok := f.repo.(limiter.ManagedStore)
	if !ok {
		return nil, "", "", errors.ErrUnsupported
	}
	err = f.do("Managed", func() (err error) { scopes, hash, owner, err = store.Managed(ctx); return err })
	return scopes, hash, owner, err
}

// SetManaged may fail by plan. A repository without it is errors.ErrUnsupported.
func (f *Faulty) SetManaged(ctx context.Context, now time.Time, previous, hash, owner string, scopes []limiter.Scope) error {
	store, ok := f.repo.(limiter.ManagedStore)
	if !ok {
		return errors.ErrUnsupported
	}
	return f.do("SetManaged", func() error { return store.SetManaged(ctx, now, previous, hash, owner, scopes) })
}

// ReplaceConfig may fail by plan. A repository without it is
// errors.ErrUnsupported.
func (f *Faulty) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	store, ok := f.repo.(limiter.ManagedStore)
	if !ok {
		return errors.ErrUnsupported
	}
	return f.do("ReplaceConfig", func() error { return store.ReplaceConfig(ctx, cfg, ev) })
}

// AuditEvents may fail by plan.
func (f *Faulty) AuditEvents(ctx context.Context, entity, after string) iter.Seq2[limiter.AuditEvent, error] {
	return ranged(f, "AuditEvents", f.repo.AuditEvents(ctx, entity, after))
}

// Usage may fail by plan.
func (f *Faulty) Usage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[limiter.UsageSnapshot, error] {
	return ranged(f, "Usage", f.repo.Usage(ctx, q))
}

// Ping may fail by plan.
func (f *Faulty) Ping(ctx context.Context) error {
	return f.do("Ping", func() error { return f.repo.Ping(ctx) })
}

// Close ends the repository.
func (f *Faulty) Close() error { return f.repo.Close() }
