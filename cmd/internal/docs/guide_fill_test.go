package docs_test

import (
	"context"
	"fmt"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A top-up that is sent twice, and a reset.
func Example_fill() {
	lim, _ := inMemory(limiter.PerMinute("rpm", 100), limiter.Quota("tokens", 1_000_000, limiter.EveryMonth))
	ctx := context.Background()
	_, err := lim.Acquire(ctx, limiter.Request{
		Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 60).And("tokens", 1_000_000),
	})
	check(err)
	check(fill(ctx, lim))
	// Output:
	// topped up: true
	// topped up: false
	// rpm=40 tokens=250000
	// rpm=40 tokens=1000000
}

func fill(ctx context.Context, lim *limiter.RateLimiter) error {
	//docs:fill
	// The month is used up, and the customer pays for 250,000 tokens more.
	for range 2 { // a repetition adds nothing
		done, err := lim.TopUp(ctx, "key-abc", "gpt-4", limiter.Tokens("tokens", 250_000), "invoice-17")
		if err != nil {
			return err
		}
		fmt.Println("topped up:", done)
	}
	left, err := lim.Available(ctx, "key-abc", "gpt-4")
	if err != nil {
		return err
	}
	fmt.Println(left)

	// The usage was ours: the quota starts anew. Without names, all limits do.
	err = lim.Reset(ctx, "key-abc", "gpt-4", "tokens")
	if err != nil {
		return err
	}
	left, err = lim.Available(ctx, "key-abc", "gpt-4")
	if err != nil {
		return err
	}
	fmt.Println(left)
	//docs:end
	return nil
}
