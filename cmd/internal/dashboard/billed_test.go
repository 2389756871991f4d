package dashboard

import (
	"context"
	"fmt"
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
	budgets        atomic.Int64
	pages, records atomic.Int64
	pageTime       time.Duration
	rowTime        time.Duration
	recordTime     time.Duration
}

func (b *billed) WithReadBudget(float64) (limiter.Repository, limiter.ReadMeter) {
	b.budgets.Add(1)
	return b, b
}

func (b *billed) Used() float64 { return 0 }
func (b *billed) Rate() float64 { return 12.34 }

func (b *billed) Namespace(context.Context, string) (limiter.Repository, error) { return b, nil }

func (b *billed) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	b.pages.Add(1)
	time.Sleep(b.pageTime)
	return b.counted.BucketPage(ctx, now, q)
}

func (b *billed) BucketsAt(ctx context.Context, now time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	time.Sleep(time.Duration(len(keys)) * b.rowTime)
	return b.counted.BucketsAt(ctx, now, keys)
}

func (b *billed) Entity(ctx context.Context, id string) (limiter.Entity, error) {
	b.records.Add(1)
	time.Sleep(b.recordTime)
	return b.Repository.Entity(ctx, id)
}

func newBilledRig(t *testing.T, opts Options) (*rig, *billed) {
	t.Helper()
	opts.Now = time.Now
	r := newRig(t, opts)
	store := &billed{counted: counted{Repository: r.repo}}
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
		if first, second := <-passed, <-passed; first != time.Second || second != time.Minute {
			t.Errorf("passed after %v and %v", first, second)
		}
		g.yield(t.Context(), time.Hour) // at once
	})
}

func TestPagesFromAList(t *testing.T) {
	r := newRig(t, Options{})
	for i := range 23 {
		r.use(fmt.Sprintf("key-%02d", i), "gpt-4", "rpm", 1)
	}
	pager := listPager{r.repo}
	var got []string
	q := limiter.BucketQuery{Prefix: "key-", Max: 5}
	for {
		page, err := pager.BucketPage(t.Context(), r.opts.Now(), q)
		r.ok(err)
		if page.Scanned != 23 || len(page.Buckets) > 5 {
			t.Fatalf("scanned %d, %d buckets", page.Scanned, len(page.Buckets))
		}
		for _, b := range page.Buckets {
			got = append(got, b.Account.Entity)
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	for i, id := range got {
		if id != fmt.Sprintf("key-%02d", i) {
			t.Fatalf("order: %v", got)
		}
	}
	if len(got) != 23 {
		t.Errorf("%d buckets", len(got))
	}
	if _, err := pager.BucketPage(t.Context(), r.opts.Now(), limiter.BucketQuery{After: "~~"}); err == nil {
		t.Error("a bad cursor is accepted")
	}
	at, err := pager.BucketsAt(t.Context(), r.opts.Now(), []limiter.Scope{
		{Entity: "key-01", Resource: "gpt-4"}, {Entity: "no", Resource: "gpt-4"},
	})
	r.ok(err)
	if at[0].Account == nil || at[1].Account != nil {
		t.Errorf("by key: %v", at)
	}
}
