package cli

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/cli/tty"
)

// decisionShape is what came of a request, or would, as JSON.
type decisionShape struct {
	Entity     string           `json:"entity_id" doc:"who asks"`
	Resource   string           `json:"resource" doc:"for what"`
	Requested  map[string]int64 `json:"requested" doc:"tokens by limit"`
	Admitted   bool             `json:"admitted" doc:"whether every limit covers its amount"`
	RetryAfter float64          `json:"retry_after_seconds" doc:"until it may be admitted; 0 if it is, or never fits"`
	NeverFits  bool             `json:"never_fits" doc:"whether some amount is above its capacity, so that waiting does not help"`
	Reasons    []string         `json:"reasons" doc:"why it is refused, a sentence for each limit"`
	Limits     []statusShape    `json:"limits" doc:"every limit concerned, those of the entity, then those of its parent; see below"`
}

func decisionObject(req limiter.Request, d limiter.Decision) decisionShape {
	return decisionShape{
		req.Entity, req.Resource, maps.Collect(req.Consume.All()), d.Admitted(), retryAfter(d.RetryAfter(), d.NeverFits()), d.NeverFits(), reasons(d), statusObjects(d.Statuses),
	}
}

// retryAfter is when to retry, in seconds. What never fits is not worth a retry.
func retryAfter(wait time.Duration, neverFits bool) float64 {
	if neverFits {
		return 0
	}
	return seconds(wait)
}

// reasons are why a decision refuses, a sentence for each limit.
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
		return fmt.Sprintf("%s: %s asked for, but it never holds more than %s", what, tty.Number(s.Requested), tty.Number(s.Limit.Capacity))
	case s.Available < 0:
		return fmt.Sprintf("%s: %s asked for, but it is %s in debt; enough in %s", what, tty.Number(s.Requested), tty.Number(debt(s)), briefly(s.RetryAfter))
	}
	return fmt.Sprintf("%s: %s asked for, but %s of %s left; enough in %s", what, tty.Number(s.Requested), tty.Number(s.Available), tty.Number(s.Limit.Capacity), briefly(s.RetryAfter))
}

// decisionColumns show what each limit says to a request.
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
			if !names(req, s.Limit.Name) {
				amount, says = text(""), text("")
			}
			return []cell{text(s.Entity), text(s.Limit.Name), amount, available(c, s), number(s.Limit.Capacity), rate(s.Limit), says, source(s.Source)}
		},
	}
}

// names tells whether a request is about a limit.
func names(req limiter.Request, limit string) bool {
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
		return cell{people: "never fits", program: "never_fits"}.in(c.style.Red)
	case s.Exceeded:
		return cell{people: "in " + briefly(s.RetryAfter), program: "exceeded"}.in(c.style.Yellow)
	}
	return cell{people: "ok", program: "ok"}.in(c.style.Green)
}

// asked is a request in words: "rpm=1 tpm=500 of gpt-4".
func asked(req limiter.Request) string {
	var words []string
	for limit, n := range req.Consume.All() {
		words = append(words, fmt.Sprintf("%s=%d", limit, n))
	}
	if words == nil {
		return req.Resource
	}
	return strings.Join(words, " ") + " of " + req.Resource
}
