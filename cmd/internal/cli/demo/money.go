package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/llm"
)

// spend is the limit of money, in millionths of a dollar.
const spend = llm.Spend

// costOf returns what a call with a number of tokens costs. A third of the estimate
// is the prompt.
func costOf(price llm.Price, c call, tokens int64) int64 {
	prompt := min(c.estimate/3, tokens)
	return price.Cost(llm.Usage{Input: prompt, Output: tokens - prompt})
}

// monthly returns a quota of cents a month.
func monthly(cents int64) limiter.Limit {
	return limiter.Quota(spend, cents*10_000, limiter.EveryMonth)
}

// dollars formats millionths of a dollar in at most nine characters.
func dollars(n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%s$%.4f", sign, float64(n)/1e6)
}

// amount formats a number of tokens, or of millionths of a dollar.
func amount(limit string, n int64) string {
	if limit == spend {
		return dollars(n)
	}
	return tty.Number(n)
}

// short formats an amount without the zeros after its cents.
func short(limit string, n int64) string {
	text := amount(limit, n)
	if limit != spend {
		return text
	}

	cents := strings.IndexByte(text, '.') + len(".00")
	return text[:cents] + strings.TrimRight(text[cents:], "0")
}

// wait formats the time until a retry. A quota makes it hours or days.
func wait(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= 10*time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return seconds(d)
}
