package repotest

import (
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func aheadChecks() []check {
	return []check{
		{"a bucket reports how far its time is ahead", aheadSaid},
		{"a wait begins at the bucket's time", aheadRetry},
		{"a wait for an override begins at the bucket's time", aheadOverride},
		{"a wait for a parent begins at its bucket's time", aheadParent},
		{"a full bucket is full at any time", aheadFull},
		{"a call after RetryAfter is admitted", aheadComesTrue},
	}
}

// ahead is the error of one client's clock.
const ahead = 6 * time.Hour

// limiter returns a limiter whose clock stands still at d.
func (f *fixture) limiter(d time.Duration) *limiter.RateLimiter {
	f.Helper()
	lim, err := limiter.New(f.repo, &limiter.Options{Now: func() time.Time { return at(d) }})
	f.ok("New", err)
	return lim
}

// refusal returns the decision on a request that must be refused.
func (f *fixture) refusal(d time.Duration, req limiter.Request) limiter.Decision {
	f.Helper()
	_, err := f.limiter(d).Acquire(f.ctx, req)
	refused, ok := errors.AsType[*limiter.ExceededError](err)
	if !ok {
		f.Fatalf("Acquire: %v, want a refusal", err)
	}
	return refused.Decision
}

// request returns a request of key-1.
func request(consume limiter.Amounts, limits ...limiter.Limit) limiter.Request {
	return limiter.Request{Entity: "key-1", Resource: model, Consume: consume, Limits: limits}
}

func aheadSaid(f *fixture) {
	f.setDefaults(perMinute60)
	f.equal("a new bucket", f.take(ahead, ask("key-1", rpm(50)), 10_000).Payers[0].Ahead, time.Duration(0))

	// A caller that is behind the bucket gets no refill, and hears how far it
	// is behind its own time.
	f.equal("a charge", f.take(0, ask("key-1", rpm(4)), 6_000).Payers[0].Ahead, ahead)
	f.equal("a refusal", f.refuse(time.Hour, ask("key-1", rpm(7)), 6_000).Payers[0].Ahead, ahead-time.Hour)
	f.equal("a look", f.peek(ms(1), ask("key-1", rpm(7))).Payers[0].Ahead, ahead-ms(1))
	f.equal("a listing", first(f, "Buckets", f.buckets(ms(2), limiter.Scope{Entity: "key-1"})).Ahead, ahead-ms(2))

	// One millisecond after the bucket's own time, one thousandth has been
	// refilled.
	f.equal("when time has caught up", f.take(ahead+ms(1), ask("key-1", rpm(0)), 6_001).Payers[0].Ahead,
		time.Duration(0))
}

func aheadRetry(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(ahead, ask("key-1", rpm(60)), 0)

	// A wait is a millisecond longer than the refill takes, so that it covers
	// the deficit wherever the refill began.
	const wait, full = ahead + 3001*time.Millisecond, ahead + 60_001*time.Millisecond
	req := request(rpm(3))
	f.equal("RetryAfter of a refusal", f.refusal(0, req).RetryAfter(), wait)
	f.equal("RetryAfter as time goes by", f.refusal(ahead-ms(1), req).RetryAfter(), ms(3002))

	explained, err := f.limiter(0).Explain(f.ctx, req)
	f.ok("Explain", err)
	f.equal("RetryAfter of an explanation", explained.RetryAfter(), wait)
	f.equal("FullAfter of an explanation", explained.Primary().FullAfter, full)

	until, err := f.limiter(0).TimeUntil(f.ctx, req)
	f.ok("TimeUntil", err)
	f.equal("TimeUntil", until, wait)

	statuses, err := f.limiter(0).Status(f.ctx, "key-1")
	f.ok("Status", err)
	f.equal("FullAfter of a status", first(f, "Status", statuses).FullAfter, full)

	total, err := f.limiter(0).Capacity(f.ctx, limiter.CapacityQuery{Resource: model, Limit: "rpm"})
	f.ok("Capacity", err)
	f.equal("FullAfter of a capacity", first(f, "Capacity", total.Entities).FullAfter, full)
}

func aheadOverride(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(ahead, ask("key-1", rpm(60)), 0)

	// The override refills half a token a second, so 3 tokens take 6 s.
	req := request(rpm(3), limiter.PerMinute("rpm", 30))
	f.equal("RetryAfter", f.refusal(0, req).RetryAfter(), ahead+ms(6001))
}

func aheadParent(f *fixture) {
	f.setDefaults(perMinute60)
	f.createCascading("key-1", "team")
	f.take(ahead, ask("team", rpm(60)), 0)

	d := f.refusal(0, request(rpm(3)))
	f.equal("whose bucket lacks something", d.Primary().Entity, "team")
	f.equal("RetryAfter", d.RetryAfter(), ahead+ms(3001))
}

func aheadFull(f *fixture) {
	f.setDefaults(perMinute60)
	f.take(ahead, ask("key-1", rpm(0)), 60_000)
	statuses, err := f.limiter(0).Status(f.ctx, "key-1")
	f.ok("Status", err)
	f.equal("FullAfter", first(f, "Status", statuses).FullAfter, time.Duration(0))
}

// aheadComesTrue has a rate that does not divide evenly: a thousandth takes
// 8.6 ms, so the wait may be too long by that much.
func aheadComesTrue(f *fixture) {
	f.setDefaults(limiter.Custom("rpm", 10, 7, time.Minute))
	f.take(ahead, ask("key-1", rpm(10)), 0)

	req := request(rpm(1))
	wait := f.refusal(ms(7), req).RetryAfter()

	// At most 8.6 ms of the wait are for a part of a thousandth, and 1 ms is
	// the margin of every wait, so 11 ms less are too short.
	f.refusal(ms(7)+wait-ms(11), req)
	_, err := f.limiter(ms(7)+wait).Acquire(f.ctx, req)
	f.ok("Acquire", err)
}
