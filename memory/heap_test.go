package memory

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// heap is how much of it is in use, in bytes.
func heap() float64 {
	runtime.GC()
	runtime.GC() // what the first found to be free is swept by now
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// life is what some entities take, in bytes: while their buckets are there, when
// only their usage is left, and when that is gone, too.
type life struct{ buckets, usage, nothing float64 }

// lived runs through it. Every entity takes a call of two limits. After that all
// calls are those of one entity: it has to do for the others' shards.
func lived(tb testing.TB, entities int) (l life) {
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
			_, err = lim.Acquire(tb.Context(), limiter.Request{Entity: entity, Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 100)})
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
		for range entities/sweepLock + 2*len(repo.shards) { // many times what it takes
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

// The memory of entities that went comes back, and until then what they used
// takes less than half of what their buckets did. Calls of another entity are
// enough for that.
func TestMemoryComesBack(t *testing.T) {
	l := lived(t, 20_000)
	if l.usage > l.buckets/2 {
		t.Errorf("usage takes %.0f kB, the buckets took %.0f", l.usage/1e3, l.buckets/1e3)
	}
	if l.nothing > l.buckets/4 {
		t.Errorf("%.0f kB stay, the buckets took %.0f", l.nothing/1e3, l.buckets/1e3)
	}
}

// BenchmarkIdleEntities shows what a million entities take that made one call
// each: run it with -benchtime=1x.
func BenchmarkIdleEntities(b *testing.B) {
	for b.Loop() {
		l := lived(b, 1_000_000)
		b.ReportMetric(l.buckets/1e6, "MB-buckets")
		b.ReportMetric(l.usage/1e6, "MB-usage")
		b.ReportMetric(l.nothing/1e6, "MB-left")
		b.ReportMetric(l.usage/l.buckets, "usage/buckets")
		b.ReportMetric(l.nothing/l.buckets, "left/buckets")
	}
}
