package limiter_test

import (
	"context"
	"fmt"
	"log"

	"github.com/zeroae/zae-limiter-go"
)

// A stream reports its total use so far.
func ExampleLease_Used() {
	ctx := context.Background()
	lim := exampleLimiter(limiter.PerDay(limiter.TPD, 10_000))

	lease, err := lim.Acquire(ctx, limiter.Request{
		Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.TPD, 500),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, soFar := range []int64{180, 420, 620} {
		_ = lease.Used(limiter.TPD, soFar)
	}
	_ = lease.Commit(ctx)
	fmt.Println(lease.Consumed())
	// Output: tpd=620
}

// The work used more than a full bucket holds. The bucket is in debt, and refuses
// requests until the refill has repaid it.
func ExampleLease_Adjust() {
	ctx := context.Background()
	lim := exampleLimiter(limiter.PerMinute(limiter.TPM, 1_000))
	req := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.TPM, 500)}

	lease, err := lim.Acquire(ctx, req)
	if err != nil {
		log.Fatal(err)
	}
	_ = lease.Adjust(limiter.Tokens(limiter.TPM, 900)) // 1,400 instead of 500
	_ = lease.Commit(ctx)

	left, _ := lim.Available(ctx, "key-abc", "gpt-4")
	fmt.Println(left)
	_, err = lim.Acquire(ctx, req)
	fmt.Println(err)
	// Output:
	// tpm=-400
	// rate limit exceeded for key-abc/gpt-4: tpm (500 requested, 400 in debt); retry after 54s
}

// A stream takes its tokens in steps and stops when a limit refuses. The bucket
// never goes into debt.
func ExampleLease_Consume() {
	ctx := context.Background()
	lim := exampleLimiter(limiter.PerMinute(limiter.TPM, 1_000))

	lease, err := lim.Acquire(ctx, limiter.Request{
		Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.TPM, 400),
	})
	if err != nil {
		log.Fatal(err)
	}
	for {
		if err := lease.Consume(ctx, limiter.Tokens(limiter.TPM, 250)); err != nil {
			fmt.Println(err)
			break
		}
	}
	_ = lease.Commit(ctx)
	fmt.Println(lease.Consumed())
	// Output:
	// rate limit exceeded for key-abc/gpt-4: tpm (250 requested, 100 of 1000 left); retry after 9s
	// tpm=900
}

// A long stream stores its adjustments from time to time, so that other callers
// see them before it ends.
func ExampleLease_Flush() {
	ctx := context.Background()
	lim := exampleLimiter(limiter.PerMinute(limiter.TPM, 1_000))

	lease, err := lim.Acquire(ctx, limiter.Request{
		Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.TPM, 100),
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, soFar := range []int64{150, 300} {
		_ = lease.Used(limiter.TPM, soFar)
		_ = lease.Flush(ctx)
		left, _ := lim.Available(ctx, "key-abc", "gpt-4")
		fmt.Println(left)
	}
	_ = lease.Commit(ctx)
	// Output:
	// tpm=850
	// tpm=700
}
