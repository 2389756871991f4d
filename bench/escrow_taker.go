package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/escrow"
)

// takerCommand is the first argument of a process that takes from a bucket at a
// steady pace, through an escrow of its own. The second is a takerTask as JSON.
const takerCommand = "-escrow-taker"

// takerTask says what a process does. Times are in nanoseconds.
type takerTask struct {
	Endpoint, Entity, Resource string
	First                      time.Duration // time of the first call after the start
	Period                     time.Duration // between two calls
	Span                       time.Duration // after which no call begins
}

// taken is the outcome of a taker, or the sum of several.
type taken struct {
	Asked, Admitted, Refused int
	Requests                 int64 // to the table, returns included
}

// serveTaker connects, prints a line, waits for a line, makes the calls and
// prints a taken as JSON. The end of in before that stops it.
func serveTaker(ctx context.Context, task string, in io.Reader, out io.Writer) (err error) {
	var t takerTask
	if err := json.Unmarshal([]byte(task), &t); err != nil {
		return err
	}

	cfg := awsConfig()
	table, err := dynamo.Connect(ctx, benchTable, &dynamo.Options{Endpoint: t.Endpoint, AWS: &cfg, Timeout: patience})
	if err != nil {
		return err
	}

	held := escrow.New(table, nil)                          //nolint:contextcheck // it works until Close
	defer func() { err = errors.Join(err, held.Close()) }() //nolint:contextcheck // Close takes none
	lim, err := limiter.New(held, nil)
	if err != nil {
		return err
	}

	// No process calls before all of them are ready.
	fmt.Fprintln(out, "ready")
	lines := bufio.NewReader(in)
	if _, err := lines.ReadString('\n'); err != nil {
		return fmt.Errorf("no line to start: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _, _ = io.Copy(io.Discard, lines); cancel() }()

	// Requests up to here belong to the connection and not to the calls.
	before := table.Stats().Requests
	got, err := t.run(ctx, lim)
	if err != nil {
		return err
	}

	got.Requests = table.Stats().Requests - before
	return json.NewEncoder(out).Encode(got)
}

// run makes the calls, each at its time however long earlier ones take.
func (t *takerTask) run(ctx context.Context, lim *limiter.RateLimiter) (got taken, err error) {
	var mu sync.Mutex
	var calls sync.WaitGroup
	var errs []error
	request := limiter.Request{Entity: t.Entity, Resource: t.Resource, Consume: limiter.Tokens("rpm", 1)}

	begin := time.Now()
	for at := t.First; at < t.Span; at += t.Period {
		select {
		case <-time.After(at - time.Since(begin)):
		case <-ctx.Done():
			return got, ctx.Err()
		}

		got.Asked++
		calls.Go(func() {
			admitted, err := tryTake(ctx, lim, request)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, err)
			case admitted:
				got.Admitted++
			default:
				got.Refused++
			}
		})
	}

	calls.Wait()
	return got, errors.Join(errs...)
}

// tryTake acquires and commits, and reports whether that was admitted.
func tryTake(ctx context.Context, lim *limiter.RateLimiter, request limiter.Request) (bool, error) {
	lease, err := lim.Acquire(ctx, request)
	// A refusal is one of the outcomes to count and no failure.
	if _, refused := errors.AsType[*limiter.ExceededError](err); refused {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, lease.Commit(ctx)
}
