package loadtest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// printReport prints the report of a test.
func (o *localOptions) printReport(r loadtest.Report) error {
	switch {
	case o.json:
		return o.PrintJSON(newLoadJSON(r))
	case o.output == kit.FormatTSV:
		return callListing().Print(o.Console, false, kit.Each(append(slices.Clone(r.Rows), r.Total)))
	}
	width := 0
	if o.Terminal || tty.IsTerminal(o.File) {
		width = o.Width
	}

	_, err := o.Out.Write([]byte(reportText(r, width, o.Style)))
	return err
}

// reportText returns the report for readers, with no line of the table wider than
// width; 0 is any width.
func reportText(r loadtest.Report, width int, style tty.Style) string {
	if width == 0 {
		// No table is wider, so that nothing is cut.
		width = 1000
	}

	t := r.Total
	lines := []string{
		style.Bold("Load test "+r.Scenario) + ": " + r.Load + ", for " + tty.Thousandths(
			r.Elapsed.Round(100*time.Millisecond).Milliseconds(),
		) + " s, on " + r.Store,
		"",
	}
	facts := [][2]string{
		{"Requests", tty.Number(t.Requests)},
		{"RPS", perSecond(t.PerSecond)},
		{"Failures", failureText(r.Snapshot)},
		{"Admitted", tty.Number(r.Admitted)},
		{
			"Refused",
			fmt.Sprintf("%s (%.2f %%)", tty.Number(r.Refused), 100*share(r.Refused, r.Admitted+r.Refused+r.Failed)),
		},
		{"Avg", loadtest.Latency(t.Average)},
		{"Min/Max", loadtest.Latency(t.Min) + " / " + loadtest.Latency(t.Max)},
		{"p50", loadtest.Latency(t.P50)},
		{"p95", loadtest.Latency(t.P95)},
		{"p99", loadtest.Latency(t.P99)},
	}
	if r.Late > 0 || r.Waiting > 0 {
		facts = append(facts, [2]string{
			"Late tasks", fmt.Sprintf("%s, and %s never began", tty.Number(r.Late), tty.Number(r.Waiting)),
		})
	}

	for _, cost := range costs(r.Snapshot) {
		facts = append(facts, [2]string{strings.ToUpper(cost[0][:1]) + cost[0][1:], cost[1]})
	}

	facts = append(facts, [2]string{"Seed", strconv.FormatUint(r.Seed, 10)})
	for _, f := range facts {
		lines = append(lines, style.Bold(tty.Left(f[0], 12))+f[1])
	}

	lines = append(append(lines, ""), rowTable(append(slices.Clone(r.Rows), t), width, style)...)
	return strings.Join(append(lines, "", r.Promise.String()), "\n") + "\n"
}

// perSecond formats a rate with one decimal.
func perSecond(f float64) string {
	tenths := int64(math.Round(f * 10))
	return tty.Number(tenths/10) + "." + strconv.FormatInt(tenths%10, 10)
}

func share(part, of int64) float64 { return float64(part) / float64(max(of, 1)) }

// loadJSON is the report of a test as JSON. Times of calls are in milliseconds.
type loadJSON struct {
	Scenario  string           `json:"scenario" doc:"name of the scenario"`
	Classes   []string         `json:"classes" doc:"classes of users"`
	Store     string           `json:"store" doc:"store under test"`
	Load      string           `json:"load" doc:"load in words"`
	Seed      uint64           `json:"seed" doc:"seed of random choices"`
	Started   time.Time        `json:"started_at" doc:"when the test began"`
	Elapsed   float64          `json:"duration_seconds" doc:"how long the users ran"`
	Users     int              `json:"users" doc:"most users at a time"`
	Requests  int64            `json:"total_requests" doc:"measured calls"`
	Failed    int64            `json:"total_failures" doc:"calls that failed; a refusal is no failure"`
	Rate      float64          `json:"failure_rate" doc:"failed part of the calls, from 0 to 1"`
	RPS       float64          `json:"requests_per_second" doc:"calls / duration"`
	Average   float64          `json:"avg_response_time" doc:"in milliseconds"`
	Min       float64          `json:"min_response_time" doc:"in milliseconds"`
	Max       float64          `json:"max_response_time" doc:"in milliseconds"`
	P50       float64          `json:"p50" doc:"median in milliseconds"`
	P95       float64          `json:"p95" doc:"in milliseconds"`
	P99       float64          `json:"p99" doc:"in milliseconds"`
	Admitted  int64            `json:"admitted" doc:"acquires that were admitted"`
	Refused   int64            `json:"refused" doc:"acquires that a limit refused"`
	Failures  map[string]int64 `json:"failures" doc:"failed calls by kind"`
	Late      int64            `json:"late" doc:"tasks of the open model that began late"`
	Unstarted int64            `json:"unstarted" doc:"tasks of the open model that never began"`
	Usage     *perAcquireJSON  `json:"per_acquire"`
	CPU       float64          `json:"client_cpu_percent" doc:"CPU time of this process / duration; 100 is one core"`
	Promise   promiseJSON      `json:"promise"`
	FailIf    []conditionJSON  `json:"fail_if" doc:"conditions of --fail-if: condition, value, holds"`
	Calls     []callJSON       `json:"calls" doc:"calls by type and name, with the fields of the totals"`
	Seconds   []secondJSON     `json:"seconds" doc:"each second: at, users, requests, refused, failures, p50, p95, p99"`
}

// FieldDocs returns the texts that are too long for tags.
func (loadJSON) FieldDocs() map[string]string {
	return map[string]string{
		"per_acquire": "requests, read_units and write_units of the table for each acquire; null for other stores",
		"promise": "whether more was admitted than the limits allow: held, limits, checks, broken, excess_tokens, " +
			"and of the worst one entity_id, resource, limit_name",
	}
}

type perAcquireJSON struct {
	Requests   float64 `json:"requests"`
	ReadUnits  float64 `json:"read_units"`
	WriteUnits float64 `json:"write_units"`
}

type promiseJSON struct {
	Held     bool    `json:"held"`
	Limits   int64   `json:"limits"`
	Checks   int64   `json:"checks"`
	Broken   int64   `json:"broken"`
	Excess   float64 `json:"excess_tokens"`
	Entity   string  `json:"entity_id"`
	Resource string  `json:"resource"`
	Limit    string  `json:"limit_name"`
}

type conditionJSON struct {
	Condition string `json:"condition"`
	Value     string `json:"value"`
	Holds     bool   `json:"holds"`
}

type callJSON struct {
	Type     string  `json:"type"`
	Name     string  `json:"name"`
	Requests int64   `json:"requests"`
	Failures int64   `json:"failures"`
	RPS      float64 `json:"requests_per_second"`
	Average  float64 `json:"avg_response_time"`
	Min      float64 `json:"min_response_time"`
	Max      float64 `json:"max_response_time"`
	P50      float64 `json:"p50"`
	P95      float64 `json:"p95"`
	P99      float64 `json:"p99"`
}

type secondJSON struct {
	At       float64 `json:"at"`
	Users    int     `json:"users"`
	Requests int64   `json:"requests"`
	Refused  int64   `json:"refused"`
	Failures int64   `json:"failures"`
	P50      float64 `json:"p50"`
	P95      float64 `json:"p95"`
	P99      float64 `json:"p99"`
}

// milliseconds returns a latency in milliseconds, exact to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func newLoadJSON(r loadtest.Report) loadJSON {
	t := newCallJSON(r.Total)
	out := loadJSON{
		Scenario: r.Scenario, Classes: r.Classes, Store: r.Store, Load: r.Load, Seed: r.Seed,
		Started: r.Started.UTC().Truncate(time.Second),
		Elapsed: jsonview.Seconds(r.Elapsed), Users: mostUsers(r), Requests: t.Requests, Failed: t.Failures,
		Rate: share(t.Failures, t.Requests), RPS: t.RPS,
		Average: t.Average, Min: t.Min, Max: t.Max, P50: t.P50, P95: t.P95, P99: t.P99,
		Admitted: r.Admitted, Refused: r.Refused, Failures: r.Failures, Late: r.Late, Unstarted: r.Waiting,
		Promise: promiseJSON{
			r.Promise.Broken == 0, r.Promise.Limits, r.Promise.Checks, r.Promise.Broken,
			float64(r.Promise.Excess) / 1000,
			r.Promise.Entity, r.Promise.Resource, r.Promise.Limit,
		},
		FailIf: []conditionJSON{}, Calls: []callJSON{}, Seconds: []secondJSON{},
	}

	if r.Elapsed > 0 {
		out.CPU = 100 * r.CPU.Seconds() / r.Elapsed.Seconds()
	}
	// Every acquire costs requests, refused and failed ones too.
	if acquires := float64(max(r.Admitted+r.Refused+r.Snapshot.Failed, 1)); r.Usage != nil {
		out.Usage = &perAcquireJSON{
			float64(r.Usage.Requests) / acquires, r.Usage.ReadUnits / acquires, r.Usage.WriteUnits / acquires,
		}
	}

	for _, c := range r.Conditions {
		out.FailIf = append(out.FailIf, conditionJSON{c.String(), c.Describe(r.Result), c.Holds(r.Result)})
	}
	for _, row := range r.Rows {
		out.Calls = append(out.Calls, newCallJSON(row))
	}
	for _, p := range r.Points {
		out.Seconds = append(out.Seconds, secondJSON{
			jsonview.Seconds(p.At), p.Users, p.Requests, p.Refused, p.Failures, milliseconds(p.P50),
			milliseconds(p.P95), milliseconds(p.P99),
		})
	}

	return out
}

func mostUsers(r loadtest.Report) int {
	most := r.Users
	for _, p := range r.Points {
		most = max(most, p.Users)
	}

	return most
}

func newCallJSON(r loadtest.Row) callJSON {
	return callJSON{
		r.Type, r.Name, r.Requests, r.Failures, r.PerSecond, milliseconds(r.Average), milliseconds(r.Min),
		milliseconds(r.Max),
		milliseconds(r.P50), milliseconds(r.P95), milliseconds(r.P99),
	}
}

// callListing describes the rows of calls as tab-separated lines.
func callListing() kit.Listing[loadtest.Row] {
	plain := func(f float64) kit.Cell { return kit.Cell{Plain: fmt.Sprintf("%.3f", f)} }
	return kit.Listing[loadtest.Row]{Row: func(r loadtest.Row) []kit.Cell {
		c := newCallJSON(r)
		return []kit.Cell{
			kit.Text(c.Type), kit.Text(c.Name), kit.Number(c.Requests), plain(c.RPS), plain(c.Average), plain(c.P50),
			plain(c.P95), plain(c.P99), plain(c.Max), kit.Number(c.Failures),
		}
	}}
}

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
