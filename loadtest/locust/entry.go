package locust

import (
	"maps"
	"math"
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

// entry holds the statistics of one type and name of events since the last
// report, in the form of Locust: seconds since 1970, milliseconds, and counts by
// rounded response time and by second.
type entry struct {
	Name          string          `msgpack:"name"`
	Method        string          `msgpack:"method"`
	Last          *float64        `msgpack:"last_request_timestamp"`
	Start         float64         `msgpack:"start_time"`
	Requests      int64           `msgpack:"num_requests"`
	NoneRequests  int64           `msgpack:"num_none_requests"`
	Failures      int64           `msgpack:"num_failures"`
	Total         float64         `msgpack:"total_response_time"`
	Max           float64         `msgpack:"max_response_time"`
	Min           *float64        `msgpack:"min_response_time"`
	ContentLength int64           `msgpack:"total_content_length"`
	Times         map[int64]int64 `msgpack:"response_times"`
	PerSecond     map[int64]int64 `msgpack:"num_reqs_per_sec"`
	FailPerSecond map[int64]int64 `msgpack:"num_fail_per_sec"`
}

func newEntry(name, method string, start float64) *entry {
	return &entry{
		Name: name, Method: method, Start: start,
		Times: map[int64]int64{}, PerSecond: map[int64]int64{}, FailPerSecond: map[int64]int64{},
	}
}

// add counts an event. A failed call counts as a request too.
func (e *entry) add(ev *loadtest.Event) {
	ms := float64(ev.Latency) / float64(time.Millisecond)
	second := ev.At.Unix()

	e.Requests++
	e.Total += ms
	e.Max = max(e.Max, ms)
	e.Min = lesser(e.Min, &ms)

	at := seconds(ev.At)
	e.Last = greater(e.Last, &at)
	e.Times[roundResponse(ms)]++
	e.PerSecond[second]++

	if ev.Err != nil {
		e.Failures++
		e.FailPerSecond[second]++
	}
}

// merge adds the counts of another entry.
func (e *entry) merge(other *entry) {
	e.Requests += other.Requests
	e.Failures += other.Failures
	e.Total += other.Total
	e.Start = min(e.Start, other.Start)
	e.Max = max(e.Max, other.Max)
	e.Min = lesser(e.Min, other.Min)
	e.Last = greater(e.Last, other.Last)
	addCounts(e.Times, other.Times)
	addCounts(e.PerSecond, other.PerSecond)
	addCounts(e.FailPerSecond, other.FailPerSecond)
}

func addCounts(to, from map[int64]int64) {
	for key, n := range maps.All(from) {
		to[key] += n
	}
}

func lesser(a, b *float64) *float64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

func greater(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// seconds returns a time as Python's time.time does.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }

// Below these response times in milliseconds, Locust keeps whole milliseconds,
// tens and hundreds; above, thousands.
const (
	belowOnes     = 100
	belowTens     = 1000
	belowHundreds = 10_000
)

// roundResponse rounds a response time in milliseconds as Locust does for its
// histogram: to about two digits, and a half to the even neighbour.
func roundResponse(ms float64) int64 {
	switch {
	case ms < belowOnes:
		return roundTo(ms, 1)
	case ms < belowTens:
		return roundTo(ms, 10)
	case ms < belowHundreds:
		return roundTo(ms, 100)
	default:
		return roundTo(ms, 1000)
	}
}

// roundTo rounds to a multiple of unit. It compares the remainder, which is
// exact, since a quotient could be rounded to a half.
func roundTo(ms, unit float64) int64 {
	rest := math.Mod(ms, unit)
	whole := ms - rest
	above := rest > unit/2
	odd := math.Mod(whole/unit, 2) != 0
	if above || rest == unit/2 && odd {
		whole += unit
	}
	return int64(whole)
}
