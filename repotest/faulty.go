package repotest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// ErrInjected is the error of every fault. The limiter treats it as an outage.
var ErrInjected = errors.New("injected fault")

// Fault is the way in which a call fails.
type Fault int

// The faults.
const (
	// None passes the call on.
	None Fault = iota
	// Before fails without passing the call on. Nothing is written.
	Before
	// After passes the call on and drops its answer, so the caller does not
	// know that it was executed. A sequence yields its elements before it
	// fails.
	After
)

// Faulty is a limiter.Repository whose calls fail according to a plan. Its
// views follow the same plan. Close and OnUnavailable never fail.
type Faulty struct {
	repo limiter.Repository
	plan func(method string) Fault
}

var _ limiter.Repository = (*Faulty)(nil)

// NewFaulty returns a repository that fails as plan decides. It calls plan
// once for each call, with the name of the method. For a sequence, it calls
// plan whenever a loop begins. If the repository is used concurrently, plan
// must be safe for concurrent use.
func NewFaulty(repo limiter.Repository, plan func(method string) Fault) *Faulty {
	return &Faulty{repo, plan}
}

// Unwrap returns the repository inside.
func (f *Faulty) Unwrap() limiter.Repository { return f.repo }

// do makes a call that returns only an error.
func (f *Faulty) do(method string, call func() error) error {
	_, err := callWithFault(f, method, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// callWithFault makes a call, with the planned fault.
func callWithFault[T any](f *Faulty, method string, call func() (T, error)) (T, error) {
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

// rangeWithFault iterates over a sequence, with the planned fault.
func rangeWithFault[T any](f *Faulty, method string, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		fault := f.plan(method)
		if fault != Before {
			for v, err := range seq {
				// The injected error replaces that of the sequence.
				if err != nil && fault == After {
					break
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

// Consume calls Consume of the repository, or fails as planned.
func (f *Faulty) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	return callWithFault(f, "Consume", func() (limiter.Outcome, error) { return f.repo.Consume(ctx, now, charge) })
}

// Peek calls Peek of the repository, or fails as planned.
func (f *Faulty) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	return callWithFault(f, "Peek", func() (limiter.Outcome, error) { return f.repo.Peek(ctx, now, charge) })
}

// Credit calls Credit of the repository, or fails as planned.
func (f *Faulty) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	return f.do("Credit", func() error { return f.repo.Credit(ctx, now, credits...) })
}

// Buckets calls Buckets of the repository, or fails as planned.
func (f *Faulty) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return rangeWithFault(f, "Buckets", f.repo.Buckets(ctx, now, of))
}

// CreateEntity calls CreateEntity of the repository, or fails as planned.
func (f *Faulty) CreateEntity(ctx context.Context, e limiter.Entity, ev limiter.AuditEvent) error {
	return f.do("CreateEntity", func() error { return f.repo.CreateEntity(ctx, e, ev) })
}

// Entity calls Entity of the repository, or fails as planned.
func (f *Faulty) Entity(ctx context.Context, id string) (limiter.Entity, error) {
	return callWithFault(f, "Entity", func() (limiter.Entity, error) { return f.repo.Entity(ctx, id) })
}

// Entities calls Entities of the repository, or fails as planned.
func (f *Faulty) Entities(ctx context.Context, parent string) iter.Seq2[limiter.Entity, error] {
	return rangeWithFault(f, "Entities", f.repo.Entities(ctx, parent))
}

// DeleteEntity calls DeleteEntity of the repository, or fails as planned.
func (f *Faulty) DeleteEntity(ctx context.Context, id string, ev limiter.AuditEvent) error {
	return f.do("DeleteEntity", func() error { return f.repo.DeleteEntity(ctx, id, ev) })
}

// SetConfig calls SetConfig of the repository, or fails as planned.
func (f *Faulty) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	return f.do("SetConfig", func() error { return f.repo.SetConfig(ctx, cfg, ev) })
}

// Config calls Config of the repository, or fails as planned.
func (f *Faulty) Config(ctx context.Context, s limiter.Scope) (limiter.Config, error) {
	return callWithFault(f, "Config", func() (limiter.Config, error) { return f.repo.Config(ctx, s) })
}

// DeleteConfig calls DeleteConfig of the repository, or fails as planned.
func (f *Faulty) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	return f.do("DeleteConfig", func() error { return f.repo.DeleteConfig(ctx, s, ev) })
}

// ResourcesWithDefaults calls ResourcesWithDefaults of the repository, or fails as planned.
func (f *Faulty) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	return callWithFault(f, "ResourcesWithDefaults", func() ([]string, error) {
		return f.repo.ResourcesWithDefaults(ctx)
	})
}

// ResourcesWithLimits calls ResourcesWithLimits of the repository, or fails as planned.
func (f *Faulty) ResourcesWithLimits(ctx context.Context) ([]string, error) {
	return callWithFault(f, "ResourcesWithLimits", func() ([]string, error) { return f.repo.ResourcesWithLimits(ctx) })
}

// EntitiesWithLimits calls EntitiesWithLimits of the repository, or fails as planned.
func (f *Faulty) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	return rangeWithFault(f, "EntitiesWithLimits", f.repo.EntitiesWithLimits(ctx, resource))
}

// OnUnavailable returns the mode of the repository.
func (f *Faulty) OnUnavailable() limiter.OnUnavailable { return f.repo.OnUnavailable() }

// Namespace calls Namespace of the repository, or fails as planned. The view
// follows the same plan.
func (f *Faulty) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := callWithFault(f, "Namespace", func() (limiter.Repository, error) {
		return f.repo.Namespace(ctx, name)
	})
	if err != nil {
		return nil, err
	}
	return NewFaulty(view, f.plan), nil
}

// Namespaces calls Namespaces of the repository, or fails as planned.
func (f *Faulty) Namespaces(ctx context.Context) iter.Seq2[limiter.Namespace, error] {
	return rangeWithFault(f, "Namespaces", f.repo.Namespaces(ctx))
}

// RegisterNamespace calls RegisterNamespace of the repository, or fails as planned.
func (f *Faulty) RegisterNamespace(ctx context.Context, now time.Time, name string) (limiter.Namespace, error) {
	return callWithFault(f, "RegisterNamespace", func() (limiter.Namespace, error) {
		return f.repo.RegisterNamespace(ctx, now, name)
	})
}

// DeleteNamespace calls DeleteNamespace of the repository, or fails as planned.
func (f *Faulty) DeleteNamespace(ctx context.Context, now time.Time, name string) error {
	return f.do("DeleteNamespace", func() error { return f.repo.DeleteNamespace(ctx, now, name) })
}

// RecoverNamespace calls RecoverNamespace of the repository, or fails as planned.
func (f *Faulty) RecoverNamespace(ctx context.Context, now time.Time, id string) (limiter.Namespace, error) {
	return callWithFault(f, "RecoverNamespace", func() (limiter.Namespace, error) {
		return f.repo.RecoverNamespace(ctx, now, id)
	})
}

// PurgeNamespace calls PurgeNamespace of the repository, or fails as planned.
func (f *Faulty) PurgeNamespace(ctx context.Context, id string) error {
	return f.do("PurgeNamespace", func() error { return f.repo.PurgeNamespace(ctx, id) })
}

// Managed calls Managed of the repository, or fails as planned. It returns
// errors.ErrUnsupported if the repository has no such method.
func (f *Faulty) Managed(ctx context.Context) (scopes []limiter.Scope, hash, owner string, err error) {
	store, ok := limiter.Optional[limiter.ManagedStore](f.repo)
	if !ok {
		return nil, "", "", errors.ErrUnsupported
	}

	err = f.do("Managed", func() (err error) { scopes, hash, owner, err = store.Managed(ctx); return err })
	return scopes, hash, owner, err
}

// SetManaged calls SetManaged of the repository, or fails as planned. It
// returns errors.ErrUnsupported if the repository has no such method.
func (f *Faulty) SetManaged(
	ctx context.Context, now time.Time, previous, hash, owner string, scopes []limiter.Scope,
) error {
	store, ok := limiter.Optional[limiter.ManagedStore](f.repo)
	if !ok {
		return errors.ErrUnsupported
	}

	return f.do("SetManaged", func() error { return store.SetManaged(ctx, now, previous, hash, owner, scopes) })
}

// ReplaceConfig calls ReplaceConfig of the repository, or fails as planned. It
// returns errors.ErrUnsupported if the repository has no such method.
func (f *Faulty) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	store, ok := limiter.Optional[limiter.ManagedStore](f.repo)
	if !ok {
		return errors.ErrUnsupported
	}

	return f.do("ReplaceConfig", func() error { return store.ReplaceConfig(ctx, cfg, ev) })
}

// BucketPage calls BucketPage of the repository, or fails as planned. It returns
// errors.ErrUnsupported if the repository has no such method.
func (f *Faulty) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	store, ok := limiter.Optional[limiter.BucketPager](f.repo)
	if !ok {
		return limiter.BucketPage{}, errors.ErrUnsupported
	}

	return callWithFault(f, "BucketPage", func() (limiter.BucketPage, error) { return store.BucketPage(ctx, now, q) })
}

// BucketsAt calls BucketsAt of the repository, or fails as planned. It returns
// errors.ErrUnsupported if the repository has no such method.
func (f *Faulty) BucketsAt(ctx context.Context, now time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	store, ok := limiter.Optional[limiter.BucketPager](f.repo)
	if !ok {
		return nil, errors.ErrUnsupported
	}

	return callWithFault(f, "BucketsAt", func() ([]limiter.Bucket, error) { return store.BucketsAt(ctx, now, keys) })
}

// Fill calls Fill of the repository, or fails as planned.
func (f *Faulty) Fill(ctx context.Context, now time.Time, fill limiter.Fill, ev limiter.AuditEvent) (bool, error) {
	return callWithFault(f, "Fill", func() (bool, error) { return f.repo.Fill(ctx, now, fill, ev) })
}

// SetSwitch calls SetSwitch of the repository, or fails as planned.
func (f *Faulty) SetSwitch(ctx context.Context, s limiter.Switch, ev limiter.AuditEvent) error {
	return f.do("SetSwitch", func() error { return f.repo.SetSwitch(ctx, s, ev) })
}

// DeleteSwitch calls DeleteSwitch of the repository, or fails as planned.
func (f *Faulty) DeleteSwitch(ctx context.Context, of limiter.Scope, ev limiter.AuditEvent) error {
	return f.do("DeleteSwitch", func() error { return f.repo.DeleteSwitch(ctx, of, ev) })
}

// Switches calls Switches of the repository, or fails as planned.
func (f *Faulty) Switches(ctx context.Context) iter.Seq2[limiter.Switch, error] {
	return rangeWithFault(f, "Switches", f.repo.Switches(ctx))
}

// LastSwitch returns the last switch of the repository.
func (f *Faulty) LastSwitch(entity, resource string) *limiter.Switch {
	return f.repo.LastSwitch(entity, resource)
}

// AuditEvents calls AuditEvents of the repository, or fails as planned.
func (f *Faulty) AuditEvents(ctx context.Context, entity, after string) iter.Seq2[limiter.AuditEvent, error] {
	return rangeWithFault(f, "AuditEvents", f.repo.AuditEvents(ctx, entity, after))
}

// Usage calls Usage of the repository, or fails as planned.
func (f *Faulty) Usage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[limiter.UsageSnapshot, error] {
	return rangeWithFault(f, "Usage", f.repo.Usage(ctx, q))
}

// Ping calls Ping of the repository, or fails as planned.
func (f *Faulty) Ping(ctx context.Context) error {
	return f.do("Ping", func() error { return f.repo.Ping(ctx) })
}

// Close closes the repository.
func (f *Faulty) Close() error { return f.repo.Close() }
