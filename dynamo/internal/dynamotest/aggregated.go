package dynamotest

import (
	"context"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Aggregated is a repository with an aggregator beside it.
type Aggregated struct {
	limiter.Repository
	*Aggregator
	// Wake is called before each call with the time since the latest one. It
	// may be nil.
	Wake func(pause time.Duration)
}

// call runs before each call and returns its context.
func (a *Aggregated) call(ctx context.Context, now time.Time) context.Context {
	pause := a.observe(now)
	if a.Wake != nil {
		a.Wake(pause)
	}
	return calledAt(ctx, now)
}

// Consume calls Consume of the repository.
func (a *Aggregated) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	return a.Repository.Consume(a.call(ctx, now), now, charge)
}

// Peek calls Peek of the repository.
func (a *Aggregated) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	return a.Repository.Peek(a.call(ctx, now), now, charge)
}

// Credit calls Credit of the repository.
func (a *Aggregated) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	return a.Repository.Credit(a.call(ctx, now), now, credits...)
}

// Buckets calls Buckets of the repository.
func (a *Aggregated) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return a.Repository.Buckets(a.call(ctx, now), now, of)
}

// pager returns the repository, whose store reads pages.
func (a *Aggregated) pager() limiter.BucketPager {
	pager, _ := limiter.Optional[limiter.BucketPager](a.Repository)
	return pager
}

// BucketPage calls BucketPage of the repository.
func (a *Aggregated) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	return a.pager().BucketPage(a.call(ctx, now), now, q)
}

// BucketsAt calls BucketsAt of the repository.
func (a *Aggregated) BucketsAt(ctx context.Context, now time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	return a.pager().BucketsAt(a.call(ctx, now), now, keys)
}

// SetConfig calls SetConfig of the repository.
func (a *Aggregated) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	return a.Repository.SetConfig(a.call(ctx, ev.At), cfg, ev)
}

// DeleteConfig calls DeleteConfig of the repository.
func (a *Aggregated) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	return a.Repository.DeleteConfig(a.call(ctx, ev.At), s, ev)
}

// DeleteEntity deletes usage: earlier records must not be delivered again.
func (a *Aggregated) DeleteEntity(ctx context.Context, id string, ev limiter.AuditEvent) error {
	a.CatchUp(ctx)
	defer a.finish(ctx)
	return a.Repository.DeleteEntity(ctx, id, ev)
}

// PurgeNamespace deletes usage: earlier records must not be delivered again.
func (a *Aggregated) PurgeNamespace(ctx context.Context, id string) error {
	a.CatchUp(ctx)
	defer a.finish(ctx)
	return a.Repository.PurgeNamespace(ctx, id)
}

// Usage iterates over the snapshots after all records were counted.
func (a *Aggregated) Usage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[limiter.UsageSnapshot, error] {
	return func(yield func(limiter.UsageSnapshot, error) bool) {
		a.CatchUp(ctx)
		a.Repository.Usage(ctx, q)(yield)
	}
}

// Namespace returns a view with the same aggregator.
func (a *Aggregated) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := a.Repository.Namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	return &Aggregated{Repository: view, Aggregator: a.Aggregator, Wake: a.Wake}, nil
}

// Forget drops the caches of the repository.
func (a *Aggregated) Forget() {
	if repo, ok := a.Repository.(interface{ Forget() }); ok {
		repo.Forget()
	}
}

// Lossy reports whether requests may get lost.
func (a *Aggregated) Lossy() bool {
	c, ok := a.Repository.(interface{ Lossy() bool })
	return ok && c.Lossy()
}

// Interleave sets a step to run during requests.
func (a *Aggregated) Interleave(step func()) {
	if c, ok := a.Repository.(interface{ Interleave(step func()) }); ok {
		c.Interleave(step)
	}
}
