package loadtest

import (
	_ "embed"
	"html/template"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed report.html
var reportPage string

// WriteHTML writes the report as one page that needs no other file, no script
// and no network.
func (r Report) WriteHTML(w io.Writer) error {
	page, err := template.New("report").Parse(reportPage)
	if err != nil {
		return err
	}
	return page.Execute(w, r.page())
}

// reportData is what the page shows.
type reportData struct {
	Scenario, Classes string
	Broken            bool
	Promise           string
	Facts, Figures    []fact
	Conditions        []verdict
	Charts            []chart
	// Step is the time that a step of the charts takes, or "" if that is a
	// second.
	Step     string
	Rows     [][]string
	Failures []fact
}

// fact is a labelled value. Bad marks one that readers should notice.
type fact struct {
	Label, Value string
	Bad          bool
}

// verdict is a condition and the value that was compared.
type verdict struct {
	Text, Value string
	Holds       bool
}

func (r Report) page() reportData {
	d := reportData{
		Scenario: r.Scenario, Classes: strings.Join(r.Classes, ", "), Broken: r.Promise.Broken > 0,
		Promise: r.Promise.String(),
		Facts: []fact{
			{"Load", r.Load, false},
			{"Duration", timeLabel(r.Elapsed.Round(100 * time.Millisecond)), false},
			{"Store", r.Store, false},
			{"Started", r.Started.UTC().Format("2006-01-02 15:04:05 UTC"), false},
			{"Version", r.Version, false},
			{"Seed", strconv.FormatUint(r.Seed, 10), false},
		},
		Figures: r.figures(),
	}

	for _, c := range r.Conditions {
		d.Conditions = append(d.Conditions, verdict{c.String(), c.Describe(r.Result), c.Holds(r.Result)})
	}

	points, step := mergePoints(r.Points)
	if len(points) > 0 {
		d.Charts = charts(points)
	}
	if step > 1 {
		d.Step = timeLabel(time.Duration(step) * time.Second)
	}

	for _, row := range append(slices.Clone(r.Rows), r.Total) {
		d.Rows = append(d.Rows, rowCells(row))
	}

	for _, kind := range slices.Sorted(maps.Keys(r.Failures)) {
		d.Failures = append(d.Failures, fact{kind, groupDigits(r.Snapshot.Failures[kind]), true})
	}

	return d
}

// rowCells returns the cells of the table of calls.
func rowCells(row Row) []string {
	kind, name := row.Type, row.Name
	if kind == "" {
		kind, name = "Total", ""
	}

	return []string{
		kind, name, groupDigits(row.Requests), Rate(row.PerSecond), Latency(row.Average), Latency(row.P50),
		Latency(row.P95), Latency(row.P99),
		Latency(row.Max), groupDigits(row.Failures),
	}
}

// figures returns the totals of a test.
func (r Report) figures() []fact {
	t := r.Total
	all := []fact{
		{"Requests", groupDigits(t.Requests), false},
		{"Requests/s", Rate(t.PerSecond), false},
		{"p50", Latency(t.P50), false},
		{"p95", Latency(t.P95), false},
		{"p99", Latency(t.P99), false},
		{"Max", Latency(t.Max), false},
		{"Admitted", groupDigits(r.Admitted), false},
		{"Refused", groupDigits(r.Refused), false},
		{"Failures", groupDigits(t.Failures), t.Failures > 0},
	}

	if r.Late > 0 || r.Waiting > 0 {
		all = append(all, fact{"Late tasks", groupDigits(r.Late), false}, fact{
			"Never began", groupDigits(r.Waiting), true,
		})
	}

	if r.Usage != nil {
		acquires := float64(max(r.Admitted+r.Refused+r.Failed, 1))
		all = append(all,
			fact{"Store calls/acquire", Rate(float64(r.Usage.Requests) / acquires), false},
			fact{"Read units/acquire", Rate(r.Usage.ReadUnits / acquires), false},
			fact{"Write units/acquire", Rate(r.Usage.WriteUnits / acquires), false},
		)
	}

	if r.Elapsed > 0 {
		all = append(all, fact{"Client CPU", Rate(100*r.CPU.Seconds()/r.Elapsed.Seconds()) + " %", false})
	}
	return all
}

// charts draws throughput, latency and users.
func charts(points []Point) []chart {
	times := make([]time.Duration, len(points))
	column := func(value func(Point) float64) []float64 {
		values := make([]float64, len(points))
		for i, p := range points {
			times[i] = p.At
			values[i] = value(p)
		}
		return values
	}

	// A step of a chart may be several seconds, so each rate needs the time
	// since the step before it.
	rate := func(count func(Point) int64) []float64 {
		before := time.Duration(0)
		return column(func(p Point) float64 {
			since := p.At - before
			before = p.At
			return float64(count(p)) / max(since.Seconds(), 0.001)
		})
	}

	throughput := newChart("Requests per second", times, true, Rate,
		series{"succeeded", "good", rate(func(p Point) int64 { return p.Requests - p.Refused - p.Failures })},
		series{"refused", "refused", rate(func(p Point) int64 { return p.Refused })},
		series{"failed", "bad", rate(func(p Point) int64 { return p.Failures })},
	)

	latency := newChart("Latency", times, false, func(s float64) string {
		return Latency(time.Duration(s * float64(time.Second)))
	},
		series{"p99", "p99", column(func(p Point) float64 { return p.P99.Seconds() })},
		series{"p95", "p95", column(func(p Point) float64 { return p.P95.Seconds() })},
		series{"p50", "p50", column(func(p Point) float64 { return p.P50.Seconds() })},
	)

	users := newChart("Users", times, false, Rate, series{"users", "users", column(func(p Point) float64 {
		return float64(p.Users)
	})})

	return []chart{throughput, latency, users}
}

// maxPoints is the number of steps of a chart.
const maxPoints = 300

// mergePoints joins points until at most maxPoints are left, and returns how
// many it joined into one. A last point of less than half a second joins the one
// before, since its rate would say little.
func mergePoints(points []Point) (merged []Point, group int) {
	group = max(1, (len(points)+maxPoints-1)/maxPoints)
	for chunk := range slices.Chunk(points, group) {
		p := chunk[0]
		for _, next := range chunk[1:] {
			p = joinPoints(p, next)
		}
		merged = append(merged, p)
	}

	if last := len(merged) - 1; last > 0 && merged[last].At-merged[last-1].At < time.Second/2 {
		merged = append(merged[:last-1], joinPoints(merged[last-1], merged[last]))
	}

	return merged, group
}

// joinPoints returns a point with the sum of the requests, the most users and
// the worst latencies of two neighbours.
func joinPoints(a, b Point) Point {
	return Point{
		At: b.At, Users: max(a.Users, b.Users), Requests: a.Requests + b.Requests, Refused: a.Refused + b.Refused,
		Failures: a.Failures + b.Failures,
		P50:      max(a.P50, b.P50), P95: max(a.P95, b.P95), P99: max(a.P99, b.P99),
	}
}
