package docs_test

import (
	"context"
	"fmt"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A limit on trial beside one that is enforced.
func Example_shadow() {
	lim, _ := inMemory()
	check(shadow(context.Background(), lim))
	// Output:
	// call 1: admitted, tpm has 400, would refuse: false
	// call 2: admitted, tpm has 400, would refuse: true
	// call 3: admitted, tpm has 400, would refuse: true
}

func shadow(ctx context.Context, lim *limiter.RateLimiter) error {
	//docs:shadow
	err := lim.SetResourceDefaults(ctx, "gpt-4",
		limiter.PerMinute("rpm", 100),
		limiter.PerMinute("tpm", 1_000).Shadow())
	if err != nil {
		return err
	}
	for call := range 3 {
		lease, err := lim.Acquire(ctx, limiter.Request{
			Entity: "key-abc", Resource: "gpt-4",
			Consume: limiter.Tokens("rpm", 1).And("tpm", 600),
		})
		if err != nil {
			return err
		}
		tpm := lease.Decision().Statuses[1]
		fmt.Printf("call %d: admitted, tpm has %d, would refuse: %t\n", call+1, tpm.Available, tpm.WouldRefuse)
	}
	//docs:end
	return nil
}
