package httplimit

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// MaxRetryAfter bounds the time for which a [Transport] honours a Retry-After.
const MaxRetryAfter = 5 * time.Minute

// RetryAfterError reports that a server asked for no further request before a
// time. Nothing was sent.
type RetryAfterError struct {
	Host  string // the server
	Until time.Time
}

// Error names the server and the time.
func (e *RetryAfterError) Error() string {
	return fmt.Sprintf("%s asked for no request before %s", e.Host, e.Until.UTC().Format(time.RFC3339))
}

// pauseKey identifies the calls that a Retry-After stops. Another key of the same
// server may have room left, and so may another server.
type pauseKey struct{ host, entity, resource string }

// pauses holds the times until which servers want no calls.
type pauses struct {
	mu    sync.Mutex
	until map[pauseKey]time.Time
	sweep int // number of entries at which the old ones are dropped
}

// record stores the Retry-After of an answer with status 429 or 503.
func (p *pauses) record(key pauseKey, resp *http.Response, now time.Time) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return
	}

	wait := parseRetryAfter(resp.Header, now)
	if wait <= 0 {
		return
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	// An earlier answer may have asked for a longer pause.
	if until := now.Add(wait); until.After(p.until[key]) {
		p.dropOld(now)
		p.until[key] = until
	}
}

// dropOld makes room for another entry. Each entry is looked at a bounded number
// of times, because the threshold doubles with what is left.
func (p *pauses) dropOld(now time.Time) {
	const few = 64
	if p.until == nil {
		p.until, p.sweep = map[pauseKey]time.Time{}, few
	}
	if len(p.until) < p.sweep {
		return
	}

	for key, until := range p.until {
		if !until.After(now) {
			delete(p.until, key)
		}
	}
	p.sweep = max(few, 2*len(p.until))
}

// end returns the time until which key is paused, or the zero time.
func (p *pauses) end(key pauseKey, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()

	if until := p.until[key]; until.After(now) {
		return until
	}
	return time.Time{}
}

// await blocks until key is not paused. It fails at once if the pause ends after the
// deadline of ctx, or if failFast is set and there is a pause.
func (p *pauses) await(ctx context.Context, key pauseKey, failFast bool) error {
	for {
		until := p.end(key, time.Now())
		if until.IsZero() {
			return nil
		}

		refusal := &RetryAfterError{key.host, until}
		if failFast {
			return refusal
		}

		if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
			return fmt.Errorf("%w: %w", refusal, context.DeadlineExceeded)
		}

		// Another answer may prolong the pause in the meantime, so it is looked
		// up again after the wait.
		timer := time.NewTimer(time.Until(until))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", refusal, ctx.Err())
		}
	}
}

// parseRetryAfter returns the wait that a response asks for, at most
// MaxRetryAfter, or 0. A date counts from the date of the response, so that the
// clocks need not agree.
func parseRetryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}

	// ParseInt fails only for numbers that are too large.
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(MaxRetryAfter/time.Second) {
			return MaxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}

	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}

	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}

	return min(max(until.Sub(now), 0), MaxRetryAfter)
}
