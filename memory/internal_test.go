package memory

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// withClock returns a limiter on an empty store. The clocks of both return *now.
func withClock(t *testing.T, now *time.Time, opts *Options) (*limiter.RateLimiter, *Repository) {
	t.Helper()
	repo := New(opts)
	clock := func() time.Time { return *now }
	repo.store.machine.Clock = clock
	lim, err := limiter.New(repo, &limiter.Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	return lim, repo
}

// TestExpiredBucketsAreSwept covers stored limits and limits of the request.
func TestExpiredBucketsAreSwept(t *testing.T) {
	for name, override := range map[string][]limiter.Limit{"stored": nil, "override": {limiter.PerSecond("rpm", 5)}} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			lim, repo := withClock(t, &now, nil)
			if err := lim.SetSystemDefaults(t.Context(), limiter.PerSecond("rpm", 5)); err != nil {
				t.Fatal(err)
			}
			for i := range 3000 {
				_, err := lim.Acquire(t.Context(), limiter.Request{
					Entity: fmt.Sprint("key-", i), Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1),
					Limits: override,
				})
				if err != nil {
					t.Fatal(err)
				}
				now = now.Add(time.Minute)
			}
			held := 0
			for i := range repo.shards {
				held += repo.shards[i].held()
			}
			if held > 100 { // about an hour's worth
				t.Errorf("%d of 3000 buckets are still held", held)
			}
		})
	}
}

// TestOldEventsAreDropped checks that events of idle entities are dropped after
// their retention, too.
func TestOldEventsAreDropped(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lim, repo := withClock(t, &now, nil)
	for i := range 10 {
		if _, err := lim.CreateEntity(t.Context(), limiter.Entity{ID: fmt.Sprint("key-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(DefaultRetention + 24*time.Hour)
	if _, err := lim.CreateEntity(t.Context(), limiter.Entity{ID: "new"}); err != nil {
		t.Fatal(err)
	}
	if len(repo.audit) != 1 {
		t.Errorf("%d entities still have events, want 1", len(repo.audit))
	}
}

func TestUsageIsKeptForItsRetentionAfterTheWindow(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 30, 0, 0, time.UTC)
	lim, _ := withClock(t, &now, &Options{UsageRetention: 24 * time.Hour})
	if err := lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10)); err != nil {
		t.Fatal(err)
	}
	const days = 20
	for range days {
		if _, err := lim.Acquire(t.Context(), limiter.Request{
			Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1),
		}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(24 * time.Hour)
	}
	for window, want := range map[limiter.Window]int64{limiter.Hourly: 2, limiter.Monthly: days} {
		sum, err := lim.UsageSummary(t.Context(), limiter.UsageQuery{Entity: "alice", Window: window})
		if err != nil || sum.Total["rpm"] != want {
			t.Errorf("%s: %d, want %d: %v", window, sum.Total["rpm"], want, err)
		}
	}
}

// held returns the number of buckets in a shard.
func (s *shard) held() (n int) {
	for range s.each(limiter.Scope{}) {
		n++
	}
	return n
}

// TestConcurrentSweep sweeps while other calls charge, give back, delete and list.
func TestConcurrentSweep(t *testing.T) {
	var ms atomic.Int64
	ms.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	clock := func() time.Time { return time.UnixMilli(ms.Load()) }
	repo := New(&Options{UsageRetention: time.Hour})
	repo.store.machine.Clock = clock
	lim, err := limiter.New(repo, &limiter.Options{Now: clock})
	if err == nil {
		err = lim.SetSystemDefaults(t.Context(), limiter.PerSecond("rpm", 5))
	}
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 500 {
				ms.Add(10_000)
				entity := fmt.Sprint("key-", worker, "-", i)
				lease, err := lim.Acquire(t.Context(), limiter.Request{
					Entity: entity, Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1),
				})
				switch {
				case err != nil:
				case i%3 == 0:
					err = lease.Rollback(t.Context())
				case i%3 == 1:
					err = lim.DeleteEntity(t.Context(), entity)
				}
				if err == nil && i%100 == 0 {
					_, err = lim.Capacity(t.Context(), limiter.CapacityQuery{Resource: "gpt-4", Limit: "rpm"})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}
