package memory_test

import (
	"context"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

func TestRepository(t *testing.T) {
	t.Parallel()
	repotest.Run(t, func(*testing.T) limiter.Repository { return memory.New(nil) })
}

func BenchmarkAcquireCommit(b *testing.B) {
	ctx := context.Background()
	lim, _ := limiter.New(memory.New(nil), nil)
	_ = lim.SetSystemDefaults(ctx, limiter.PerSecond("rpm", 1e9), limiter.PerSecond("tpm", 1e12))
	req := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 500)}
	b.ReportAllocs()
	for b.Loop() {
		lease, err := lim.Acquire(ctx, req)
		if err != nil {
			b.Fatal(err)
		}
		if err := lease.Commit(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
