package telemetry_test

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/telemetry"
)

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// rig is an observed repository whose spans and metrics a test can read.
type rig struct {
	*telemetry.Repository
	lim    *limiter.RateLimiter
	spans  *tracetest.SpanRecorder
	reader *sdkmetric.ManualReader
	meters *sdkmetric.MeterProvider
}

// newRig observes a store with an SDK of its own.
func newRig(tb testing.TB, store limiter.Repository, opts *telemetry.Options) *rig {
	tb.Helper()
	var o telemetry.Options
	if opts != nil {
		o = *opts
	}
	r := &rig{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	o.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
	r.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
	o.MeterProvider = r.meters
	var err error
	r.Repository, err = telemetry.New(store, &o)
	check(tb, err)
	tb.Cleanup(func() { check(tb, r.Close()) })
	r.lim, err = limiter.New(r.Repository, &limiter.Options{Now: func() time.Time { return epoch }})
	check(tb, err)
	return r
}

// metrics collects the metrics by name.
func (r *rig) metrics(tb testing.TB) map[string]metricdata.Metrics {
	tb.Helper()
	var collected metricdata.ResourceMetrics
	check(tb, r.reader.Collect(context.Background(), &collected))
	all := map[string]metricdata.Metrics{}
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			all[m.Name] = m
		}
	}
	return all
}

// counts returns the values of a counter by the text of their attributes.
func (r *rig) counts(tb testing.TB, name string) map[string]int64 {
	tb.Helper()
	counts := map[string]int64{}
	data, ok := r.metrics(tb)[name].Data.(metricdata.Sum[int64])
	if !ok {
		return counts
	}
	for _, p := range data.DataPoints {
		counts[p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
	}
	return counts
}

// newMemory returns a store with limits for resource api: 10 requests and 100
// tokens a minute.
func newMemory(tb testing.TB) *memory.Repository {
	tb.Helper()
	store := memory.New(nil)
	lim, err := limiter.New(store, nil)
	check(tb, err)
	check(tb,
		lim.SetResourceDefaults(context.Background(), "api", limiter.PerMinute("rpm", 10),
			limiter.PerMinute("tpm", 100)))
	return store
}
