package escrow_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
)

func BenchmarkAcquire(b *testing.B) {
	for name, repo := range map[string]limiter.Repository{
		"memory": memory.New(nil), "escrow": escrow.New(memory.New(nil), nil),
	} {
		b.Run(name, func(b *testing.B) {
			lim, err := limiter.New(repo, nil)
			if err != nil {
				b.Fatal(err)
			}
			ctx := b.Context()
			if err := lim.SetSystemDefaults(
				ctx, limiter.PerMinute("rpm", 1e12), limiter.PerMinute("tpm", 1e12),
			); err != nil {
				b.Fatal(err)
			}
			req := limiter.Request{Entity: "key", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 100)}
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
			if e, ok := repo.(*escrow.Repository); ok {
				b.Logf("%+v", e.Stats())
			}
		})
	}
}
