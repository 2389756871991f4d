package loadtest

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Options configures Run. The zero value of a field is its default.
type Options struct {
	Classes   []string // names of the classes to use; default: all
	Users     int      // of the closed model; default 20
	SpawnRate float64  // users a second; default 10
	// Rate selects the open model: so many tasks begin each second, whether or
	// not earlier ones have ended, and their latency counts from the intended
	// start.
	Rate     float64
	Shape    string        // name of a shape of the scenario
	Duration time.Duration // default 60 s, or the length of the shape
	Seed     uint64
	// Slack is the share of a capacity that the store may admit in excess, such
	// as 0.02.
	Slack float64
	// Meter, if not nil, returns the requests and capacity units that the store
	// has used since it was opened.
	Meter func() Usage
	// Report, if not nil, is called with a snapshot every Interval, 1 s by
	// default. Calls do not overlap.
	Report   func(Snapshot)
	Interval time.Duration
}

// Usage counts what a store has used.
type Usage struct {
	Requests   int64   `json:"requests"`
	ReadUnits  float64 `json:"read_units"`
	WriteUnits float64 `json:"write_units"`
}

// Snapshot describes a running test.
type Snapshot struct {
	Elapsed time.Duration
	Users   int
	// Total sums all rows; Rows has one for each type and name of events.
	Total Row
	Rows  []Row
	// Admitted, Refused and Failed count acquires. Failures counts failed calls by
	// kind.
	Admitted, Refused, Failed int64
	Failures                  map[string]int64
	Usage                     *Usage        // nil without a meter
	CPU                       time.Duration // of this process
}

// Row sums events up.
type Row struct {
	Type, Name         string
	Requests, Failures int64
	PerSecond          float64 // over the last interval in a Snapshot, over the test in a Result
	Average, Min, Max  time.Duration
	P50, P95, P99      time.Duration
}

// Result is the outcome of a test.
type Result struct {
	Scenario string
	Snapshot         // of the whole test
	Points   []Point // one for each second
	Promise  Promise
}

// Point describes one second of a test.
type Point struct {
	At                          time.Duration
	Users                       int
	Requests, Refused, Failures int64
	P50, P95, P99               time.Duration
}

// Promise is the result of checking every admission against its limits: over
// any window, admitted less given back is at most capacity plus refill.
type Promise struct {
	Limits, Checks, Broken  int64         // limits and admissions checked, and admissions in excess
	Excess                  int64         // thousandths of the worst one
	Entity, Resource, Limit string        // of the worst one
	CallTime                time.Duration // the longest time between a call's now and its answer, which the check allows for
}

// Run runs a scenario on a store: setup, users, teardown. When ctx ends, Run
// stops the users and returns the result up to then and a nil error.
func Run(ctx context.Context, repo limiter.Repository, s Scenario, opts *Options) (Result, error) {
	panic("not built yet")
}
