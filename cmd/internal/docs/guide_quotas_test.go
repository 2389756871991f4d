package docs_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
)

// A rate and a quota in one decision.
func Example_quota() {
	lim, clock := inMemory()
	check(quota(context.Background(), lim, clock))
	// Output:
	// rate limit exceeded for key-abc/gpt-4: tokens (100001 requested, 100000 of 1000000 left); retry after 12h
	// tokens: 100000 of 1000000 left, retry at 2026-02-01T00:00:00Z
	// 2026-02-01T00:00:00Z tokens=1000000 tpm=2000000 <nil>
}

func quota(ctx context.Context, lim *limiter.RateLimiter, clock *clock) error {
	//docs:quota
	err := lim.SetResourceDefaults(ctx, "gpt-4",
		limiter.PerMinute("tpm", 2_000_000),
		limiter.Quota("tokens", 1_000_000, limiter.EveryMonth))
	if err != nil {
		return err
	}
	take := func(n int64) error {
		_, err := lim.Acquire(ctx, limiter.Request{
			Entity: "key-abc", Resource: "gpt-4",
			Consume: limiter.Tokens("tpm", n).And("tokens", n),
		})
		return err
	}
	err = take(900_000)
	if err != nil {
		return err
	}
	err = take(100_001) // neither limit is charged
	fmt.Println(err)
	if refused, ok := errors.AsType[*limiter.ExceededError](err); ok {
		s := refused.Decision.Violations()[0]
		fmt.Printf("%s: %d of %d left, retry at %s\n", s.Limit.Name, s.Available, s.Limit.Capacity,
			s.WindowEnd.Format(time.RFC3339))
	}
	//docs:end
	clock.Advance(12 * time.Hour)
	left, err := lim.Available(ctx, "key-abc", "gpt-4")
	fmt.Println(clock.Now().Format(time.RFC3339), left, err)
	return nil
}

// The days of a zone, also on the day on which its clocks change.
func Example_quotaZone() {
	lim, clock := inMemory()
	check(quotaZone(context.Background(), lim, clock))
	// Output:
	// 2026-10-24T22:00:00Z to 2026-10-25T23:00:00Z: 25h0m0s
}

func quotaZone(ctx context.Context, lim *limiter.RateLimiter, clock *clock) error {
	clock.now = time.Date(2026, 10, 25, 10, 0, 0, 0, time.UTC)
	//docs:quota-zone
	perDay := limiter.Quota("spend", 50_000_000, limiter.EveryDay).In("Europe/Berlin")
	err := lim.SetResourceDefaults(ctx, "gpt-4", perDay)
	if err != nil {
		return err
	}
	d, err := lim.Explain(ctx, limiter.Request{
		Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("spend", 1),
	})
	if err != nil {
		return err
	}
	s := d.Statuses[0]
	fmt.Printf("%s to %s: %v\n", s.WindowStart.Format(time.RFC3339), s.WindowEnd.Format(time.RFC3339),
		s.WindowEnd.Sub(s.WindowStart))
	//docs:end
	return nil
}

// Debt that the next windows pay, and a budget that grows within its window.
func Example_quotaDebt() {
	lim, clock := inMemory(limiter.Quota("tokens", 1_000, limiter.EveryDay))
	check(quotaDebt(context.Background(), lim, clock))
	// Output:
	// Jan 31 tokens=-1500
	// Feb  1 tokens=-500
	// Feb  2 tokens=500
	// Feb  3 tokens=1000
}

func quotaDebt(ctx context.Context, lim *limiter.RateLimiter, clock *clock) error {
	//docs:quota-debt
	lease, err := lim.Acquire(ctx, limiter.Request{
		Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("tokens", 100),
	})
	if err != nil {
		return err
	}
	err = lease.Used("tokens", 2_500) // the quota has 1,000 a day
	if err != nil {
		return err
	}
	err = lease.Commit(ctx)
	if err != nil {
		return err
	}
	for range 4 {
		left, err := lim.Available(ctx, "key-abc", "gpt-4")
		if err != nil {
			return err
		}
		fmt.Println(clock.Now().Format("Jan _2"), left)
		clock.Advance(24 * time.Hour)
	}
	//docs:end
	return nil
}
