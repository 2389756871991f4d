package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

func Example() {
	ctx := context.Background()
	repo := memory.New(nil)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lim, _ := limiter.New(repo, &limiter.Options{Now: func() time.Time { return noon }})
	_ = lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000).WithBurst(15_000))

	lease, err := lim.Acquire(ctx, limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 500)})
	if ex, ok := errors.AsType[*limiter.ExceededError](err); ok {
		fmt.Println("Retry-After:", ex.RetryAfterHeader())
		return
	}
	defer lease.Rollback(ctx)                    // does nothing after Commit
	_ = lease.Adjust(limiter.Tokens("tpm", 120)) // it took 620 tokens, not 500
	_ = lease.Commit(ctx)

	left, _ := lim.Available(ctx, "key-abc", "gpt-4")
	fmt.Println(left)
	// Output: rpm=99 tpm=14380
}
