package telemetry_test

import (
	"context"
	"fmt"
	"log"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/telemetry"
)

// Observe a limiter, and read what it counted. Programs export metrics instead,
// through the reader of their choice.
func Example() {
	ctx := context.Background()
	reader := sdkmetric.NewManualReader()
	repo, err := telemetry.New(memory.New(nil), &telemetry.Options{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	})
	if err != nil {
		log.Fatal(err)
	}
	lim, err := limiter.New(repo, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute("rpm", 2)); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		lease, err := lim.Acquire(ctx, limiter.Request{
			Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1),
		})
		if err != nil {
			continue // refused
		}
		if err := lease.Commit(ctx); err != nil {
			log.Fatal(err)
		}
	}

	var collected metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &collected); err != nil {
		log.Fatal(err)
	}
	for _, m := range collected.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "zae_limiter.decisions" {
			for _, p := range sum.DataPoints {
				result, _ := p.Attributes.Value("zae_limiter.result")
				fmt.Println(result.AsString(), p.Value)
			}
		}
	}
	if err := repo.Close(); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// admitted 2
	// refused 1
}
