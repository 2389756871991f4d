package escrow_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
)

// TestPagesShowHeldTokens checks that pages and buckets by key show what pots hold
// as available, as the list does.
func TestPagesShowHeldTokens(t *testing.T) {
	store := memory.New(nil)
	r := escrow.New(store, nil)
	t.Cleanup(func() { _ = r.Close() })
	now := time.Now()
	cfg := limiter.Config{Limits: []limiter.Limit{limiter.PerMinute("rpm", 6000)}}
	must(t, r.SetConfig(t.Context(), cfg, limiter.AuditEvent{ID: "01", At: now}))
	for range 200 {
		_, err := r.Consume(t.Context(), now, limiter.Charge{
			Entity: "alice", Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 1),
		})
		must(t, err)
	}
	var want, stored [][]int64
	for b, err := range r.Buckets(t.Context(), now, limiter.Scope{}) {
		must(t, err)
		want = append(want, b.Tokens)
	}
	for b, err := range store.Buckets(t.Context(), now, limiter.Scope{}) {
		must(t, err)
		stored = append(stored, b.Tokens)
	}
	if cmp.Equal(want, stored) {
		t.Fatal("the pots hold nothing, so the test shows nothing")
	}
	page, err := r.BucketPage(t.Context(), now, limiter.BucketQuery{})
	must(t, err)
	found, err := r.BucketsAt(t.Context(), now, []limiter.Scope{{Entity: "alice", Resource: "gpt-4"}})
	must(t, err)
	for what, buckets := range map[string][]limiter.Bucket{"page": page.Buckets, "by key": found} {
		var got [][]int64
		for _, b := range buckets {
			got = append(got, b.Tokens)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-list +got):\n%s", what, diff)
		}
	}
}

// TestStoresWithoutPages checks what a wrapper does around a store without the
// optional interfaces.
func TestStoresWithoutPages(t *testing.T) {
	r := escrow.New(plain{memory.New(nil)}, nil)
	t.Cleanup(func() { _ = r.Close() })
	if _, err := r.BucketPage(t.Context(), time.Now(), limiter.BucketQuery{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error %v, want errors.ErrUnsupported", err)
	}
	if _, err := r.BucketsAt(t.Context(), time.Now(), nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error %v, want errors.ErrUnsupported", err)
	}
	if _, ok := limiter.Optional[limiter.BucketPager](r); ok {
		t.Error("the wrapper shows an interface that its store lacks")
	}
	spend, spent := r.NewReadBudget(1)
	if _, ok := limiter.Optional[limiter.ReadBudgeter](r); ok || spend != nil || spent != nil {
		t.Error("the wrapper shows a budget that its store lacks")
	}
}

// budgeted is a store with a read budget.
type budgeted struct{ *memory.Repository }

type budgetKey struct{}

// NewReadBudget starts a budget that has spent all of its units.
func (budgeted) NewReadBudget(
	units float64,
) (spend func(context.Context) context.Context, spent func() (units, rate float64)) {
	return func(ctx context.Context) context.Context { return context.WithValue(ctx, budgetKey{}, units) },
		func() (float64, float64) { return units, 0 }
}

// BucketsAt reads nothing unless the budget reaches the store.
func (b budgeted) BucketsAt(ctx context.Context, _ time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	if units, _ := ctx.Value(budgetKey{}).(float64); units != 7 {
		return nil, errors.New("a read without the budget")
	}
	return make([]limiter.Bucket, len(keys)), nil
}

// TestBudgetsPassThrough checks that a budget is one of the store, and that reads
// through the wrapper use it.
func TestBudgetsPassThrough(t *testing.T) {
	r := escrow.New(budgeted{memory.New(nil)}, nil)
	t.Cleanup(func() { _ = r.Close() })
	spend, spent := r.NewReadBudget(7)
	if units, _ := spent(); units != 7 {
		t.Errorf("%g units, want those of the store", units)
	}
	_, err := r.BucketsAt(spend(t.Context()), time.Now(), []limiter.Scope{{Entity: "alice", Resource: "gpt-4"}})
	must(t, err)
}
