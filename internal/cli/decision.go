package cli

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// decisionJSON is the decision about a request as JSON.
type decisionJSON struct {
	Entity     string           `json:"entity_id" doc:"requesting entity"`
	Resource   string           `json:"resource" doc:"requested resource"`
	Requested  map[string]int64 `json:"requested" doc:"requested tokens by limit"`
	Admitted   bool             `json:"admitted" doc:"whether every limit covers its amount"`
	RetryAfter float64          `json:"retry_after_seconds" doc:"wait before a retry can succeed; 0 if admitted or if it never fits"`
	NeverFits  bool             `json:"never_fits" doc:"whether an amount exceeds its capacity, so that waiting does not help"`
	Reasons    []string         `json:"reasons" doc:"why the request is refused, a sentence for each limit"`
	Limits     []statusJSON     `json:"limits" doc:"limits of the entity, then of its parent; see below"`
}

func newDecisionJSON(req limiter.Request, d limiter.Decision) decisionJSON {
	return decisionJSON{
		req.Entity, req.Resource, maps.Collect(req.Consume.All()), d.Admitted(), retryAfter(d.RetryAfter(), d.NeverFits()), d.NeverFits(), reasons(d), newStatusesJSON(d.Statuses),
	}
}

// retryAfter returns the wait before a retry in seconds, 0 if the request never
// fits.
func retryAfter(wait time.Duration, neverFits bool) float64 {
	if neverFits {
		return 0
	}
	return seconds(wait)
}

// reasons returns why a request is refused, a sentence for each limit.
func reasons(d limiter.Decision) []string {
	all := []string{}
	for _, s := range d.Violations() {
		all = append(all, reason(s))
	}
	return all
}

func reason(s limiter.Status) string {
	what := printable(s.Limit.Name) + " of " + printable(s.Entity)
	switch {
	case s.NeverFits:
		return fmt.Sprintf("%s: %s requested, above its capacity of %s", what, tty.Number(s.Requested), tty.Number(s.Limit.Capacity))
	case s.Available < 0:
		return fmt.Sprintf("%s: %s requested, but it is %s in debt; retry in %s", what, tty.Number(s.Requested), tty.Number(debt(s)), shortDuration(s.RetryAfter))
	}
	return fmt.Sprintf("%s: %s requested, %s of %s left; retry in %s", what, tty.Number(s.Requested), tty.Number(s.Available), tty.Number(s.Limit.Capacity), shortDuration(s.RetryAfter))
}

// decisionColumns are the columns of acquire and explain, a row for each limit.
var decisionColumns = []column{
	{title: "entity"},
	{title: "limit"},
	{title: "asked", right: true},
	{title: "available", right: true},
	{title: "capacity", right: true},
	{title: "refill", right: true, spare: true},
	{title: "verdict", whole: true},
	{title: "source"},
}

func decisionListing(c *console, req limiter.Request) listing[limiter.Status] {
	return listing[limiter.Status]{
		columns: decisionColumns,
		row: func(s limiter.Status) []cell {
			amount, says := number(s.Requested), verdict(c, s)
			if !requestsLimit(req, s.Limit.Name) {
				amount, says = text(""), text("")
			}
			return []cell{text(s.Entity), text(s.Limit.Name), amount, available(c, s), number(s.Limit.Capacity), rate(s.Limit), says, source(s.Source)}
		},
	}
}

// requestsLimit reports whether a request names a limit.
func requestsLimit(req limiter.Request, limit string) bool {
	for name := range req.Consume.All() {
		if name == limit {
			return true
		}
	}
	return false
}

func verdict(c *console, s limiter.Status) cell {
	switch {
	case s.NeverFits:
		return cell{display: "never fits", plain: "never_fits"}.withColour(c.style.Red)
	case s.Exceeded:
		return cell{display: "in " + shortDuration(s.RetryAfter), plain: "exceeded"}.withColour(c.style.Yellow)
	}
	return cell{display: "ok", plain: "ok"}.withColour(c.style.Green)
}

// requestText returns a request in words: "rpm=1 tpm=500 of gpt-4".
func requestText(req limiter.Request) string {
	var words []string
	for limit, n := range req.Consume.All() {
		words = append(words, fmt.Sprintf("%s=%d", limit, n))
	}
	if words == nil {
		return req.Resource
	}
	return strings.Join(words, " ") + " of " + req.Resource
}
