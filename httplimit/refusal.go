package httplimit

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// newRefusal returns the answer to a refused request. Of the parent, it names the
// exceeded limits and nothing else.
func newRefusal(err *limiter.ExceededError) *Problem {
	d := err.Decision
	p := &Problem{Type: TypeQuotaExceeded, Title: "Quota exceeded", Status: http.StatusTooManyRequests}
	if !d.NeverFits() {
		p.RetryAfter = max(d.RetryAfter(), time.Millisecond)
	}
	own := ownLimits(d)
	for i := range own {
		p.Limits = append(p.Limits, newLimitState(&own[i]))
	}
	var reasons []string
	for i := range d.Statuses {
		s := &d.Statuses[i]
		if !s.Exceeded {
			continue
		}
		if !slices.Contains(p.ViolatedPolicies, s.Limit.Name) {
			p.ViolatedPolicies = append(p.ViolatedPolicies, s.Limit.Name)
		}
		if s.Entity == d.Statuses[0].Entity {
			reasons = append(reasons, describeExceeded(s))
		} else {
			reasons = append(reasons, describeShared(s))
		}
	}
	p.Detail = strings.Join(reasons, "; ")
	if p.RetryAfter > 0 {
		p.Detail += fmt.Sprintf("; retry after %d s", ceilSeconds(p.RetryAfter))
	}
	return p
}

func newLimitState(s *limiter.Status) LimitState {
	return LimitState{
		Name: s.Limit.Name, Capacity: s.Limit.Capacity, Refill: s.Limit.Refill, Seconds: int64(s.Limit.Period / time.Second),
		Window: s.Limit.Window.String(), Zone: s.Limit.Zone, Available: s.Available, Requested: s.Requested, Exceeded: s.Exceeded,
	}
}

// describeExceeded describes an exceeded limit of the entity itself.
func describeExceeded(s *limiter.Status) string {
	if s.NeverFits {
		return fmt.Sprintf("%s: the request needs %d, above the capacity of %d", s.Limit.Name, s.Requested, s.Limit.Capacity)
	}
	if s.Requested == 0 && s.Available < 0 {
		return fmt.Sprintf("%s: the limit is in debt by %d", s.Limit.Name, -s.Available)
	}
	return fmt.Sprintf("%s: the request needs %d, and %d are available", s.Limit.Name, s.Requested, max(s.Available, 0))
}

// describeShared describes an exceeded limit of the parent, without its numbers.
func describeShared(s *limiter.Status) string {
	if s.NeverFits {
		return s.Limit.Name + ": the request is above a capacity that others share"
	}
	return s.Limit.Name + ": a limit that others share is exceeded"
}
