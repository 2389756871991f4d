package cli

import (
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// decisionColumns are the columns of acquire and explain, a row for each limit.
var decisionColumns = append([]column{
	{title: "entity"},
	{title: "limit"},
	{title: "asked", right: true},
	{title: "available", right: true},
	{title: "capacity", right: true},
	{title: "refill", right: true, spare: true},
	{title: "verdict", whole: true},
	{title: "source"},
}, kindColumns...)

func decisionListing(c *console, req limiter.Request) listing[limiter.Status] {
	return listing[limiter.Status]{
		columns: decisionColumns,
		row: func(s limiter.Status) []cell {
			asked, says := amount(s.Limit.Name, s.Requested), verdict(c, s)
			// The row of a limit that the request does not name informs, and
			// judges nothing.
			if !requestsLimit(req, s.Limit.Name) {
				asked, says = text(""), text("")
			}

			row := []cell{
				text(s.Entity), text(s.Limit.Name), asked, available(c, s),
				amount(s.Limit.Name, s.Limit.Capacity), rate(s.Limit), says, source(s.Source),
			}
			return append(row, kindCells(s)...)
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
	case s.WouldRefuse:
		return cell{display: "would refuse", plain: "would_refuse"}.withColour(c.style.Yellow)
	case s.Exceeded:
		return cell{display: "in " + tty.Wait(s.RetryAfter), plain: "exceeded"}.withColour(c.style.Yellow)
	}
	return cell{display: "ok", plain: "ok"}.withColour(c.style.Green)
}

// requestText returns a request in words: "rpm=1 tpm=500 of gpt-4".
func requestText(req limiter.Request) string {
	var words []string

	for limit, n := range req.Consume.All() {
		words = append(words, limit+"="+figure.Amount(limit, n))
	}

	if words == nil {
		return req.Resource
	}

	return strings.Join(words, " ") + " of " + req.Resource
}
