package llm

import (
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// SpendError reports that a limit of cost does not cover the reservation of a
// call. It wraps the *limiter.ExceededError.
type SpendError struct {
	// MaxOutput is the largest maximum of an answer that would fit now, or 0 if none
	// does. Field names the field of the request that sets it.
	MaxOutput int64
	Field     string
	// RetryAfter is the time after which open calls may have given back what is
	// missing: 1 to 5 seconds, or longer if another limit needs longer. It is 0 if
	// they do not hold enough: the money is spent, and only time brings more.
	RetryAfter time.Duration

	refusal *limiter.ExceededError
}

// Error describes the refusal, and names the maximum that fits and the time after
// which open calls may have given money back.
func (e *SpendError) Error() string {
	text := e.refusal.Error()
	if e.MaxOutput > 0 {
		text += fmt.Sprintf("; a %s of %d fits", e.Field, e.MaxOutput)
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf("; open calls hold what is missing, so retry after %.0fs", e.RetryAfter.Seconds())
	}
	return text
}

// Unwrap returns the *limiter.ExceededError.
func (e *SpendError) Unwrap() error { return e.refusal }

const (
	shortestRetry = time.Second
	longestRetry  = 5 * time.Second
)

// spendError returns a refusal with what the caller can do about it, if an enforced
// limit of cost is exceeded.
func (l *Limiter) spendError(refusal *limiter.ExceededError, lease *Lease) error {
	left, exceeded := l.tightest(refusal.Decision)
	if !exceeded {
		return refusal
	}

	return &SpendError{
		MaxOutput: lease.reserved.fits(lease.request, lease.price, left), Field: lease.request.MaximumField(),
		RetryAfter: l.retryAfter(refusal.Decision), refusal: refusal,
	}
}

// tightest returns the least that an enforced limit of cost has left, and reports
// whether one is exceeded.
func (l *Limiter) tightest(d limiter.Decision) (left int64, exceeded bool) {
	first := true
	for i := range d.Statuses {
		s := &d.Statuses[i]
		if s.Limit.Name != l.limits.Cost || s.Limit.IsShadow {
			continue
		}

		if first || s.Available < left {
			left, first = s.Available, false
		}
		exceeded = exceeded || s.Exceeded
	}
	return left, exceeded
}

// retryAfter returns when open calls may have given back what a refused call
// lacks, or 0 if they do not hold it. The wait grows with the part of their money
// that is needed: it is 3 seconds for half of it.
func (l *Limiter) retryAfter(d limiter.Decision) time.Duration {
	wait := shortestRetry
	for _, s := range d.Violations() {
		// No call that ends makes the budget larger.
		if s.NeverFits {
			return 0
		}

		if s.Limit.Name != l.limits.Cost {
			wait = max(wait, s.RetryAfter)
			continue
		}

		p, ok := l.purses.get(bucketID{s.Entity, s.Resource})
		if !ok {
			return 0
		}
		p.mu.Lock()
		held := p.reserved
		p.mu.Unlock()

		lacks := s.Deficit()
		// What open calls do not hold is spent, and only time brings more.
		if lacks > held || held <= 0 {
			return 0
		}
		wait = max(wait, shortestRetry+time.Duration(float64(longestRetry-shortestRetry)*float64(lacks)/float64(held)))
	}
	return wait
}
