package dynamo

import (
	"context"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// budgetView is a view whose reads use a budget. Charges, credits and changes pass
// to the repository.
type budgetView struct {
	*Repository
	budget *budget
}

var (
	_ limiter.Repository   = budgetView{}
	_ limiter.BucketPager  = budgetView{}
	_ limiter.ManagedStore = budgetView{}
	_ limiter.ReadBudgeter = budgetView{}
)

// WithReadBudget returns a view whose reads use at most so many read units a
// second, and its meter. Each call starts a budget of its own.
func (r *Repository) WithReadBudget(units float64) (limiter.Repository, limiter.ReadMeter) {
	b := newBudget(units)
	return budgetView{r, b}, b
}

// Close does nothing.
func (v budgetView) Close() error { return nil }

// Namespace returns a view of another namespace with the same budget.
func (v budgetView) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := v.Repository.namespace(v.budget.spend(ctx), name)
	if err != nil {
		return nil, err
	}
	return budgetView{view, v.budget}, nil
}

// Namespaces reads within the budget.
func (v budgetView) Namespaces(ctx context.Context) iter.Seq2[limiter.Namespace, error] {
	return v.Repository.Namespaces(v.budget.spend(ctx))
}

// Ping reads within the budget.
func (v budgetView) Ping(ctx context.Context) error { return v.Repository.Ping(v.budget.spend(ctx)) }

// Peek reads within the budget.
func (v budgetView) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	return v.Repository.Peek(v.budget.spend(ctx), now, charge)
}

// Buckets reads within the budget.
func (v budgetView) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return v.Repository.Buckets(v.budget.spend(ctx), now, of)
}

// BucketPage reads within the budget.
func (v budgetView) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	return v.Repository.BucketPage(v.budget.spend(ctx), now, q)
}

// BucketsAt reads within the budget.
func (v budgetView) BucketsAt(ctx context.Context, now time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	return v.Repository.BucketsAt(v.budget.spend(ctx), now, keys)
}

// Entity reads within the budget.
func (v budgetView) Entity(ctx context.Context, id string) (limiter.Entity, error) {
	return v.Repository.Entity(v.budget.spend(ctx), id)
}

// Entities reads within the budget.
func (v budgetView) Entities(ctx context.Context, parent string) iter.Seq2[limiter.Entity, error] {
	return v.Repository.Entities(v.budget.spend(ctx), parent)
}

// Config reads within the budget.
func (v budgetView) Config(ctx context.Context, s limiter.Scope) (limiter.Config, error) {
	return v.Repository.Config(v.budget.spend(ctx), s)
}

// ConfigListed reads within the budget.
func (v budgetView) ConfigListed(ctx context.Context, s limiter.Scope) (cfg limiter.Config, listed bool, err error) {
	return v.Repository.ConfigListed(v.budget.spend(ctx), s)
}

// ResourcesWithDefaults reads within the budget.
func (v budgetView) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	return v.Repository.ResourcesWithDefaults(v.budget.spend(ctx))
}

// ResourcesWithLimits reads within the budget.
func (v budgetView) ResourcesWithLimits(ctx context.Context) ([]string, error) {
	return v.Repository.ResourcesWithLimits(v.budget.spend(ctx))
}

// EntitiesWithLimits reads within the budget.
func (v budgetView) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	return v.Repository.EntitiesWithLimits(v.budget.spend(ctx), resource)
}

// AuditEvents reads within the budget.
func (v budgetView) AuditEvents(ctx context.Context, entity, after string) iter.Seq2[limiter.AuditEvent, error] {
	return v.Repository.AuditEvents(v.budget.spend(ctx), entity, after)
}

// Usage reads within the budget.
func (v budgetView) Usage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[limiter.UsageSnapshot, error] {
	return v.Repository.Usage(v.budget.spend(ctx), q)
}

// Managed reads within the budget.
func (v budgetView) Managed(ctx context.Context) (scopes []limiter.Scope, hash, owner string, err error) {
	return v.Repository.Managed(v.budget.spend(ctx))
}
