// Command first-refusal calls a model until a limit refuses.
//
//docs:main
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	repo, err := sqlite.Open(ctx, "limits.db", nil)
	if err != nil {
		return err
	}
	defer func() { _ = repo.Close() }()
	lim, err := limiter.New(repo, &limiter.Options{
		Limits: []limiter.Limit{limiter.PerHour("rph", 3), limiter.PerHour("tph", 1_500)},
	})
	if err != nil {
		return err
	}
	req := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("rph", 1).And("tph", 500)}
	for i := range 4 {
		err := lim.Do(ctx, req, func(_ context.Context, lease *limiter.Lease) error {
			err := lease.Used("tph", 380) // call the model here: it used 380 tokens instead of 500
			fmt.Printf("call %d: admitted, used %v\n", i+1, lease.Consumed())
			return err
		})
		if refused, ok := errors.AsType[*limiter.ExceededError](err); ok {
			fmt.Printf("call %d: refused, retry in %v\n", i+1, refused.Decision.RetryAfter().Round(time.Minute))
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

//docs:end
