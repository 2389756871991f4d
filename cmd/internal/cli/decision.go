package cli

import (
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// decisionColumns are the columns of acquire and explain, a row for each limit.
var decisionColumns = append([]kit.Column{
	{Title: "entity"},
	{Title: "limit"},
	{Title: "asked", Right: true},
	{Title: "available", Right: true},
	{Title: "capacity", Right: true},
	{Title: "refill", Right: true, Spare: true},
	{Title: "verdict", Whole: true},
	{Title: "source"},
}, kindColumns...)

func decisionListing(c *kit.Console, req limiter.Request) kit.Listing[limiter.Status] {
	return kit.Listing[limiter.Status]{
		Columns: decisionColumns,
		Row: func(s limiter.Status) []kit.Cell {
			asked, says := kit.Amount(s.Limit.Name, s.Requested), verdict(c, s)
			// The row of a limit that the request does not name informs, and
			// judges nothing.
			if !requestsLimit(req, s.Limit.Name) {
				asked, says = kit.Text(""), kit.Text("")
			}

			row := []kit.Cell{
				kit.Text(s.Entity), kit.Text(s.Limit.Name), asked, available(c, s),
				kit.Amount(s.Limit.Name, s.Limit.Capacity), kit.Rate(s.Limit), says, source(s.Source),
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

func verdict(c *kit.Console, s limiter.Status) kit.Cell {
	switch {
	case s.NeverFits:
		return kit.Cell{Display: "never fits", Plain: "never_fits"}.WithColour(c.Style.Red)
	case s.WouldRefuse:
		return kit.Cell{Display: "would refuse", Plain: "would_refuse"}.WithColour(c.Style.Yellow)
	case s.Exceeded:
		return kit.Cell{Display: "in " + tty.Wait(s.RetryAfter), Plain: "exceeded"}.WithColour(c.Style.Yellow)
	}
	return kit.Cell{Display: "ok", Plain: "ok"}.WithColour(c.Style.Green)
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
