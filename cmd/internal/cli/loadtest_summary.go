package cli

import (
	"fmt"
	"strconv"

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
func (c *console) printSummary(s loadtest.WorkerSummary, asJSON bool) error {
	return printProperties(c, asJSON, []property{
		{"requests", number(s.Requests)},
		{"RPS", oneDecimal(s.RPS)},
		{"failures", failureCell(s)},
		{"average", millis(s.Average)},
		{"min/max", pair(s.Min, s.Max)},
		{"p50", millis(s.P50)},
		{"p95", millis(s.P95)},
		{"p99", millis(s.P99)},
	}, loadRunJSON(s))
}

// oneDecimal returns a number with one decimal.
func oneDecimal(f float64) cell {
	text := strconv.FormatFloat(f, 'f', 1, 64)
	return cell{display: text, plain: text}
}

// millis returns a number of milliseconds.
func millis(ms float64) cell {
	text := milliText(ms) + " ms"
	return cell{display: text, plain: text}
}

func milliText(ms float64) string { return strconv.FormatFloat(ms, 'f', 1, 64) }

func pair(low, high float64) cell {
	text := milliText(low) + "/" + milliText(high) + " ms"
	return cell{display: text, plain: text}
}

func failureCell(s loadtest.WorkerSummary) cell {
	share := fmt.Sprintf(" (%.2f%%)", 100*s.FailureRate)
	return cell{display: tty.Number(s.Failures) + share, plain: strconv.FormatInt(s.Failures, 10) + share}
}
