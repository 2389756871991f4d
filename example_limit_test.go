package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// A client takes all it can get for a minute. PerMinute holds 10,000 tokens and
// refills 10,000; Within admits at most 10,000.
func ExampleWithin() {
	for _, limit := range []limiter.Limit{
		limiter.PerMinute(limiter.TPM, 10_000),
		limiter.Within(limiter.TPM, 10_000, time.Minute),
		limiter.WithinBurst(limiter.TPM, 10_000, 4_000, time.Minute),
	} {
		now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		lim, _ := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return now }})
		_ = lim.SetSystemDefaults(context.Background(), limit)
		req, admitted := limiter.Request{
			Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens(limiter.TPM, 10),
		}, 0
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
	// tpm 10000/min admitted 19980
	// tpm 9000/min burst 1000 admitted 9980
	// tpm 6000/min burst 4000 admitted 9990
}

func ExampleParseLimit() {
	for _, text := range []string{
		"rpm:100", "tpm:10000/min:15000", "tpm:10000/min:within", "images:50/12hour", "rpm:many",
	} {
		limit, err := limiter.ParseLimit(text)
		if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
			fmt.Printf("invalid %s %q\n", bad.Field, bad.Value)
			continue
		}
		fmt.Println(limit)
	}
	// Output:
	// rpm 100/min
	// tpm 10000/min burst 15000
	// tpm 9000/min burst 1000
	// images 50/12hour
	// invalid limit "rpm:many"
}
