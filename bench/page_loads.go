package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// loadTable is the table of load tests on DynamoDB Local.
const loadTable = "load"

// loadTest is a load test that the program runs.
type loadTest struct {
	backend, store, scenario string
	users                    int
	seconds                  int
}

// pageLoads returns the load tests. Those without waits come first, with the
// number of users for which figures of the reference are published.
func pageLoads(o pageOptions) (all []loadTest) {
	seconds := 8
	if o.quick {
		seconds = 1
	}

	backends := [][2]string{{"memory", "--store memory:"}, {"sqlite", "--store sqlite:load.db"}, {
		"DynamoDB Local", "--name " + loadTable,
	}}
	for _, b := range backends {
		for _, scenario := range []string{
			"max_rps MaxRpsUser", "max_rps MaxRpsCascadeUser", "simple SimpleUser", "llm_gateway", "stress",
		} {
			all = append(all, loadTest{b[0], b[1], scenario, 10, seconds})
		}
	}
	return all
}

// args returns the command line without the program.
func (l *loadTest) args() string {
	return fmt.Sprintf("loadtest local %s %s --users %d --spawn-rate %d --duration %ds", l.scenario, l.store,
		l.users, l.users, l.seconds)
}

func loadRows(ctx context.Context, o pageOptions) (_ []pageRow, err error) {
	// The program runs in a folder of its own.
	program, err := filepath.Abs(o.program)
	if err != nil {
		return nil, err
	}

	// The engine takes long to start, so the program is looked for first.
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("there is no program to run load tests; make build creates it: %w", err)
	}

	engine, endpoint, err := startServer(ctx, pageConfig(o).engine, "run")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, engine.close()) }()

	cfg := awsConfig()
	if err := dynamo.CreateTable(ctx, loadTable, &dynamo.Options{Endpoint: endpoint, AWS: &cfg}); err != nil {
		return nil, err
	}

	folder, err := os.MkdirTemp("", "zae-limiter-report-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()

	var rows []pageRow
	for _, l := range pageLoads(o) {
		row, err := l.run(ctx, program, folder, endpoint)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.args(), err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// loadResult holds the needed fields of the program's JSON. Times are in
// milliseconds.
type loadResult struct {
	Calls []struct {
		Type     string  `json:"type"`
		Requests int     `json:"requests"`
		RPS      float64 `json:"requests_per_second"`
		P50      float64 `json:"p50"`
		P95      float64 `json:"p95"`
		P99      float64 `json:"p99"`
	} `json:"calls"`
	Seconds    float64 `json:"duration_seconds"`
	CPU        float64 `json:"client_cpu_percent"`
	Requests   int     `json:"total_requests"`
	Failures   int     `json:"total_failures"`
	Refused    int     `json:"refused"`
	PerAcquire *struct {
		Requests   float64 `json:"requests"`
		WriteUnits float64 `json:"write_units"`
	} `json:"per_acquire"`
	Promise struct {
		Held bool `json:"held"`
	} `json:"promise"`
}

// row returns the acquires of a test.
func (r *loadResult) row() (pageRow, error) {
	// The speed of a limiter that failed or admitted too much means nothing.
	if !r.Promise.Held || r.Failures > 0 {
		return pageRow{}, fmt.Errorf("%d calls failed, promise kept: %v", r.Failures, r.Promise.Held)
	}

	const ms = float64(time.Millisecond)
	var row pageRow

	for _, c := range r.Calls {
		// Where a scenario has several resources, the percentiles are of the
		// busiest.
		if c.Type == "ACQUIRE" && c.Requests > row.calls {
			row.p50, row.p95, row.p99 = c.P50*ms, c.P95*ms, c.P99*ms
		}
		if c.Type == "ACQUIRE" || c.Type == "RATE_LIMITED" {
			row.calls += c.Requests
			row.perSecond += c.RPS
		}
	}

	// The percentage of the duration is the CPU time of all requests.
	row.cpu = r.CPU / 100 * r.Seconds * float64(time.Second) / float64(max(1, r.Requests))
	var notes []string
	if r.Refused > 0 {
		notes = append(notes, fmt.Sprintf("%.1f %% refused", 100*float64(r.Refused)/float64(max(1, row.calls))))
	}
	if r.PerAcquire != nil {
		notes = append(notes,
			fmt.Sprintf("%.2f requests and %.2f write units per acquire", r.PerAcquire.Requests,
				r.PerAcquire.WriteUnits))
	}

	row.notes = strings.Join(notes, "; ")
	return row, nil
}

func (l *loadTest) run(ctx context.Context, program, folder, endpoint string) (pageRow, error) {
	cmd := exec.CommandContext(ctx, program, append(strings.Fields(l.args()), "--json")...)
	// The path of the SQLite file among the arguments is relative.
	cmd.Dir = folder
	cmd.Env = append(pythonEnv(), "AWS_ENDPOINT_URL="+endpoint, "AWS_DEFAULT_REGION="+awsRegion)

	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return pageRow{}, fmt.Errorf("%w: %s", err, errs.String())
	}

	var got loadResult
	if err := json.Unmarshal(out, &got); err != nil {
		return pageRow{}, err
	}

	row, err := got.row()
	row.what, row.callers, row.command = l.backend+": "+l.scenario, l.users, "zae-limiter "+l.args()
	return row, err
}
