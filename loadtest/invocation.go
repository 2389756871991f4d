package loadtest

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Modes of the worker function.
const (
	ModeHeadless = "headless" // run users and return statistics
	ModeWorker   = "worker"   // run users for a Locust master
)

// Invocation is the request to the worker function.
type Invocation struct {
	Config InvocationConfig `json:"config"`
}

// InvocationConfig configures an invocation of the worker function. The zero value
// of a field is its default.
type InvocationConfig struct {
	Mode string `json:"mode,omitempty"` // default ModeHeadless
	// Locustfile names the scenario. Default: the value of LOCUSTFILE, else
	// locustfile.py.
	Locustfile string `json:"locustfile,omitempty"`
	// UserClasses lists the classes, separated by commas. Default: the value of
	// LOCUST_USER_CLASSES, else all.
	UserClasses string `json:"user_classes,omitempty"`

	Users           int     `json:"users,omitempty"`            // default 10
	SpawnRate       float64 `json:"spawn_rate,omitempty"`       // users a second; default 5
	DurationSeconds float64 `json:"duration_seconds,omitempty"` // default 60

	MasterHost string `json:"master_host,omitempty"` // required by ModeWorker
	MasterPort int    `json:"master_port,omitempty"` // default 5557
	// JoinBefore is the time in Unix seconds until which a worker of ModeWorker may
	// begin. A later one ends at once, since it has a successor. Default: no limit.
	JoinBefore int64 `json:"join_before,omitempty"`

	// TargetStackName is the stack of the table. Default: the value of
	// TARGET_STACK_NAME.
	TargetStackName string `json:"target_stack_name,omitempty"`
	// Region is the region of the stack. Default: the value of TARGET_REGION.
	Region           string   `json:"region,omitempty"`
	BaselineRPM      *float64 `json:"baseline_rpm,omitempty"`
	SpikeRPM         *float64 `json:"spike_rpm,omitempty"`
	SpikeProbability *float64 `json:"spike_probability,omitempty"`

	// PoolConnections is the number of connections to the table that are kept.
	// Default: the value of BOTO3_MAX_POOL, else 1000.
	PoolConnections int `json:"pool_connections,omitempty"`
	// TestID identifies a test that its caller may stop; see [StopNamespace].
	TestID string `json:"test_id,omitempty"`
}

// StopNamespace returns the name of the namespace that stops a test of
// ModeHeadless: a function cannot be cancelled, so its caller registers this
// namespace in the table, and the function looks for it every five seconds.
func StopNamespace(testID string) string { return "loadtest-stop-" + testID }

// Classes returns the names in UserClasses.
func (c InvocationConfig) Classes() []string {
	return strings.FieldsFunc(c.UserClasses, func(r rune) bool { return r == ',' || r == ' ' })
}

// Duration returns DurationSeconds or its default.
func (c InvocationConfig) Duration() time.Duration {
	return time.Duration(cmp.Or(c.DurationSeconds, 60) * float64(time.Second))
}

// Validate returns a *[limiter.InvalidError] for the first invalid field.
func (c InvocationConfig) Validate() error {
	switch {
	case c.Mode != "" && c.Mode != ModeHeadless && c.Mode != ModeWorker:
		return invalid("mode", c.Mode, "must be headless or worker")
	case c.Users < 0:
		return invalid("users", fmt.Sprint(c.Users), "must be 1 or more")
	case c.SpawnRate < 0:
		return invalid("spawn_rate", fmt.Sprint(c.SpawnRate), "must be above 0")
	case c.DurationSeconds < 0:
		return invalid("duration_seconds", fmt.Sprint(c.DurationSeconds), "must be above 0")
	case c.Mode == ModeWorker && c.MasterHost == "":
		return invalid("master_host", "", "must be the address of the master in mode worker")
	case c.MasterPort < 0 || c.MasterPort > math.MaxUint16:
		return invalid("master_port", fmt.Sprint(c.MasterPort), "must be from 1 to 65535")
	}
	return nil
}

// WorkerSummary is the response of the worker function in ModeHeadless. Times are
// in milliseconds, FailureRate is a share.
type WorkerSummary struct {
	Requests    int64   `json:"total_requests"`
	Failures    int64   `json:"total_failures"`
	FailureRate float64 `json:"failure_rate"`
	RPS         float64 `json:"requests_per_second"`
	Average     float64 `json:"avg_response_time"`
	Min         float64 `json:"min_response_time"`
	Max         float64 `json:"max_response_time"`
	P50         float64 `json:"p50"`
	P95         float64 `json:"p95"`
	P99         float64 `json:"p99"`
}

// Summary returns the result as the worker function does.
func (r Result) Summary() WorkerSummary {
	t := r.Total
	s := WorkerSummary{
		Requests: t.Requests, Failures: t.Failures, RPS: t.PerSecond, Average: milliseconds(t.Average),
		Min: milliseconds(t.Min), Max: milliseconds(t.Max),
		P50: milliseconds(t.P50), P95: milliseconds(t.P95), P99: milliseconds(t.P99),
	}
	s.FailureRate = share(s.Failures, s.Requests)
	return s
}

// Summary returns the statistics of a test that ran for so long.
func (m MasterStats) Summary(elapsed time.Duration) WorkerSummary {
	t, _ := m.Total()
	s := WorkerSummary{
		Requests: t.Requests, Failures: t.Failures, Average: t.Average, Min: t.Min, Max: t.Max, P50: t.P50,
		P95: t.P95, P99: t.P99,
	}

	s.FailureRate = share(s.Failures, s.Requests)
	// The rate that Locust itself reports covers only the last seconds of a
	// test.
	if elapsed > 0 {
		s.RPS = float64(s.Requests) / elapsed.Seconds()
	}

	return s
}

// Measurement returns the summary as Tune uses it.
func (s WorkerSummary) Measurement() Measurement {
	return Measurement{
		Requests: s.Requests, Failures: s.Failures, RPS: s.RPS, P50: fromMilliseconds(s.P50),
		P95: fromMilliseconds(s.P95), P99: fromMilliseconds(s.P99),
	}
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func fromMilliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// WorkerEnd is the response of the worker function in ModeWorker.
type WorkerEnd struct {
	// Status is worker_completed, or worker_expired if the worker began too
	// late.
	Status string `json:"status"`
	Worker string `json:"worker_id"`
}

// WorkerID returns the ID of a worker, given the ID of the request that invoked
// its function.
func WorkerID(request string) string { return "lambda_" + request[:min(8, len(request))] }

// againMark separates the ID of a worker from the number of its connection.
const againMark = "~"

// WorkerAgain returns the name of a worker for its connection with a number from 1.
// The first name is its ID.
func WorkerAgain(id string, connection int) string {
	if connection <= 1 {
		return id
	}
	return id + againMark + strconv.Itoa(connection)
}
