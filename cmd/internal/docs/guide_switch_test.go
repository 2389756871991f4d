package docs_test

import (
	"context"
	"errors"
	"fmt"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A key is stopped while a call of it runs.
func Example_disable() {
	lim, _ := inMemory(limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
	check(disable(context.Background(), lim))
	// Output:
	// entity key-abc is disabled since 2026-01-31T12:00:00Z: leaked
	// for the client: access of key-abc to gpt-4 is disabled
	// settled: rpm=99 tpm=9380
}

func disable(ctx context.Context, lim *limiter.RateLimiter) error {
	req := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 500)}
	//docs:disable
	lease, err := lim.Acquire(ctx, req) // a call that is under way
	if err != nil {
		return err
	}
	err = lim.Disable(ctx, limiter.Scope{Entity: "key-abc"}, "leaked")
	if err != nil {
		return err
	}

	_, err = lim.Acquire(ctx, req)
	if off, ok := errors.AsType[*limiter.DisabledError](err); ok {
		fmt.Println(off)
		fmt.Println("for the client:", off.Public())
	}

	err = lease.Used("tpm", 620)
	if err != nil {
		return err
	}
	err = lease.Commit(ctx) // settles as usual
	if err != nil {
		return err
	}
	err = lim.Enable(ctx, limiter.Scope{Entity: "key-abc"})
	if err != nil {
		return err
	}
	left, err := lim.Available(ctx, "key-abc", "gpt-4")
	if err != nil {
		return err
	}
	fmt.Println("settled:", left)
	//docs:end
	return nil
}
