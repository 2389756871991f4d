// Command python-and-go charges the same table as service.py does in Python.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

func main() {
	table := flag.String("table", "shared", "the `name` of the table, which is created if it does not exist")
	flag.Parse()

	if err := run(context.Background(), *table); err != nil {
		log.Fatal(err)
	}
}

// run takes 4 of 10 calls an hour. The SDK reads the region, the credentials and
// the endpoint from the environment, as it does in Python.
func run(ctx context.Context, table string) error {
	// An engine on a laptop may need a while to wake up.
	opts := &dynamo.Options{Timeout: 30 * time.Second}

	if err := dynamo.CreateTable(ctx, table, opts); err != nil {
		return err
	}

	repo, err := dynamo.Connect(ctx, table, opts)
	if err != nil {
		return err
	}
	defer func() { _ = repo.Close() }()

	lim, err := limiter.New(repo, nil)
	if err != nil {
		return err
	}

	if err := lim.SetResourceDefaults(ctx, "search", limiter.PerHour("calls", 10)); err != nil {
		return err
	}

	err = lim.Do(ctx, limiter.Request{Entity: "alice", Resource: "search", Consume: limiter.Tokens("calls", 4)},
		func(_ context.Context, lease *limiter.Lease) error {
			fmt.Printf("Go:     took 4 calls, %d left\n", lease.Decision().Statuses[0].Available)
			return nil
		})

	// A refusal is an answer, and no failure of the program.
	if refused, ok := errors.AsType[*limiter.ExceededError](err); ok {
		fmt.Printf("Go:     refused: %d calls left, retry after %ss\n", refused.Decision.Primary().Available,
			refused.RetryAfterHeader())
		return nil
	}
	return err
}
