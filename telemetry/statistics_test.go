package telemetry_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/telemetry"
)

// billed is a store that bills 2 read units and 3 write units for each charge.
type billed struct {
	limiter.Repository
	charges atomic.Int64
	offset  float64
}

func newBilled(tb testing.TB) *billed {
	tb.Helper()
	return &billed{Repository: newMemory(tb)}
}

func (b *billed) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	b.charges.Add(1)
	return b.Repository.Consume(ctx, now, charge)
}

func (b *billed) Statistics() iter.Seq[limiter.Statistic] {
	n := float64(b.charges.Load())
	return slices.Values([]limiter.Statistic{
		{Name: "store.billed_reads", Unit: "{unit}", Description: "Read units", Total: true, Value: 2 * n},
		{Name: "store.billed_writes", Unit: "{unit}", Description: "Write units", Total: true, Value: 3 * n},
		{Name: "store.clock.offset", Unit: "s", Description: "Offset", Value: b.offset},
	})
}

// value returns the only value of a metric, and whether it has one.
func (r *rig) value(tb testing.TB, name string) (value float64, total, ok bool) {
	tb.Helper()
	switch data := r.metrics(tb)[name].Data.(type) {
	case metricdata.Sum[float64]:
		return data.DataPoints[0].Value, data.IsMonotonic, len(data.DataPoints) == 1
	case metricdata.Gauge[float64]:
		return data.DataPoints[0].Value, false, len(data.DataPoints) == 1
	}
	return 0, false, false
}

// TestStatisticsBecomeMetrics observes a store below an escrow: both report.
func TestStatisticsBecomeMetrics(t *testing.T) {
	r := newRig(t, escrow.New(newMemory(t), nil), &telemetry.Options{Name: "main"})
	lease, err := r.lim.Acquire(t.Context(), limiter.Request{
		Entity: "alice", Resource: "api", Consume: limiter.Tokens("rpm", 1),
	})
	check(t, err)
	check(t, lease.Commit(t.Context()))
	if n, total, ok := r.value(t, "zae_limiter.escrow.requests"); n != 1 || !total || !ok {
		t.Error(n, total, ok)
	}
	if n, total, ok := r.value(t, "zae_limiter.store.buckets"); n != 1 || total || !ok {
		t.Error(n, total, ok)
	}
	var names []string
	for s := range r.Statistics() {
		names = append(names, s.Name)
	}
	if !slices.Contains(names, "escrow.held") || !slices.Contains(names, "store.buckets") {
		t.Error(names)
	}
	check(t, r.Close())
	if _, _, ok := r.value(t, "zae_limiter.store.buckets"); ok {
		t.Error("a closed store is observed")
	}
}

func TestCost(t *testing.T) {
	store := newBilled(t)
	store.charges.Store(1000) // before
	store.offset = math.NaN()
	r := newRig(t, store, &telemetry.Options{ReadPrice: 0.125e-6, WritePrice: 0.625e-6, Currency: "EUR"})
	if _, _, ok := r.value(t, "zae_limiter.cost.per_million_decisions"); ok {
		t.Error("a cost without decisions")
	}
	for range 4 {
		_, err := r.Consume(t.Context(), epoch, refused)
		check(t, err)
	}
	const each = 2*0.125e-6 + 3*0.625e-6
	if spent, total, _ := r.value(t, "zae_limiter.cost"); math.Abs(spent-4*each) > 1e-12 || !total {
		t.Error(spent)
	}
	if cost, total, _ := r.value(t, "zae_limiter.cost.per_million_decisions"); math.Abs(cost-1e6*each) > 1e-9 || total {
		t.Error(cost)
	}
	if unit := r.metrics(t)["zae_limiter.cost"].Unit; unit != "{EUR}" {
		t.Error(unit)
	}
	if _, _, ok := r.value(t, "zae_limiter.store.clock.offset"); ok {
		t.Error("an unknown value was observed")
	}
	store.offset = 0.5
	if offset, _, ok := r.value(t, "zae_limiter.store.clock.offset"); offset != 0.5 || !ok {
		t.Error(offset, ok)
	}
}

func TestPricesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		store limiter.Repository
		opts  telemetry.Options
		field string
	}{
		{newMemory(t), telemetry.Options{WritePrice: 1}, "write_price"},
		{newBilled(t), telemetry.Options{WritePrice: -1}, "write_price"},
		{newBilled(t), telemetry.Options{ReadPrice: math.Inf(1)}, "read_price"},
	} {
		_, err := telemetry.New(c.store, &c.opts)
		if e, ok := errors.AsType[*limiter.InvalidError](err); !ok || e.Field != c.field {
			t.Errorf("%+v: %v", c.opts, err)
		}
	}
}

// TestReport exports statistics of something that is no repository.
func TestReport(t *testing.T) {
	r := newRig(t, newMemory(t), nil)
	stop, err := telemetry.Report(newBilled(t), &telemetry.Options{MeterProvider: r.meters})
	check(t, err)
	if _, total, ok := r.value(t, "zae_limiter.store.billed_reads"); !total || !ok {
		t.Error(total, ok)
	}
	check(t, stop())
	if _, _, ok := r.value(t, "zae_limiter.store.billed_reads"); ok {
		t.Error("the export did not end")
	}
}
