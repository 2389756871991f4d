package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/llm"
)

// waitTimeout is how long a key that waits for tokens does so.
const waitTimeout = 4 * time.Second

// gateway serves calls as a real gateway does, but only simulates the work.
type gateway struct {
	lim    *limiter.RateLimiter
	prices llm.PriceFunc
	book   *book
	fail   context.CancelCauseFunc // ends the demo
	end    time.Time               // when calls stop to arrive
}

// run serves calls until g.end or the end of ctx, and returns when none is
// running. Calls that ctx ends give back their tokens.
func (g *gateway) run(ctx context.Context, t *traffic) {
	var underWay sync.WaitGroup
	defer underWay.Wait()

	for c := t.next(); g.book.start.Add(c.at).Before(g.end); c = t.next() {
		if pause.For(ctx, time.Until(g.book.start.Add(c.at))) != nil {
			return
		}
		underWay.Go(func() { g.serve(ctx, c) })
	}

	// The demo lasts until its end, even if the next call would arrive later.
	_ = pause.For(ctx, time.Until(g.end))
}

func (g *gateway) serve(ctx context.Context, c call) {
	price, err := g.prices(c.model, time.Now())
	if err != nil {
		g.fail(err)
		return
	}

	lease, err := g.acquire(ctx, c, costOf(price, c, c.estimate))
	if err != nil {
		g.notAdmitted(c, err)
		return
	}

	g.book.count(func(t *totals) { t.Admitted++; t.Working++ })
	defer g.book.count(func(t *totals) { t.Working-- })
	// Rollback does nothing after Commit.
	defer lease.Rollback(ctx)

	if pause.For(ctx, c.work) != nil || c.fails {
		g.book.count(func(t *totals) { t.RolledBack++ })
		g.book.note("failed", c, fmt.Sprintf("its %s tokens are rolled back", tty.Number(c.estimate)))
		return
	}

	if err := errors.Join(lease.Used(tpm, c.actual), lease.Used(spend, costOf(price, c, c.actual))); err != nil {
		g.fail(err)
	}

	if err := lease.Commit(ctx); err != nil {
		g.fail(err)
	}

	g.lookForDebt(ctx, c)
}

// acquire takes the estimated tokens and cost of a call, at once or after waiting.
func (g *gateway) acquire(ctx context.Context, c call, cost int64) (*limiter.Lease, error) {
	req := limiter.Request{
		Entity: c.key.id, Resource: c.model,
		Consume: limiter.Tokens(rpm, 1).And(tpm, c.estimate).And(spend, cost),
	}

	g.book.count(func(t *totals) { t.Calls++ })
	if !c.key.waits {
		return g.lim.Acquire(ctx, req)
	}

	g.book.count(func(t *totals) { t.Waiting++ })
	defer g.book.count(func(t *totals) { t.Waiting-- })
	begun := time.Now()
	until := begun.Add(waitTimeout)

	// A wait beyond the end would delay the summary.
	if until.After(g.end) {
		until = g.end
	}

	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	lease, err := g.lim.Wait(ctx, req)

	// A shorter time passes in the store itself, and is no wait.
	if waited := time.Since(begun); err == nil && waited >= 10*time.Millisecond {
		g.book.note("waited", c, fmt.Sprintf("admitted after %s", seconds(waited)))
	}
	return lease, err
}

// notAdmitted counts a refusal or a waiter that gave up. Any other error ends the
// demo.
func (g *gateway) notAdmitted(c call, err error) {
	// The error of a key that gave up wraps two: the end of its context, and the
	// refusal that it waited for.
	refusal, refused := errors.AsType[*limiter.ExceededError](err)
	if refused {
		g.book.refuse(refusal, time.Now())
	}

	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		g.book.count(func(t *totals) { t.GaveUp++ })
		if refused {
			g.book.note("gave up", c, "would wait "+wait(refusal.Decision.RetryAfter())+": "+reason(c.key.id, refusal))
		}
	case refused:
		g.book.count(func(t *totals) { t.Refused++ })
		g.book.note("refused", c, "wait "+wait(refusal.Decision.RetryAfter())+": "+reason(c.key.id, refusal))
	default:
		g.fail(err)
	}
}

// reason returns the limit with the longest wait, what the call needs of it and
// what it has. It names the entity if that is not the key itself.
func reason(key string, e *limiter.ExceededError) string {
	s := e.Decision.Primary()
	limit := s.Limit.Name

	has := "has " + short(limit, s.Available) + " of " + short(limit, s.Limit.Capacity)
	if s.Available < 0 {
		has = "owes " + short(limit, -s.Available)
	}

	if s.Entity != key {
		limit = s.Entity + " " + limit
	}
	return limit + " needs " + short(s.Limit.Name, s.Requested) + ", " + has
}

// lookForDebt records an event if a call with a low estimate left a bucket in
// debt.
func (g *gateway) lookForDebt(ctx context.Context, c call) {
	if c.actual <= c.estimate || ctx.Err() != nil {
		return
	}

	// A charge of 0 tokens exceeds only a limit in debt.
	d, err := g.lim.Explain(ctx, limiter.Request{Entity: c.key.id, Resource: c.model, Consume: limiter.Tokens(tpm, 0)})
	if err != nil {
		// The event is optional.
		return
	}

	if s := d.Primary(); s.Exceeded {
		g.book.note("debt", c, fmt.Sprintf("%s tokens, not %s: %s owes %s for %s",
			tty.Number(c.actual), tty.Number(c.estimate), s.Entity, tty.Number(-s.Available), seconds(s.RetryAfter)))
	}
}
