package dashboard

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// billed is a store that bills reads. Each read takes its time.
type billed struct {
	counted
	limiter.ManagedStore // for what-if
	budgets              atomic.Int64
	unpaid               atomic.Int64 // reads without the budget
	paidChanges          atomic.Int64 // changes with it
	pages, records       atomic.Int64
	pageTime             time.Duration
	rowTime              time.Duration
	recordTime           time.Duration
}

// budgetKey marks reads that spend the budget.
type budgetKey struct{}

func (b *billed) NewReadBudget(
	float64,
) (spend func(context.Context) context.Context, spent func() (units, rate float64)) {
	b.budgets.Add(1)
	return func(ctx context.Context) context.Context { return context.WithValue(ctx, budgetKey{}, true) },
		func() (float64, float64) { return 0, 12.34 }
}

// check notes a read that does not spend the budget.
func (b *billed) check(ctx context.Context) {
	if ctx.Value(budgetKey{}) == nil {
		b.unpaid.Add(1)
	}
}

func (b *billed) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	b.check(ctx)
	b.pages.Add(1)
	time.Sleep(b.pageTime)
	return b.counted.BucketPage(ctx, now, q)
}

func (b *billed) BucketsAt(ctx context.Context, now time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	b.check(ctx)
	time.Sleep(time.Duration(len(keys)) * b.rowTime)
	return b.counted.BucketsAt(ctx, now, keys)
}

func (b *billed) Entity(ctx context.Context, id string) (limiter.Entity, error) {
	b.check(ctx)
	b.records.Add(1)
	time.Sleep(b.recordTime)
	return b.Repository.Entity(ctx, id)
}

func (b *billed) Config(ctx context.Context, s limiter.Scope) (limiter.Config, error) {
	b.check(ctx)
	return b.Repository.Config(ctx, s)
}

func (b *billed) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	b.check(ctx)
	return b.Repository.Buckets(ctx, now, of)
}

func (b *billed) Entities(ctx context.Context, parent string) iter.Seq2[limiter.Entity, error] {
	b.check(ctx)
	return b.Repository.Entities(ctx, parent)
}

func (b *billed) Switches(ctx context.Context) iter.Seq2[limiter.Switch, error] {
	b.check(ctx)
	return b.Repository.Switches(ctx)
}

func (b *billed) Usage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[limiter.UsageSnapshot, error] {
	b.check(ctx)
	return b.Repository.Usage(ctx, q)
}

func (b *billed) AuditEvents(ctx context.Context, entity, after string) iter.Seq2[limiter.AuditEvent, error] {
	b.check(ctx)
	return b.Repository.AuditEvents(ctx, entity, after)
}

func (b *billed) ResourcesWithLimits(ctx context.Context) ([]string, error) {
	b.check(ctx)
	return b.Repository.ResourcesWithLimits(ctx)
}

func (b *billed) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	b.check(ctx)
	return b.Repository.ResourcesWithDefaults(ctx)
}

func (b *billed) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	b.check(ctx)
	return b.Repository.Peek(ctx, now, charge)
}

func (b *billed) DeleteConfig(ctx context.Context, s limiter.Scope, event limiter.AuditEvent) error {
	if ctx.Value(budgetKey{}) != nil {
		b.paidChanges.Add(1)
	}
	return b.Repository.DeleteConfig(ctx, s, event)
}

func newBilledRig(t *testing.T, opts Options) (*rig, *billed) {
	t.Helper()
	opts.Now = time.Now
	r := newRig(t, opts)
	store := &billed{counted: counted{Repository: r.repo}, ManagedStore: r.repo.(limiter.ManagedStore)}
	r.opts.Open = func(context.Context, string) (limiter.Repository, error) { return store, nil }
	return r, store
}

func TestOneBudgetForAllNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newBilledRig(t, Options{ReadBudget: 40, Authenticate: func(token string) (Session, bool) {
			return Session{Name: token, Role: RoleRead, Namespace: token}, token != ""
		}})
		for _, name := range []string{"one", "two", "three"} {
			info := r.wantOf(200, request{path: "/api/info", cookie: r.login(name)})
			if info["read_budget"] != 40.0 || info["read_rate"] != 12.3 {
				t.Errorf("info: %v", info)
			}
		}
		if got := store.budgets.Load(); got != 1 {
			t.Errorf("%d budgets", got)
		}
		r.ok(r.Close())
	})
}

func TestViewersShareAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newBilledRig(t, Options{})
		store.pageTime = 2 * time.Second
		for i := range 30 {
			r.use(fmt.Sprintf("key-%02d", i), "gpt-4", "rpm", 1)
		}
		var wg sync.WaitGroup
		for range maxCallsEach {
			wg.Go(func() {
				if rows := get[Overview](r, "/api/overview").Rows; len(rows) != 30 {
					t.Errorf("%d rows", len(rows))
				}
			})
		}
		wg.Wait()
		if got := store.pages.Load(); got != 1 {
			t.Errorf("many viewers: %d reads of one page", got)
		}
		if got := store.records.Load(); got != 30 {
			t.Errorf("many viewers: %d reads of 30 records", got)
		}
		time.Sleep(time.Minute)
		get[Overview](r, "/api/overview")
		if got := store.pages.Load(); got != 2 {
			t.Errorf("a minute later: %d reads", got)
		}
		r.ok(r.Close())
	})
}

func TestNamesDoNotHoldUpAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newBilledRig(t, Options{})
		store.recordTime = time.Second
		for i := range 40 {
			id := fmt.Sprintf("key-%02d", i)
			r.create(limiter.Entity{ID: id, Name: "Name of " + id})
			r.use(id, "gpt-4", "rpm", 1)
		}
		begun := time.Now()
		rows := get[Overview](r, "/api/overview").Rows
		if took := time.Since(begun); took > 2*time.Second || len(rows) != 40 {
			t.Errorf("%d rows after %v", len(rows), took)
		}
		time.Sleep(time.Minute)
		for _, row := range get[Overview](r, "/api/overview").Rows {
			if row.Name != "Name of "+row.Entity {
				t.Errorf("a minute later: %s", row.Name)
			}
		}
		r.ok(r.Close())
	})
}

func TestTheIntervalGrowsWithTheCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newBilledRig(t, Options{})
		store.rowTime = time.Second
		v := r.view(r.cookie)
		v.watch("a", "b", "c")
		var s Status
		for s.Interval != 6000 {
			v.next("status", &s)
		}
		if s.ReadRate == nil || s.Viewers != 1 {
			t.Errorf("status: %+v", s)
		}
		v.leave()
		r.ok(r.Close())
	})
}

func TestRowsAreReadWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newBilledRig(t, Options{})
		v := r.watching("a")
		go v.drain()
		synctest.Wait()
		before := store.reads.Load()
		time.Sleep(10 * time.Second)
		if got := store.reads.Load() - before; got < 9 || got > 11 {
			t.Errorf("%d reads in 10 s, want 10", got)
		}
		v.leave()
		r.ok(r.Close())
	})
}

func TestBackgroundYieldsToCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.enter()
		passed := make(chan time.Duration, 2)
		begun := time.Now()
		for _, patience := range []time.Duration{time.Second, time.Hour} {
			go func() {
				g.yield(t.Context(), patience)
				passed <- time.Since(begun)
			}()
		}
		time.Sleep(time.Minute)
		g.leave()
		if first, second := <-passed, <-passed; first != time.Second || second < time.Minute || second > time.Minute+10*time.Millisecond {
			t.Errorf("passed after %v and %v", first, second)
		}
		g.yield(t.Context(), time.Hour) // at once
	})
}

// TestEveryReadIsPaid opens all views, and counts reads that do not spend the
// budget. A change spends nothing.
func TestEveryReadIsPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newBilledRig(t, Options{Write: true})
		r.use("key", "gpt-4", "rpm", 1)
		v := r.watching("key", "other")
		go v.drain()
		for _, path := range []string{
			"info", "overview", "overview?order=tightest", "overview?search=key", "entity?id=key", "children?id=key",
			"usage?entity=key", "audit", "resources?with=limits", "resource?name=gpt-4",
		} {
			r.want(200, "/api/"+path, "")
		}
		r.want(200, "/api/explain", `{"entity":"key","resource":"gpt-4","consume":{"rpm":1}}`)
		r.want(200, "/api/preview", `{"action":"delete_limits","resource":"gpt-4"}`)
		r.want(200, "/api/what-if", `{"resource":"gpt-4","limits":[{"name":"rpm","capacity":1,"refill_amount":1,"refill_period_seconds":60}]}`)
		if got := store.unpaid.Load(); got != 0 {
			t.Errorf("%d reads spent no budget", got)
		}
		r.want(200, "/api/change", `{"action":"delete_limits","resource":"gpt-4"}`)
		if got := store.paidChanges.Load(); got != 0 {
			t.Errorf("%d changes spent the budget", got)
		}
		v.leave()
		r.ok(r.Close())
	})
}
