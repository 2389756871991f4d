package cli

import (
	"fmt"
	"strconv"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// loadRunJSON is the output of loadtest run as JSON.
type loadRunJSON struct {
	Requests    int64   `json:"total_requests" doc:"number of requests"`
	Failures    int64   `json:"total_failures" doc:"number of failed requests; refusals are not failures"`
	FailureRate float64 `json:"failure_rate" doc:"share of failed requests"`
	RPS         float64 `json:"requests_per_second" doc:"requests by the time of the test"`
	Average     float64 `json:"avg_response_time" doc:"mean latency, ms"`
	Min         float64 `json:"min_response_time" doc:"least latency, ms"`
	Max         float64 `json:"max_response_time" doc:"largest latency, ms"`
	P50         float64 `json:"p50" doc:"median latency, ms"`
	P95         float64 `json:"p95" doc:"95th percentile of the latency, ms"`
	P99         float64 `json:"p99" doc:"99th percentile of the latency, ms"`
}

// printSummary prints the result of a test in an account.
func printSummary(c *kit.Console, s loadtest.WorkerSummary, asJSON bool) error {
	return kit.PrintProperties(c, asJSON, []kit.Property{
		{Name: "requests", Value: kit.Number(s.Requests)},
		{Name: "RPS", Value: oneDecimal(s.RPS)},
		{Name: "failures", Value: failureCell(s)},
		{Name: "average", Value: millis(s.Average)},
		{Name: "min/max", Value: pair(s.Min, s.Max)},
		{Name: "p50", Value: millis(s.P50)},
		{Name: "p95", Value: millis(s.P95)},
		{Name: "p99", Value: millis(s.P99)},
	}, loadRunJSON(s))
}

// oneDecimal returns a number with one decimal.
func oneDecimal(f float64) kit.Cell {
	text := strconv.FormatFloat(f, 'f', 1, 64)
	return kit.Cell{Display: text, Plain: text}
}

// millis returns a number of milliseconds.
func millis(ms float64) kit.Cell {
	text := milliText(ms) + " ms"
	return kit.Cell{Display: text, Plain: text}
}

func milliText(ms float64) string { return strconv.FormatFloat(ms, 'f', 1, 64) }

func pair(low, high float64) kit.Cell {
	text := milliText(low) + "/" + milliText(high) + " ms"
	return kit.Cell{Display: text, Plain: text}
}

func failureCell(s loadtest.WorkerSummary) kit.Cell {
	share := fmt.Sprintf(" (%.2f%%)", 100*s.FailureRate)
	return kit.Cell{Display: tty.Number(s.Failures) + share, Plain: strconv.FormatInt(s.Failures, 10) + share}
}
