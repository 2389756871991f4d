package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// A key may use 1,000 tokens in every month, and no more than 600 a minute. One
// charge decides about both.
func ExampleQuota() {
	now := time.Date(2026, 1, 31, 23, 58, 0, 0, time.UTC)
	ctx := context.Background()
	lim, _ := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return now }})
	_ = lim.SetSystemDefaults(ctx, limiter.Quota("tokens", 1_000, limiter.EveryMonth), limiter.PerMinute("tpm", 600))

	req := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("tokens", 500).And("tpm", 500)}
	for range 4 {
		_, err := lim.Acquire(ctx, req)
		if refusal, ok := errors.AsType[*limiter.ExceededError](err); ok {
			s := refusal.Decision.Primary()
			fmt.Println(s.Limit.Name, "exceeded, retry after", s.RetryAfter.Round(time.Second))
		} else {
			fmt.Println("admitted")
		}
		now = now.Add(50 * time.Second)
	}
	// Output:
	// admitted
	// admitted
	// tokens exceeded, retry after 20s
	// admitted
}

// A shadow limit says what it would refuse, and refuses nothing.
func ExampleLimit_Shadow() {
	ctx := context.Background()
	lim, _ := limiter.New(memory.New(nil), nil)
	_ = lim.SetSystemDefaults(ctx, limiter.PerMinute(limiter.RPM, 100), limiter.PerMinute(limiter.TPM, 1_000).Shadow())
	for range 3 {
		lease, err := lim.Acquire(ctx, limiter.Request{
			Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.TPM, 400).And(limiter.RPM, 1),
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, s := range lease.Decision().Statuses {
			if s.Limit.IsShadow {
				fmt.Println(s.Limit, "would refuse:", s.WouldRefuse)
			}
		}
	}
	// Output:
	// tpm 1000/min shadow would refuse: false
	// tpm 1000/min shadow would refuse: false
	// tpm 1000/min shadow would refuse: true
}

// A key that leaked stops at once, and open leases settle.
func ExampleRateLimiter_Disable() {
	ctx := context.Background()
	now := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	lim, _ := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return now }})
	_ = lim.SetSystemDefaults(ctx, limiter.PerMinute(limiter.RPM, 100))
	req := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.RPM, 1)}

	_ = lim.Disable(ctx, limiter.Scope{Entity: "key-abc"}, "found in a public repository")
	_, err := lim.Acquire(ctx, req)
	fmt.Println(err)

	_ = lim.Enable(ctx, limiter.Scope{Entity: "key-abc"})
	_, err = lim.Acquire(ctx, req)
	fmt.Println(err)
	// Output:
	// entity key-abc is disabled since 2026-03-14T15:09:26Z: found in a public repository
	// <nil>
}

// A customer pays for more. The invoice identifies the top-up, so that a repetition
// adds nothing.
func ExampleRateLimiter_TopUp() {
	ctx := context.Background()
	lim, _ := limiter.New(memory.New(nil), nil)
	_ = lim.SetSystemDefaults(ctx, limiter.Quota("tokens", 1_000, limiter.EveryMonth))
	_, _ = lim.Acquire(ctx, limiter.Request{
		Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("tokens", 1_000),
	})
	for range 2 {
		done, _ := lim.TopUp(ctx, "key-abc", "gpt-4", limiter.Tokens("tokens", 250), "invoice-17")
		fmt.Println("topped up:", done)
	}
	statuses, _ := lim.Status(ctx, "key-abc")
	fmt.Println(statuses[0].Available, "left")

	_ = lim.Reset(ctx, "key-abc", "gpt-4")
	statuses, _ = lim.Status(ctx, "key-abc")
	fmt.Println(statuses[0].Available, "left")
	// Output:
	// topped up: true
	// topped up: false
	// 250 left
	// 1000 left
}
