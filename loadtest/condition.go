package loadtest

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Condition compares a metric of a result with a bound, such as p99>50ms.
type Condition struct {
	Metric, Operator string
	// Bound is in seconds for a duration, and a share such as 0.001 for a
	// percentage.
	Bound float64
	kind  kind
}

// kind is the unit of a bound.
type kind int

const (
	plainNumber kind = iota
	span
	percent
)

// Metrics of conditions, in the order of messages.
var (
	durationMetrics = []string{"p50", "p95", "p99", "avg", "min", "max"}
	countMetrics    = []string{"failures", "refused"} // as a number or a percentage
	rateMetrics     = []string{"rps"}
)

var conditionForm = regexp.MustCompile(`^\s*([a-z0-9]+)\s*(>=|<=|>|<)\s*(\S+)\s*$`)

// ParseConditions parses conditions separated by commas, such as
// "p99>50ms,failures>0.1%". The metrics p50, p95, p99, avg, min and max are
// durations over all requests, rps is a number of requests a second, failures
// and refused are numbers or percentages: of requests, and of acquires.
func ParseConditions(text string) ([]Condition, error) {
	var all []Condition
	for part := range strings.SplitSeq(text, ",") {
		c, err := parseCondition(part)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func parseCondition(text string) (Condition, error) {
	found := conditionForm.FindStringSubmatch(text)
	if found == nil {
		return Condition{}, fmt.Errorf(
			"the condition %q is not METRIC, one of > >= < <=, and a bound, such as p99>50ms",
			clip(strings.TrimSpace(text)),
		)
	}

	c := Condition{Metric: found[1], Operator: found[2]}
	bound := found[3]
	var ok bool
	var want string

	switch {
	case slices.Contains(durationMetrics, c.Metric):
		d, err := time.ParseDuration(bound)
		c.Bound, c.kind, ok, want = d.Seconds(), span, err == nil && d >= 0, "a duration such as 50ms"
	case slices.Contains(countMetrics, c.Metric):
		number, isPercent := strings.CutSuffix(bound, "%")
		if c.Bound, ok = parseBound(number); isPercent {
			c.Bound, c.kind = c.Bound/100, percent
		}
		want = "a number such as 10, or a percentage such as 0.1%"
	case slices.Contains(rateMetrics, c.Metric):
		c.Bound, ok = parseBound(bound)
		want = "a number such as 500"
	default:
		return Condition{}, fmt.Errorf("there is no metric %q; the metrics are %s",
			clip(c.Metric), strings.Join(slices.Concat(durationMetrics, countMetrics, rateMetrics), ", "))
	}

	if !ok {
		return Condition{}, fmt.Errorf("the bound %q of %s is not %s", clip(bound), c.Metric, want)
	}
	return c, nil
}

func parseBound(text string) (float64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && f >= 0 && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// String returns the condition as it was written, such as "p99>50ms".
func (c Condition) String() string { return c.Metric + c.Operator + c.format(c.Bound) }

// Describe returns the value of the condition's metric in a result with its
// unit, such as "62ms".
func (c Condition) Describe(r Result) string { return c.format(c.value(r)) }

// Holds reports whether a result meets the condition.
func (c Condition) Holds(r Result) bool {
	order := cmp.Compare(c.value(r), c.Bound)
	switch c.Operator {
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	case "<":
		return order < 0
	}
	return order <= 0
}

func (c Condition) format(value float64) string {
	switch c.kind {
	case span:
		d := time.Duration(math.Round(value * float64(time.Second)))
		return d.Round(max(time.Microsecond, d/1000)).String()
	case percent:
		return strconv.FormatFloat(value*100, 'g', 4, 64) + "%"
	}
	return strconv.FormatFloat(math.Round(value*100)/100, 'f', -1, 64)
}

// value returns the metric of a result. A share of nothing is 0.
func (c Condition) value(r Result) float64 {
	share := func(part, of int64) float64 {
		if c.kind != percent {
			return float64(part)
		}
		return float64(part) / float64(max(of, 1))
	}

	switch c.Metric {
	case "failures":
		return share(r.Total.Failures, r.Total.Requests)
	case "refused":
		return share(r.Refused, r.Admitted+r.Refused+r.Failed)
	case "rps":
		return r.Total.PerSecond
	}

	return map[string]time.Duration{
		"p50": r.Total.P50, "p95": r.Total.P95, "p99": r.Total.P99, "avg": r.Total.Average, "min": r.Total.Min,
		"max": r.Total.Max,
	}[c.Metric].Seconds()
}
