package docs_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

func Example_acquire() {
	lim, _ := inMemory(limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
	check(acquire(context.Background(), lim))
	left, err := lim.Available(context.Background(), "key-abc", "gpt-4")
	fmt.Println(left, err)
	// Output: rpm=99 tpm=9380 <nil>
}

func acquire(ctx context.Context, lim *limiter.RateLimiter) error {
	//docs:acquire
	lease, err := lim.Acquire(ctx, limiter.Request{
		Entity: "key-abc", Resource: "gpt-4",
		Consume: limiter.Tokens("rpm", 1).And("tpm", 500),
	})
	if err != nil {
		return err
	}
	defer lease.Rollback(ctx) // does nothing after Commit

	used, err := callModel(ctx)
	if err != nil {
		return err
	}
	if err := lease.Used("tpm", used); err != nil {
		return err
	}
	return lease.Commit(ctx)
	//docs:end
}

// A bucket in debt, and the way out.
func Example_debt() {
	lim, clock := inMemory(limiter.PerMinute("tpm", 6_000))
	check(debt(context.Background(), lim, clock))
	// Output:
	// 12:00:00 tpm=-3000
	// rate limit exceeded for key-abc/gpt-4: tpm (500 requested, 3000 in debt); retry after 35s
	// 12:00:35 tpm=0
}

func debt(ctx context.Context, lim *limiter.RateLimiter, clock *clock) error {
	//docs:debt
	req := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("tpm", 500)}
	lease, err := lim.Acquire(ctx, req) // an estimate of 500
	if err != nil {
		return err
	}
	err = lease.Used("tpm", 9_000) // the answer was long
	if err != nil {
		return err
	}
	err = lease.Commit(ctx)
	if err != nil {
		return err
	}
	left, err := lim.Available(ctx, "key-abc", "gpt-4")
	if err != nil {
		return err
	}
	fmt.Println(clock.Now().Format(time.TimeOnly), left)

	_, err = lim.Acquire(ctx, req)
	fmt.Println(err)

	if refused, ok := errors.AsType[*limiter.ExceededError](err); ok {
		clock.Advance(refused.Decision.RetryAfter()) // time.Sleep, in a program
	}
	_, err = lim.Acquire(ctx, req)
	if err != nil {
		return err
	}
	left, err = lim.Available(ctx, "key-abc", "gpt-4")
	if err != nil {
		return err
	}
	fmt.Println(clock.Now().Format(time.TimeOnly), left)
	//docs:end
	return nil
}

// A stream pays as it goes, and never goes into debt.
func Example_stream() {
	ctx := context.Background()
	lim, _ := inMemory(limiter.PerMinute("tpm", 1_000))
	check(stream(ctx, lim, []int64{300, 300, 300, 300}))
	left, err := lim.Available(ctx, "key-abc", "gpt-4")
	fmt.Println(left, err)
	// Output:
	// cut: rate limit exceeded for key-abc/gpt-4: tpm (300 requested, 0 of 1000 left); retry after 18s
	// tpm=0 <nil>
}

func stream(ctx context.Context, lim *limiter.RateLimiter, parts []int64) error {
	lease, err := lim.Acquire(ctx, limiter.Request{
		Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("tpm", 100),
	})
	if err != nil {
		return err
	}
	//docs:stream
	for _, tokens := range parts {
		var full *limiter.ExceededError
		if err := lease.Consume(ctx, limiter.Tokens("tpm", tokens)); errors.As(err, &full) {
			fmt.Println("cut:", full)
			break // what was sent stays paid
		} else if err != nil {
			return err
		}
		// send the part to the client
	}
	return lease.Commit(ctx)
	//docs:end
}

// What a refusal knows.
func Example_refusal() {
	ctx := context.Background()
	lim, _ := inMemory(limiter.PerMinute("rpm", 2), limiter.PerMinute("tpm", 1_000))
	req := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 100)}
	for range 2 {
		_, err := lim.Acquire(ctx, req)
		check(err)
	}
	//docs:refusal
	_, err := lim.Acquire(ctx, req)
	if refused, ok := errors.AsType[*limiter.ExceededError](err); ok {
		for _, s := range refused.Decision.Statuses {
			fmt.Printf("%s: asked %d, has %d, exceeded %t, retry after %v\n", s.Limit.Name, s.Requested,
				s.Available, s.Exceeded, s.RetryAfter)
		}
		fmt.Println("Retry-After:", refused.RetryAfterHeader())
	}
	//docs:end
	// Output:
	// rpm: asked 1, has 0, exceeded true, retry after 30.001s
	// tpm: asked 100, has 800, exceeded false, retry after 0s
	// Retry-After: 30
}
