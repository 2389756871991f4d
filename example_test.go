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
		fmt.Println(ex.Public().Message)
		return
	}
	defer lease.Rollback(ctx)  // does nothing after Commit
	_ = lease.Used("tpm", 620) // not 500, as was estimated
	_ = lease.Commit(ctx)

	left, _ := lim.Available(ctx, "key-abc", "gpt-4")
	fmt.Println(left)
	// Output: rpm=99 tpm=14380
}

// What a minute admits to a client that takes all it can get. PerMinute holds
// 10,000 and refills 10,000 meanwhile; Within never admits more than 10,000.
func ExampleWithin() {
	for _, limit := range []limiter.Limit{
		limiter.PerMinute(limiter.TPM, 10_000),
		limiter.Within(limiter.TPM, 10_000, time.Minute),
		limiter.WithinBurst(limiter.TPM, 10_000, 4_000, time.Minute),
	} {
		now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		lim, _ := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return now }})
		_ = lim.SetSystemDefaults(context.Background(), limit)
		req, admitted := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.TPM, 10)}, 0
		for end := now.Add(time.Minute); now.Before(end); {
			if _, err := lim.Acquire(context.Background(), req); err == nil {
				admitted += 10
			} else {
				now = now.Add(100 * time.Millisecond)
			}
		}
		fmt.Println(limit, "admitted", admitted)
	}
	// Output:
	// tpm 10000/1m admitted 19980
	// tpm 9000/1m burst 1000 admitted 9980
	// tpm 6000/1m burst 4000 admitted 9990
}

func ExampleParseLimit() {
	for _, text := range []string{"rpm:100", "tpm:10000/min:15000", "tpm:10000/min:within", "images:50/12hour", "rpm:many"} {
		limit, err := limiter.ParseLimit(text)
		if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
			fmt.Printf("invalid %s %q\n", bad.Field, bad.Value)
			continue
		}
		fmt.Println(limit)
	}
	// Output:
	// rpm 100/1m
	// tpm 10000/1m burst 15000
	// tpm 9000/1m burst 1000
	// images 50/12h
	// invalid limit "rpm:many"
}

// Limits of the program rule until some are stored.
func ExampleOptions_limits() {
	ctx := context.Background()
	lim, _ := limiter.New(memory.New(nil), &limiter.Options{Limits: []limiter.Limit{limiter.PerMinute(limiter.RPM, 60)}})
	look := limiter.Request{Entity: "key-abc", Resource: "gpt-4"}
	d, _ := lim.Explain(ctx, look)
	fmt.Println(d.Statuses[0].Limit, d.Statuses[0].Source)
	_ = lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute(limiter.RPM, 100))
	d, _ = lim.Explain(ctx, look)
	fmt.Println(d.Statuses[0].Limit, d.Statuses[0].Source)
	// Output:
	// rpm 60/1m default
	// rpm 100/1m resource
}

// A stream says from time to time how much it has used so far.
func ExampleLease_Used() {
	ctx := context.Background()
	lim, _ := limiter.New(memory.New(nil), nil)
	_ = lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerDay("tpm", 10_000))

	lease, _ := lim.Acquire(ctx, limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("tpm", 500)})
	defer lease.Rollback(ctx) // does nothing after Commit
	for _, soFar := range []int64{180, 420, 620} {
		_ = lease.Used("tpm", soFar)
	}
	_ = lease.Commit(ctx)
	fmt.Println(lease.Consumed())
	// Output: tpm=620
}
