package loadtest

import "time"

// Usage counts what a store has used.
type Usage struct {
	Requests   int64   `json:"requests"`
	ReadUnits  float64 `json:"read_units"`
	WriteUnits float64 `json:"write_units"`
}

// sub returns what was used since an earlier time.
func (u Usage) sub(earlier Usage) Usage {
	return Usage{u.Requests - earlier.Requests, u.ReadUnits - earlier.ReadUnits, u.WriteUnits - earlier.WriteUnits}
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
	// Late counts tasks of the open model that began more than 10 ms after their
	// intended start, and Waiting those that have not begun yet. In a Result,
	// Waiting counts tasks that never began.
	Late, Waiting int64
	Usage         *Usage // since the users started; nil without a meter
	// CPU is the CPU time of this process since the users started, or 0 if
	// unknown.
	CPU time.Duration
}

// Row sums events up.
type Row struct {
	Type, Name         string
	Requests, Failures int64
	// PerSecond is over the last interval in a Snapshot, and over the test in a
	// Result.
	PerSecond         float64
	Average, Min, Max time.Duration
	P50, P95, P99     time.Duration
}

// Result is the outcome of a test.
type Result struct {
	Scenario string
	Snapshot         // of the whole test
	Points   []Point // one for each second
	Promise  Promise
	// Cancelled reports that tasks were cancelled at the end, because they took
	// longer than Options.StopTimeout.
	Cancelled bool
}

// Point describes one second of a test.
type Point struct {
	At                          time.Duration // the end of the second
	Users                       int
	Requests, Refused, Failures int64
	P50, P95, P99               time.Duration
}

// Promise is the result of checking every admission against its limits: over
// any window, admitted less given back is at most capacity plus refill.
type Promise struct {
	// Limits and Checks count the limits and admissions that were checked, and
	// Broken the admissions in excess.
	Limits, Checks, Broken int64
	// Excess is the worst excess in thousandths.
	Excess                  int64
	Entity, Resource, Limit string // where the worst excess was
	// CallTime is the longest time between a call's now and its answer, which
	// the check allows for.
	CallTime time.Duration
}
