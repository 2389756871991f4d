package telemetry_test

import (
	"context"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/telemetry"
)

// refused returns a charge that the store refuses, which allocates the least.
var refused = limiter.Charge{Entity: "alice", Resource: "api", Amounts: limiter.Tokens("rpm", 1).And("tpm", 101)}

// TestOverheadWithoutSDK checks the allocations that a decision adds. Package bench
// measures the time.
func TestOverheadWithoutSDK(t *testing.T) {
	store := newMemory(t)
	observed, err := telemetry.New(store, nil)
	check(t, err)
	ctx := context.Background()
	consume := func(repo limiter.Repository) func() {
		return func() {
			_, err := repo.Consume(ctx, epoch, refused)
			check(t, err)
		}
	}
	const runs = 1000
	alone, wrapped := testing.AllocsPerRun(runs, consume(store)), testing.AllocsPerRun(runs, consume(observed))
	if wrapped-alone > 3 {
		t.Errorf("%g allocations with telemetry, %g without: at most 3 more are allowed", wrapped, alone)
	}
}

func BenchmarkConsume(b *testing.B) {
	store := newMemory(b)
	observed, err := telemetry.New(store, nil)
	check(b, err)
	withSDK := newRig(b, newMemory(b), nil)
	for _, c := range []struct {
		name string
		repo limiter.Repository
	}{{"store", store}, {"observed", observed}, {"sdk", withSDK.Repository}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := c.repo.Consume(b.Context(), time.Time{}.Add(time.Hour), refused)
				check(b, err)
			}
		})
	}
}
