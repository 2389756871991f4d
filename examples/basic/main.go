// Command basic limits calls of a model by two limits at once.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	// A clock that only this program moves. Leave Now out to use the real time.
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return now }})
	if err != nil {
		return err
	}

	if err := lim.SetResourceDefaults(
		ctx, "gpt-4", limiter.PerMinute("rpm", 5), limiter.PerMinute("tpm", 100),
	); err != nil {
		return err
	}

	fmt.Println("Alice has 5 requests and 100 tokens a minute, and makes 7 calls of 15 tokens:")
	if err := calls(ctx, lim, "alice", 1, 7, nil); err != nil {
		return err
	}

	now = now.Add(12 * time.Second)
	fmt.Println("12 seconds later, a fifth of everything is back:")
	if err := calls(ctx, lim, "alice", 8, 8, nil); err != nil {
		return err
	}

	if err := lim.SetLimits(
		ctx, "bob", "gpt-4", limiter.PerMinute("rpm", 3), limiter.PerMinute("tpm", 100),
	); err != nil {
		return err
	}
	fmt.Println("Bob has limits of his own, 3 requests a minute, and the model fails in 2 of his 5 calls:")
	return calls(ctx, lim, "bob", 1, 5, map[int]bool{2: true, 3: true})
}

// calls makes the calls from first to last and prints what became of each. The
// calls in failing reach the model in vain.
func calls(ctx context.Context, lim *limiter.RateLimiter, entity string, first, last int, failing map[int]bool) error {
	request := limiter.Request{Entity: entity, Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 15)}

	for i := first; i <= last; i++ {
		// Do gives everything back if the function fails, here because the
		// model did.
		err := lim.Do(ctx, request, func(context.Context, *limiter.Lease) error {
			if failing[i] {
				return errModel
			}
			return nil
		})

		left, errLeft := lim.Available(ctx, entity, "gpt-4")
		if errLeft != nil {
			return errLeft
		}

		var refused *limiter.ExceededError
		switch {
		case errors.As(err, &refused):
			fmt.Printf("  call %d: refused by %s, retry after %v; nothing was taken: %v\n", i,
				refused.Decision.Primary().Limit.Name, refused.Decision.RetryAfter(), left)
		case errors.Is(err, errModel):
			fmt.Printf("  call %d: %v; everything was given back: %v\n", i, err, left)
		case err != nil:
			return err
		default:
			fmt.Printf("  call %d: admitted, left %v\n", i, left)
		}
	}
	return nil
}

var errModel = errors.New("the model failed")
