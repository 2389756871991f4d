package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Master calls the web API of a Locust master.
type Master struct {
	URL string // such as http://127.0.0.1:8089
	// Client sends the requests; default: [http.DefaultClient].
	Client *http.Client
}

// MasterStats holds the part of the statistics of a Locust master that load
// tests use.
type MasterStats struct {
	State   string         `json:"state"` // such as ready, spawning, running or stopped
	Users   int            `json:"user_count"`
	Workers []MasterWorker `json:"workers"`
	Rows    []MasterRow    `json:"stats"` // the last one sums up all others
}

// MasterWorker is a worker in the list of a Locust master.
type MasterWorker struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Users int    `json:"user_count"`
}

// MasterRow is a row of the statistics of a Locust master. Times are in
// milliseconds.
type MasterRow struct {
	Type     string  `json:"method"`
	Name     string  `json:"name"`
	Requests int64   `json:"num_requests"`
	Failures int64   `json:"num_failures"`
	Average  float64 `json:"avg_response_time"`
	Min      float64 `json:"min_response_time"`
	Max      float64 `json:"max_response_time"`
	P50      float64 `json:"median_response_time"`
	P95      float64 `json:"response_time_percentile_0.95"`
	P99      float64 `json:"response_time_percentile_0.99"`
}

// Running reports whether a test runs.
func (m MasterStats) Running() bool { return m.State == "running" || m.State == "spawning" }

// Connected returns the IDs of the connected workers, each once. The master also
// lists workers that it has lost, and lost connections of others.
func (m MasterStats) Connected() []string {
	var ids []string
	for _, w := range m.Workers {
		id, _, _ := strings.Cut(w.ID, againMark)
		if w.State != "missing" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Total returns the row that sums all others up, and false if there is none.
func (m MasterStats) Total() (MasterRow, bool) {
	if len(m.Rows) == 0 {
		return MasterRow{}, false
	}
	return m.Rows[len(m.Rows)-1], true
}

// MasterTest describes a test for a Locust master to start.
type MasterTest struct {
	Users     int
	SpawnRate float64
	Duration  time.Duration
	Classes   []string // default: all
}

// Stats returns the statistics, which a master computes every 2 s. It waits for
// 10 s at most.
func (m Master) Stats(ctx context.Context) (MasterStats, error) {
	ctx, cancel := context.WithTimeout(ctx, masterTimeout)
	defer cancel()
	var stats MasterStats
	err := m.call(ctx, http.MethodGet, "/stats/requests", nil, &stats)
	return stats, err
}

// Start starts a test. It waits for 10 s at most.
func (m Master) Start(ctx context.Context, t MasterTest) error {
	form := url.Values{
		"user_count": {strconv.Itoa(t.Users)},
		"spawn_rate": {strconv.FormatFloat(t.SpawnRate, 'f', -1, 64)},
	}

	// Locust takes whole seconds, so a part of one is rounded up.
	if t.Duration > 0 {
		form.Set("run_time", strconv.FormatInt(int64((t.Duration+time.Second-1)/time.Second), 10)+"s")
	}

	if len(t.Classes) > 0 {
		form["user_classes"] = t.Classes
	}

	var answer struct {
		Success bool     `json:"success"`
		Message string   `json:"message"`
		Classes []string `json:"user_classes"`
	}

	ctx, cancel := context.WithTimeout(ctx, masterTimeout)
	defer cancel()
	if err := m.call(ctx, http.MethodPost, "/swarm", form, &answer); err != nil {
		return err
	}

	if !answer.Success {
		return fmt.Errorf("the Locust master did not start the test: %s", strings.TrimSpace(answer.Message))
	}

	// A master without the option --class-picker ignores the choice of classes.
	if len(t.Classes) > 0 && len(answer.Classes) != len(t.Classes) {
		return fmt.Errorf("the Locust master runs the classes %q instead of %q; it must be started with --class-picker",
			answer.Classes, t.Classes)
	}

	return nil
}

// Stop stops the test. A master responds after the users have stopped and the
// data of the test are removed; only ctx limits the wait.
func (m Master) Stop(ctx context.Context) error {
	return m.call(ctx, http.MethodPost, "/stop", nil, nil)
}

// masterTimeout limits a request that a master answers at once.
const masterTimeout = 10 * time.Second

// maxStats limits the size of a response.
const maxStats = 16 << 20

// call sends a request and decodes its response into out, unless out is nil.
func (m Master) call(ctx context.Context, method, path string, form url.Values, out any) error {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(m.URL, "/")+path,
		strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}

	client := m.Client
	if client == nil {
		client = http.DefaultClient
	}

	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("call the Locust master: %w", err)
	}
	defer func() { _ = response.Body.Close() }()

	body, err := io.ReadAll(io.LimitReader(response.Body, maxStats))
	switch {
	case err != nil:
		return fmt.Errorf("read the response of the Locust master: %w", err)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("call the Locust master: %s %s: %s", method, path, response.Status)
	case out == nil:
		return nil
	}

	if err := json.Unmarshal(body, out); err != nil {
		return errors.New("the response of the Locust master is not JSON; check that it is one")
	}
	return nil
}
