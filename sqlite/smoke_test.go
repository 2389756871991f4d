package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

func BenchmarkAcquire(b *testing.B) {
	ctx := context.Background()
	repo, err := sqlite.Open(ctx, filepath.Join(b.TempDir(), "limits.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer repo.Close()
	lim, _ := limiter.New(repo, nil)
	if err := lim.SetSystemDefaults(ctx, limiter.PerSecond("rpm", 1e9), limiter.PerSecond("tpm", 1e12)); err != nil {
		b.Fatal(err)
	}
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
