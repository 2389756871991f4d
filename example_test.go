package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// exampleLimiter returns a limiter in memory whose clock stands still.
func exampleLimiter(limits ...limiter.Limit) *limiter.RateLimiter {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return noon }, Limits: limits})
	if err != nil {
		log.Fatal(err)
	}
	return lim
}

func Example() {
	ctx := context.Background()
	repo := memory.New(nil)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lim, _ := limiter.New(repo, &limiter.Options{Now: func() time.Time { return noon }})
	_ = lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute("rpm", 100),
		limiter.PerMinute("tpm", 10_000).WithBurst(15_000))

	lease, err := lim.Acquire(ctx, limiter.Request{
		Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tpm", 500),
	})
	if ex, ok := errors.AsType[*limiter.ExceededError](err); ok {
		fmt.Println(ex.Public().Message)
		return
	}
	defer lease.Rollback(ctx)  // does nothing after Commit
	_ = lease.Used("tpm", 620) // the estimate was 500
	_ = lease.Commit(ctx)

	left, _ := lim.Available(ctx, "key-abc", "gpt-4")
	fmt.Println(left)
	// Output: rpm=99 tpm=14380
}

// A limiter inside one process, with limits from the program.
func ExampleNew() {
	repo := memory.New(nil)
	defer repo.Close()
	lim, err := limiter.New(repo, &limiter.Options{Limits: []limiter.Limit{limiter.PerMinute(limiter.RPM, 100)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	left, err := lim.Available(context.Background(), "key-abc", "gpt-4")
	fmt.Println(left, err)
	// Output: rpm=100 <nil>
}

// Stored limits replace the limits of the program.
func ExampleOptions_limits() {
	ctx := context.Background()
	lim, _ := limiter.New(memory.New(nil), &limiter.Options{
		Limits: []limiter.Limit{limiter.PerMinute(limiter.RPM, 60)},
	})
	look := limiter.Request{Entity: "key-abc", Resource: "gpt-4"}
	d, _ := lim.Explain(ctx, look)
	fmt.Println(d.Statuses[0].Limit, d.Statuses[0].Source)
	_ = lim.SetResourceDefaults(ctx, "gpt-4", limiter.PerMinute(limiter.RPM, 100))
	d, _ = lim.Explain(ctx, look)
	fmt.Println(d.Statuses[0].Limit, d.Statuses[0].Source)
	// Output:
	// rpm 60/min default
	// rpm 100/min resource
}

// brokenStore is a store in an outage.
type brokenStore struct{ limiter.Repository }

func (brokenStore) Consume(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error) {
	return limiter.Outcome{}, errors.New("connection refused")
}

// With Allow, a limiter fails open: it admits requests while the store is
// unavailable.
func ExampleOptions_failOpen() {
	ctx := context.Background()
	repo := brokenStore{memory.New(nil)}
	req := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.RPM, 1)}

	closed, _ := limiter.New(repo, nil)
	_, err := closed.Acquire(ctx, req)
	fmt.Println(err)

	open, _ := limiter.New(repo, &limiter.Options{OnUnavailable: limiter.Allow})
	lease, err := open.Acquire(ctx, req)
	fmt.Println(err)
	defer lease.Rollback(ctx)
	fmt.Println("outage:", lease.Outage())
	// Output:
	// acquire: store unavailable [entity=key-abc, resource=gpt-4]: connection refused
	// <nil>
	// outage: acquire: store unavailable [entity=key-abc, resource=gpt-4]: connection refused
}

// The deferred Rollback gives the tokens back if the work fails.
func ExampleRateLimiter_Acquire() {
	ctx := context.Background()
	lim := exampleLimiter(limiter.PerMinute(limiter.RPM, 10))

	call := func(work func() error) error {
		lease, err := lim.Acquire(ctx, limiter.Request{
			Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.RPM, 1),
		})
		if err != nil {
			return err
		}
		defer lease.Rollback(ctx) // does nothing after Commit
		if err := work(); err != nil {
			return err
		}
		return lease.Commit(ctx)
	}
	for _, result := range []error{nil, errors.New("the model is down")} {
		err := call(func() error { return result })
		left, _ := lim.Available(ctx, "key-abc", "gpt-4")
		fmt.Println(err, left)
	}
	// Output:
	// <nil> rpm=9
	// the model is down rpm=9
}

// Wait fails at once if the tokens cannot be there before the deadline.
func ExampleRateLimiter_Wait() {
	lim := exampleLimiter(limiter.PerHour(limiter.RPH, 1))
	req := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.RPH, 1)}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lease, err := lim.Wait(ctx, req)
	fmt.Println(err)
	_ = lease.Commit(ctx)

	_, err = lim.Wait(ctx, req)
	ex, _ := errors.AsType[*limiter.ExceededError](err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), ex.Decision.RetryAfter().Round(time.Minute))
	// Output:
	// <nil>
	// true 1h0m0s
}

// With Cascade, each request of a key also charges its project.
func ExampleRateLimiter_CreateEntity() {
	ctx := context.Background()
	lim := exampleLimiter(limiter.PerMinute(limiter.RPM, 100))
	_ = lim.SetLimits(ctx, "project-1", "gpt-4", limiter.PerMinute(limiter.RPM, 5))
	for _, key := range []string{"key-a", "key-b"} {
		_, _ = lim.CreateEntity(ctx, limiter.Entity{ID: key, Parent: "project-1", Cascade: true})
	}

	_, err := lim.Acquire(ctx, limiter.Request{
		Entity: "key-a", Resource: "gpt-4", Consume: limiter.Tokens(limiter.RPM, 4),
	})
	fmt.Println(err)
	_, err = lim.Acquire(ctx, limiter.Request{
		Entity: "key-b", Resource: "gpt-4", Consume: limiter.Tokens(limiter.RPM, 2),
	})
	fmt.Println(err)
	// Output:
	// <nil>
	// rate limit exceeded for project-1/gpt-4: rpm (2 requested, 1 of 5 left); retry after 12s
}

// Request.Limits replaces the stored limits for one call.
func ExampleRequest_limits() {
	ctx := context.Background()
	lim := exampleLimiter(limiter.PerMinute(limiter.RPM, 100))
	req := limiter.Request{Entity: "trial-7", Resource: "gpt-4", Consume: limiter.Tokens(limiter.RPM, 3)}
	req.Limits = []limiter.Limit{limiter.PerMinute(limiter.RPM, 5)}
	for range 2 {
		_, err := lim.Acquire(ctx, req)
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// rate limit exceeded for trial-7/gpt-4: rpm (3 requested, 2 of 5 left); retry after 12s
}

func ExampleRateLimiter_UsageSummary() {
	ctx := context.Background()
	lim := exampleLimiter(limiter.PerMinute(limiter.RPM, 100), limiter.PerMinute(limiter.TPM, 10_000))
	for _, tokens := range []int64{500, 700} {
		lease, _ := lim.Acquire(ctx, limiter.Request{
			Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.RPM, 1).And(limiter.TPM, tokens),
		})
		_ = lease.Commit(ctx)
	}

	query := limiter.UsageQuery{Entity: "key-abc", Window: limiter.Daily}
	for s, err := range lim.Usage(ctx, query) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s.Start.Format(time.DateOnly), s.Resource, s.Counters)
	}
	sum, _ := lim.UsageSummary(ctx, query)
	fmt.Println("total", sum.Total)
	// Output:
	// 2026-01-01 gpt-4 map[rpm:2 tpm:1200]
	// total map[rpm:2 tpm:1200]
}
