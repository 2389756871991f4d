// Command hierarchy lets the keys of a project share the limit of the project.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	lim, err := limiter.New(memory.New(nil), nil)
	if err != nil {
		return err
	}

	if err := configure(ctx, lim); err != nil {
		return err
	}

	fmt.Println("The project has 10 calls an hour. Its free keys have 6 each, and its premium key 9.")
	for _, key := range []string{"key-free", "key-other", "key-premium"} {
		if err := exhaust(ctx, lim, key); err != nil {
			return err
		}
	}
	return nil
}

// configure stores the limits, and a project with three keys. The limits of a
// resource apply to all who have none of their own: here to the free tier.
func configure(ctx context.Context, lim *limiter.RateLimiter) error {
	if _, err := lim.CreateEntity(ctx, limiter.Entity{ID: "project"}); err != nil {
		return err
	}

	for _, key := range []string{"key-free", "key-other", "key-premium"} {
		// A key that does not cascade is charged alone, whatever its parent.
		if _, err := lim.CreateEntity(ctx, limiter.Entity{ID: key, Parent: "project", Cascade: true}); err != nil {
			return err
		}
	}

	return errors.Join(
		lim.SetResourceDefaults(ctx, "search", limiter.PerHour("calls", 6)),
		lim.SetLimits(ctx, "key-premium", "search", limiter.PerHour("calls", 9)),
		lim.SetLimits(ctx, "project", "search", limiter.PerHour("calls", 10)),
	)
}

// exhaust calls until a limit refuses, and prints whose limit that was.
func exhaust(ctx context.Context, lim *limiter.RateLimiter, key string) error {
	for n := 0; ; n++ {
		lease, err := lim.Acquire(ctx, limiter.Request{
			Entity: key, Resource: "search", Consume: limiter.Tokens("calls", 1),
		})

		if refused, ok := errors.AsType[*limiter.ExceededError](err); ok {
			report(key, n, refused)
			return nil
		}
		if err != nil {
			return err
		}

		// The lease has no corrections, so there is nothing to store.
		if err := lease.Commit(ctx); err != nil {
			return err
		}
	}
}

// report prints the limits of the key and of its project, and the message for the
// client, which names no other entity.
func report(key string, admitted int, refused *limiter.ExceededError) {
	fmt.Printf("\n%s made %d calls and was refused by the limit of %s:\n", key, admitted,
		refused.Decision.Primary().Entity)

	for _, s := range refused.Decision.Statuses {
		fmt.Printf("  %-11s has %d of %d left (limit of the level %q)\n", s.Entity, s.Available, s.Limit.Capacity,
			s.Source)
	}
	fmt.Printf("  the client reads: %s\n", refused.Public().Message)
}
