package docs_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// A job that waits at most two seconds for its turn.
func Example_wait() {
	lim, _ := inMemory(limiter.PerHour("jobs", 1))
	ctx := context.Background()
	check(wait(ctx, lim))
	check(wait(ctx, lim))
	// Output:
	// done
	// no room within 2 s, retry after 1h0m0s
}

func wait(ctx context.Context, lim *limiter.RateLimiter) error {
	//docs:wait
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()

	lease, err := lim.Wait(ctx, limiter.Request{
		Entity: "worker", Resource: "reports", Consume: limiter.Tokens("jobs", 1),
	})
	var refused *limiter.ExceededError
	switch {
	case errors.As(err, &refused) && errors.Is(err, context.DeadlineExceeded):
		fmt.Println("no room within 2 s, retry after", refused.Decision.RetryAfter().Round(time.Second))
		return nil
	case err != nil:
		return err
	}
	defer lease.Rollback(ctx)
	fmt.Println("done") // the work
	return lease.Commit(ctx)
	//docs:end
}

// How long until a request would fit.
func Example_timeUntil() {
	ctx := context.Background()
	lim, _ := inMemory(limiter.PerMinute("tpm", 6_000))
	req := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("tpm", 6_000)}
	_, err := lim.Acquire(ctx, req)
	check(err)
	//docs:until
	req.Consume = limiter.Tokens("tpm", 1_000)
	wait, err := lim.TimeUntil(ctx, req)
	fmt.Println(wait, err)

	req.Consume = limiter.Tokens("tpm", 7_000)
	_, err = lim.TimeUntil(ctx, req)
	fmt.Println(errors.Is(err, limiter.ErrNeverFits))
	//docs:end
	// Output:
	// 10.001s <nil>
	// true
}

// A store that is down, under both modes.
func Example_outage() {
	ctx := context.Background()
	repo := repotest.NewFaulty(memory.New(nil), func(string) repotest.Fault { return repotest.Before })
	req := limiter.Request{Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1)}
	closed, err := limiter.New(repo, nil)
	check(err)
	_, err = closed.Acquire(ctx, req)
	fmt.Println(err)
	check(open(ctx, repo, req))
	// Output:
	// acquire: store unavailable [entity=key-abc, resource=gpt-4]: Consume: injected fault
	// not counted: acquire: store unavailable [entity=key-abc, resource=gpt-4]: Consume: injected fault
}

func open(ctx context.Context, repo limiter.Repository, req limiter.Request) error {
	//docs:outage
	lim, err := limiter.New(repo, &limiter.Options{OnUnavailable: limiter.Allow})
	if err != nil {
		return err
	}
	err = lim.Do(ctx, req, func(_ context.Context, lease *limiter.Lease) error {
		if outage := lease.Outage(); outage != nil {
			fmt.Println("not counted:", outage)
		}
		return nil // the work
	})
	//docs:end
	return err
}

// The mode of one call.
func Example_outageOfOneCall() {
	ctx := context.Background()
	repo := repotest.NewFaulty(memory.New(nil), func(string) repotest.Fault { return repotest.Before })
	lim, err := limiter.New(repo, &limiter.Options{OnUnavailable: limiter.Allow})
	check(err)
	//docs:mode
	_, err = lim.Acquire(ctx, limiter.Request{
		Entity: "key-abc", Resource: "payments", Consume: limiter.Tokens("rpm", 1),
		OnUnavailable: limiter.Block, // whatever the limiter and the store say
	})
	var outage *limiter.UnavailableError
	fmt.Println(errors.As(err, &outage))
	//docs:end
	// Output: true
}

// Escrow answers most calls of a busy key without the store.
func Example_escrow() {
	ctx := context.Background()
	repo := memory.New(nil)
	//docs:escrow
	held := escrow.New(repo, nil)
	lim, err := limiter.New(held, &limiter.Options{Limits: []limiter.Limit{limiter.PerMinute("rpm", 600_000)}})
	//docs:end
	check(err)
	for range 10_000 {
		lease, err := lim.Acquire(ctx, limiter.Request{
			Entity: "key-abc", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1),
		})
		check(err)
		check(lease.Commit(ctx))
	}
	//docs:stats
	stats := held.Stats()
	fmt.Println(stats.AdmittedLocally > 9_000, stats.Requests < 1_000)
	err = held.Close() // returns what is held
	//docs:end
	check(err)
	// Output: true true
}
