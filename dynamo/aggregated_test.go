package dynamo_test

import (
	"context"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// aggregated is a repository with an aggregator beside it.
type aggregated struct {
	limiter.Repository
	*beside
	wake func(pause time.Duration) // before a call, the latest by a pause; nil for nothing
}

// call is said before each, and returns the context for it.
func (a *aggregated) call(ctx context.Context, now time.Time) context.Context {
	pause := a.passed(now)
	if a.wake != nil {
		a.wake(pause)
	}
	return calledAt(ctx, now)
}

// Consume is that of the repository.
func (a *aggregated) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	return a.Repository.Consume(a.call(ctx, now), now, charge)
}

// Peek is that of the repository.
func (a *aggregated) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	return a.Repository.Peek(a.call(ctx, now), now, charge)
}

// Credit is that of the repository.
func (a *aggregated) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	return a.Repository.Credit(a.call(ctx, now), now, credits...)
}

// Buckets are those of the repository.
func (a *aggregated) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return a.Repository.Buckets(a.call(ctx, now), now, of)
}

// SetConfig is that of the repository.
func (a *aggregated) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	return a.Repository.SetConfig(a.call(ctx, ev.At), cfg, ev)
}

// DeleteConfig is that of the repository.
func (a *aggregated) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	return a.Repository.DeleteConfig(a.call(ctx, ev.At), s, ev)
}

// DeleteEntity deletes usage: what came before must not come again.
func (a *aggregated) DeleteEntity(ctx context.Context, id string, ev limiter.AuditEvent) error {
	a.catchUp(ctx)
	defer a.settled(ctx)
	return a.Repository.DeleteEntity(ctx, id, ev)
}

// PurgeNamespace deletes usage: what came before must not come again.
func (a *aggregated) PurgeNamespace(ctx context.Context, id string) error {
	a.catchUp(ctx)
	defer a.settled(ctx)
	return a.Repository.PurgeNamespace(ctx, id)
}

// Usage is complete.
func (a *aggregated) Usage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[limiter.UsageSnapshot, error] {
	return func(yield func(limiter.UsageSnapshot, error) bool) {
		a.catchUp(ctx)
		a.Repository.Usage(ctx, q)(yield)
	}
}

// Namespace is a view beside which the same aggregator runs.
func (a *aggregated) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := a.Repository.Namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	return &aggregated{view, a.beside, a.wake}, nil
}

// Forget drops what the repository remembers.
func (a *aggregated) Forget() {
	if repo, ok := a.Repository.(interface{ Forget() }); ok {
		repo.Forget()
	}
}

// Lossy reports whether requests may get lost.
func (a *aggregated) Lossy() bool {
	c, ok := a.Repository.(*interleaved)
	return ok && c.Lossy()
}

// Interleave has steps made during requests.
func (a *aggregated) Interleave(step func()) {
	if c, ok := a.Repository.(*interleaved); ok {
		c.Interleave(step)
	}
}
