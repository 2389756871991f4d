package httplimit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// newRefusal returns the answer to a refused request. Of the parent, it names the
// exceeded limits and nothing else.
func newRefusal(err *limiter.ExceededError) *Problem {
	d := err.Decision
	p := &Problem{Type: TypeQuotaExceeded, Title: "Quota exceeded", Status: http.StatusTooManyRequests}

	if seconds, _ := strconv.ParseInt(err.RetryAfterHeader(), 10, 32); seconds > 0 {
		p.RetryAfter = time.Duration(seconds) * time.Second
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

		// The entity and its parent may both have the limit.
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
		p.Detail += "; retry after " + figure.Wait(time.Duration(ceilSeconds(p.RetryAfter))*time.Second)
	}
	return p
}

func newLimitState(s *limiter.Status) LimitState {
	state := LimitState{
		Name: s.Limit.Name, Capacity: s.Limit.Capacity, Refill: s.Limit.Refill,
		Seconds: int64(s.Limit.Period / time.Second),
		Window:  s.Limit.Window.String(), Zone: s.Limit.Zone, Available: s.Available, Requested: s.Requested,
		Exceeded: s.Exceeded,
	}

	if s.Limit.IsMoney() {
		dollars := func(n int64) json.Number { return json.Number(figure.Decimal(n)) }
		state.Dollars = &StateDollars{
			dollars(state.Capacity), dollars(state.Refill), dollars(state.Available), dollars(state.Requested),
		}
	}
	return state
}

// describeExceeded describes an exceeded limit of the entity itself.
func describeExceeded(s *limiter.Status) string {
	amount := func(n int64) string { return figure.Amount(s.Limit.Name, n) }

	if s.NeverFits {
		return fmt.Sprintf("%s: the request needs %s, above the capacity of %s", s.Limit.Name, amount(s.Requested),
			amount(s.Limit.Capacity))
	}

	// An amount of 0 is refused only by a debt.
	if s.Requested == 0 && s.Available < 0 {
		return fmt.Sprintf("%s: the limit is in debt by %s", s.Limit.Name, amount(-s.Available))
	}

	return fmt.Sprintf("%s: the request needs %s, and %s are available", s.Limit.Name, amount(s.Requested),
		amount(max(s.Available, 0)))
}

// describeShared describes an exceeded limit of the parent, without its numbers.
func describeShared(s *limiter.Status) string {
	if s.NeverFits {
		return s.Limit.Name + ": the request is above a capacity that others share"
	}
	return s.Limit.Name + ": a limit that others share is exceeded"
}
