package loadtest

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are counted in microseconds, rounded up, with three digits, up to ten
// minutes.
const (
	maxLatency    = 10 * time.Minute
	latencyDigits = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, maxLatency.Microseconds(), latencyDigits)
}

// Statistics counts events. Its methods are safe for concurrent use. It counts
// in parts, so that recorders seldom wait for each other.
type Statistics struct {
	parts []part
}

// rowKey identifies a row.
type rowKey struct{ kind, name string }

// part is one of the parts of the statistics.
type part struct {
	mu       sync.Mutex
	rows     map[rowKey]*tally
	failures map[string]int64
	second   tally // since the last call of take
	refused  int64 // since the last call of take
	// The padding keeps the locks of two parts out of one cache line.
	_ [64]byte
}

// tally sums up the events of a row.
type tally struct {
	requests, failures int64
	sum, min, max      time.Duration
	latencies          *hdrhistogram.Histogram
}

// NewStatistics returns statistics without events.
func NewStatistics() *Statistics {
	s := &Statistics{parts: make([]part, min(runtime.GOMAXPROCS(0), 8))}
	for i := range s.parts {
		p := &s.parts[i]
		p.rows, p.failures = map[rowKey]*tally{}, map[string]int64{}
		p.second.latencies = newHistogram()
	}
	return s
}

// Record counts an event.
func (s *Statistics) Record(e Event) {
	p := &s.parts[rand.IntN(len(s.parts))] //nolint:gosec // any part will do
	p.mu.Lock()
	defer p.mu.Unlock()

	key := rowKey{e.Type, e.Name}
	row := p.rows[key]
	if row == nil {
		row = &tally{latencies: newHistogram()}
		p.rows[key] = row
	}

	row.add(e)
	p.second.add(e)
	if e.Type == RateLimited {
		p.refused++
	}
	if e.Err != nil {
		p.failures[Kind(e.Err)]++
	}
}

func (t *tally) add(e Event) {
	if t.requests == 0 || e.Latency < t.min {
		t.min = e.Latency
	}

	t.max = max(t.max, e.Latency)
	t.requests++
	t.sum += e.Latency
	if e.Err != nil {
		t.failures++
	}

	// The value is within the range of the histogram, so that RecordValue
	// cannot fail.
	_ = t.latencies.RecordValue((min(e.Latency, maxLatency-time.Microsecond) + time.Microsecond - 1).Microseconds())
}

// merge adds the events of other to t.
func (t *tally) merge(other *tally) {
	if other.requests == 0 {
		return
	}

	if t.requests == 0 || other.min < t.min {
		t.min = other.min
	}

	t.max = max(t.max, other.max)
	t.requests += other.requests
	t.failures += other.failures
	t.sum += other.sum
	t.latencies.Merge(other.latencies)
}

// row returns t as a row, with requests a second over the elapsed time.
func (t *tally) row(key rowKey, elapsed time.Duration) Row {
	r := Row{Type: key.kind, Name: key.name, Requests: t.requests, Failures: t.failures, Min: t.min, Max: t.max}
	if t.requests > 0 {
		r.Average = t.sum / time.Duration(t.requests)
	}
	if elapsed > 0 {
		r.PerSecond = float64(t.requests) / elapsed.Seconds()
	}
	r.P50, r.P95, r.P99 = t.percentiles()
	return r
}

func (t *tally) percentiles() (p50, p95, p99 time.Duration) {
	if t.requests == 0 {
		return 0, 0, 0
	}

	at := func(q float64) time.Duration {
		// The histogram rounds to three digits, possibly beyond the largest
		// latency.
		return min(t.max, time.Duration(t.latencies.ValueAtQuantile(q))*time.Microsecond)
	}
	return at(50), at(95), at(99)
}

// Snapshot returns the rows of all events so far, ordered by type and name, with
// requests a second over the elapsed time. It leaves the fields empty that do not
// follow from events.
func (s *Statistics) Snapshot(elapsed time.Duration) Snapshot {
	rows := map[rowKey]*tally{}
	failures := map[string]int64{}
	for i := range s.parts {
		s.parts[i].copyTo(rows, failures)
	}

	total := &tally{latencies: newHistogram()}
	out := Snapshot{Elapsed: elapsed, Failures: failures}

	keys := slices.SortedFunc(maps.Keys(rows), func(a, b rowKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})

	for _, key := range keys {
		row := rows[key]
		total.merge(row)
		out.Rows = append(out.Rows, row.row(key, elapsed))

		switch key.kind {
		case Acquire:
			out.Admitted += row.requests - row.failures
			out.Failed += row.failures
		case RateLimited:
			out.Refused += row.requests
		}
	}

	out.Total = total.row(rowKey{name: "Total"}, elapsed)
	return out
}

// copyTo adds the rows and failures of p to others.
func (p *part) copyTo(rows map[rowKey]*tally, failures map[string]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, row := range p.rows {
		sum := rows[key]
		if sum == nil {
			sum = &tally{latencies: newHistogram()}
			rows[key] = sum
		}
		sum.merge(row)
	}

	for kind, n := range p.failures {
		failures[kind] += n
	}
}

// take returns the events since the last call as a point.
func (s *Statistics) take() Point {
	sum := tally{latencies: newHistogram()}
	var refused int64
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		if p.second.requests > 0 {
			sum.merge(&p.second)
			refused += p.refused
			// A histogram is large, so the part keeps its own for the next
			// second.
			p.second.latencies.Reset()
			p.second, p.refused = tally{latencies: p.second.latencies}, 0
		}
		p.mu.Unlock()
	}

	point := Point{Requests: sum.requests, Refused: refused, Failures: sum.failures}
	point.P50, point.P95, point.P99 = sum.percentiles()
	return point
}
