// Command worker-queue works through jobs at the rate that a limit allows.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// job is a request to an API that allows 4 pages at once and 10 pages a second, and
// 100 rows an hour.
type job struct {
	resource string
	amounts  limiter.Amounts
	deadline time.Duration // how long its result is of use
}

func pages(n int64, deadline time.Duration) job {
	return job{"pages", limiter.Tokens("pages", n), deadline}
}

func rows(n int64, deadline time.Duration) job {
	return job{"rows", limiter.Tokens("rows", n), deadline}
}

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

	err = errors.Join(
		lim.SetResourceDefaults(ctx, "pages", limiter.PerSecond("pages", 10).WithBurst(4)),
		lim.SetResourceDefaults(ctx, "rows", limiter.PerHour("rows", 100)),
	)
	if err != nil {
		return err
	}

	fmt.Println("The import of the night, 90 of 100 rows:", do(ctx, lim, rows(90, time.Minute)))

	jobs := []job{
		pages(1, time.Minute), pages(4, time.Minute), pages(4, time.Minute), rows(60, 2*time.Minute),
		rows(500, time.Hour),
	}

	fmt.Println("Three workers take five jobs from a queue. Each job waits for its tokens, until its deadline:")
	for i, line := range work(ctx, lim, jobs) {
		fmt.Printf("  job %d (%v, of use for %v): %s\n", i+1, jobs[i].amounts, jobs[i].deadline, line)
	}
	return nil
}

// work runs the jobs in three workers and returns what became of each.
func work(ctx context.Context, lim *limiter.RateLimiter, jobs []job) []string {
	results, queue := make([]string, len(jobs)), make(chan int)

	var workers sync.WaitGroup

	// Each job has a result of its own, so the workers need no lock.
	for range 3 {
		workers.Go(func() {
			for i := range queue {
				results[i] = do(ctx, lim, jobs[i])
			}
		})
	}

	for i := range jobs {
		queue <- i
	}
	close(queue)
	workers.Wait()
	return results
}

// do waits for the tokens of a job and works. Wait returns at once where waiting
// cannot help.
func do(ctx context.Context, lim *limiter.RateLimiter, j job) string {
	ctx, cancel := context.WithTimeout(ctx, j.deadline)
	defer cancel()

	began := time.Now()

	lease, err := lim.Wait(ctx, limiter.Request{Entity: "crawler", Resource: j.resource, Consume: j.amounts})
	waited := time.Since(began).Round(time.Millisecond)

	var refused *limiter.ExceededError

	switch {
	case errors.Is(err, limiter.ErrNeverFits):
		return fmt.Sprintf("skipped after %v: it can never fit", waited)
	// Wait ends at once if the tokens come after the deadline, and its error
	// has the refusal.
	case errors.Is(err, context.DeadlineExceeded) && errors.As(err, &refused):
		return fmt.Sprintf("skipped after %v: its tokens come in %v, too late", waited,
			refused.Decision.RetryAfter().Round(time.Second))
	case err != nil:
		return err.Error()
	}

	// After Commit this does nothing.
	defer func() { _ = lease.Rollback(ctx) }()

	if err := lease.Commit(ctx); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("done after %v", waited)
}
