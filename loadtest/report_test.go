package loadtest_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

// sampleReport returns a report of a test with the given number of seconds.
func sampleReport(t *testing.T, length int) loadtest.Report {
	t.Helper()
	total := loadtest.Row{
		Name: "Total", Requests: 12_345, Failures: 7, PerSecond: 2057.5, Average: 8 * time.Millisecond,
		Min: 900 * time.Microsecond,
		Max: 1250 * time.Millisecond, P50: 6 * time.Millisecond, P95: 18 * time.Millisecond, P99: 43 * time.Millisecond,
	}
	row := total
	row.Type, row.Name = loadtest.Acquire, `<script>alert("1")</script>`
	r := loadtest.Report{
		Result: loadtest.Result{
			Scenario: "a<b", Promise: loadtest.Promise{Limits: 3, Checks: 9000},
			Snapshot: loadtest.Snapshot{
				Elapsed: time.Duration(length) * time.Second, Total: total, Rows: []loadtest.Row{row},
				Admitted: 8000, Refused: 900, Failed: 100,
				Failures: map[string]int64{"timeout": 7},
				Usage:    &loadtest.Usage{Requests: 9900, ReadUnits: 90, WriteUnits: 9000}, CPU: time.Second,
			},
		},
		Classes: []string{"One", "Two"}, Load: "20 users", Store: "memory:", Version: "v1", Seed: 4711,
		Started: time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC),
	}
	for i := range length {
		r.Points = append(r.Points, loadtest.Point{
			At: time.Duration(i+1) * time.Second, Users: 20, Requests: 1500, Refused: 100, Failures: 2,
			P50: 6 * time.Millisecond, P95: 18 * time.Millisecond, P99: 43 * time.Millisecond,
		})
	}
	var err error
	r.Conditions, err = loadtest.ParseConditions("p99>50ms,failures>0.01%")
	check(t, err)
	return r
}

func htmlOf(t *testing.T, r loadtest.Report) string {
	t.Helper()
	var b strings.Builder
	check(t, r.WriteHTML(&b))
	return b.String()
}

func TestPageIsSelfContained(t *testing.T) {
	page := htmlOf(t, sampleReport(t, 60))
	for _, want := range []string{
		"<h1>Load test a&lt;b</h1>", "One, Two", "20 users", "memory:", "4711", "2026-03-14 15:09:26 UTC", "12,345",
		"2,058", "1.25s", "&lt;script&gt;alert(",
		"Admitted never exceeded allowed: 3 limits, checked 9,000 times.",
		"Passed: p99&gt;50ms does not hold, with 43ms.",
		"Failed: failures&gt;0.01% holds, with 0.0567%.", "Store calls/acquire</dt><dd>1.1<", "timeout</td><td>7<",
		"prefers-color-scheme: dark",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if found := regexp.MustCompile(
		`(?i)<script|<link|<img|@import|url\(|\b(src|href|srcset)=|ZgotmplZ|NaN|Inf\b`,
	).FindString(page); found != "" {
		t.Errorf("the page contains %q", found)
	}
	if n := strings.Count(page, "<svg"); n != 3 {
		t.Errorf("%d charts, want 3", n)
	}
}

// numbers matches the coordinates of a chart's line.
var numbers = regexp.MustCompile(`points="([0-9., -]+)"`)

func TestChartsStayInTheirFrame(t *testing.T) {
	for _, length := range []int{1, 2, 61, 1000, 4001} {
		page := htmlOf(t, sampleReport(t, length))
		lines := numbers.FindAllStringSubmatch(page, -1)
		if len(lines) != 10 {
			t.Fatalf("%d s: %d lines and areas, want 10", length, len(lines))
		}
		for _, line := range lines {
			points := strings.Fields(line[1])
			if len(points) > 2*302 {
				t.Errorf("%d s: a line has %d points", length, len(points))
			}
			for _, point := range points {
				left, top, _ := strings.Cut(point, ",")
				x, xErr := strconv.ParseFloat(left, 64)
				y, yErr := strconv.ParseFloat(top, 64)
				if xErr != nil || yErr != nil || x < 0 || x > 1000 || y < 0 || y > 100 {
					t.Fatalf("%d s: the point %q is outside of the chart", length, point)
				}
			}
		}
		if strings.Contains(page, "Each step of the charts is 14s long") != (length == 4001) {
			t.Errorf("%d s: the note about the length of a step", length)
		}
	}
	if page := htmlOf(t, sampleReport(t, 0)); strings.Contains(page, "<svg") ||
		!strings.Contains(page, "nothing to draw") {
		t.Error("a test without points has charts")
	}
}

// A last second that is cut short has the rate of its length, and a very short one
// none of its own.
func TestChartsShowRates(t *testing.T) {
	for _, rest := range []time.Duration{700 * time.Millisecond, 100 * time.Millisecond} {
		r := sampleReport(t, 10)
		r.Points[9].At = 9*time.Second + rest
		r.Points[9].Requests = int64(1500 * rest.Seconds())
		r.Points[9].Refused, r.Points[9].Failures = 0, 0
		first := numbers.FindStringSubmatch(htmlOf(t, r))
		for point := range strings.FieldsSeq(first[1]) {
			_, top, _ := strings.Cut(point, ",")
			if y, err := strconv.ParseFloat(top, 64); err != nil || y > 26 && y != 100 {
				t.Errorf("after %v of the last second: the rate falls to %s in %s", rest, top, first[1])
				break
			}
		}
	}
}

func TestPromiseSentence(t *testing.T) {
	for want, p := range map[string]loadtest.Promise{
		"Admitted never exceeded allowed: nothing was admitted.":           {},
		"Admitted never exceeded allowed: 1 limit, checked 1 time.":        {Limits: 1, Checks: 1},
		"Admitted never exceeded allowed: 20 limits, checked 1,234 times.": {Limits: 20, Checks: 1234},
		"Admitted exceeded allowed in 2 of 1,234 checks, by up to 1.5 tokens: limit rpm of entity key-1 and " +
			"resource api.": {
			Limits: 20, Checks: 1234, Broken: 2, Excess: 1500, Entity: "key-1", Resource: "api", Limit: "rpm",
		},
	} {
		if got := p.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	r := sampleReport(t, 3)
	r.Promise = loadtest.Promise{Checks: 5, Broken: 1, Excess: 1000}
	if !strings.Contains(htmlOf(t, r), `<p class="promise broken">Admitted exceeded allowed in 1 of 5 checks`) {
		t.Error("the page does not mark a broken promise")
	}
}

func TestFigures(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 800: "0.8µs", 23_900: "23.9µs", 999_400: "999µs", 999_600: "1ms", 1_234_567: "1.23ms",
		99_940_000: "99.9ms", 123_456_000: "123ms",
		1250 * time.Millisecond: "1.25s", 83 * time.Second: "83s", 600 * time.Second: "600s",
	} {
		if got := loadtest.Latency(d); got != want {
			t.Errorf("Latency(%d) = %s, want %s", d, got, want)
		}
	}
	for f, want := range map[float64]string{
		0: "0", 0.0189: "0.0189", 1.02: "1.02", 99.96: "100", 2057.5: "2,058", 20: "20", 1e6: "1,000,000",
	} {
		if got := loadtest.Rate(f); got != want {
			t.Errorf("Rate(%v) = %s, want %s", f, got, want)
		}
	}
}
