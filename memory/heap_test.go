package memory

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// heap returns the number of heap bytes in use.
func heap() float64 {
	runtime.GC()
	runtime.GC() // completes the sweep of the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// footprint is the memory of some entities, in bytes: with their buckets, with
// only their usage, and after both have expired.
type footprint struct{ buckets, usage, nothing float64 }

// measure creates entities with one call of two limits each and lets them expire.
// All later calls are for one other entity, which has to sweep all shards.
func measure(tb testing.TB, entities int) (l footprint) {
	tb.Helper()
	now := time.Date(2026, 1, 1, 10, 30, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	repo := New(nil)
	repo.store.machine.Clock = clock
	lim, err := limiter.New(repo, &limiter.Options{Now: clock})
	if err == nil {
		err = lim.SetSystemDefaults(tb.Context(), limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
	}
	acquire := func(entity string) {
		if err == nil {
			_, err = lim.Acquire(tb.Context(), limiter.Request{
				Entity: entity, Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 100),
			})
		}
	}
	const busy = "busy"
	acquire(busy)
	before := heap()
	for i := range entities {
		acquire(fmt.Sprint("entity-", i))
	}
	l.buckets = heap() - before
	for _, stage := range []struct {
		after time.Duration
		heap  *float64
	}{{24 * time.Hour, &l.usage}, {150 * 24 * time.Hour, &l.nothing}} {
		now = now.Add(stage.after)
		for range entities/sweepLock + 2*len(repo.shards) { // more than enough for a whole sweep
			now = now.Add(time.Second)
			acquire(busy)
		}
		*stage.heap = heap() - before
	}
	if err != nil {
		tb.Fatal(err)
	}
	runtime.KeepAlive(lim)
	return l
}

// TestMemoryIsFreed checks that expired usage takes no memory, and that usage
// takes less than half of the memory of its buckets. Calls for another entity
// are enough to free it.
func TestMemoryIsFreed(t *testing.T) {
	l := measure(t, 20_000)
	if l.usage > l.buckets/2 {
		t.Errorf("usage takes %.0f kB, the buckets took %.0f", l.usage/1e3, l.buckets/1e3)
	}
	if l.nothing > l.buckets/4 {
		t.Errorf("%.0f kB are left, the buckets took %.0f", l.nothing/1e3, l.buckets/1e3)
	}
}

// BenchmarkIdleEntities measures the memory of a million entities after one call
// each. Run it with -benchtime=1x.
func BenchmarkIdleEntities(b *testing.B) {
	for b.Loop() {
		l := measure(b, 1_000_000)
		b.ReportMetric(l.buckets/1e6, "MB-buckets")
		b.ReportMetric(l.usage/1e6, "MB-usage")
		b.ReportMetric(l.nothing/1e6, "MB-left")
		b.ReportMetric(l.usage/l.buckets, "usage/buckets")
		b.ReportMetric(l.nothing/l.buckets, "left/buckets")
	}
}
