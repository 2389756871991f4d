package loadtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// statistics is the answer of a Locust 2.47 master, without the fields that
// nothing reads.
const statistics = `{"state": "running", "user_count": 7, "worker_count": 2, "workers": [
  {"id": "lambda_1", "state": "running", "user_count": 4, "cpu_usage": 3.1, "memory_usage": 1},
  {"id": "lambda_1~2", "state": "running", "user_count": 0, "cpu_usage": 0, "memory_usage": 0},
  {"id": "lambda_2", "state": "missing", "user_count": 0, "cpu_usage": 0, "memory_usage": 0},
  {"id": "lambda_3", "state": "spawning", "user_count": 3, "cpu_usage": 0, "memory_usage": 0}],
 "stats": [
  {"method": "ACQUIRE", "name": "api", "num_requests": 10, "num_failures": 1, "median_response_time": 5},
  {"method": "", "name": "Aggregated", "num_requests": 12, "num_failures": 1, "avg_response_time": 6.5, "min_response_time": 1, "max_response_time": 44,
   "median_response_time": null, "response_time_percentile_0.95": 31, "response_time_percentile_0.99": 44}]}`

func TestMasterStats(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, map[string]string{"/stats/requests": statistics}[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	stats, err := Master{URL: server.URL + "/"}.Stats(t.Context())
	if err != nil || !stats.Running() || stats.Users != 7 {
		t.Errorf("%+v, %v", stats, err)
	}
	if diff := cmp.Diff([]string{"lambda_1", "lambda_3"}, stats.Connected()); diff != "" {
		t.Error(diff)
	}
	total, ok := stats.Total()
	want := MasterRow{Name: "Aggregated", Requests: 12, Failures: 1, Average: 6.5, Min: 1, Max: 44, P95: 31, P99: 44}
	if diff := cmp.Diff(want, total); !ok || diff != "" {
		t.Error(diff)
	}
	if _, ok := (MasterStats{}).Total(); ok {
		t.Error("a master without rows has a total")
	}
}

func TestMasterStart(t *testing.T) {
	var got url.Values
	answer := `{"success": true, "message": "Swarming started", "user_classes": ["A", "B"]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		got = r.PostForm
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	m := Master{URL: server.URL}
	test := MasterTest{Users: 20, SpawnRate: 0.5, Duration: 1500 * time.Millisecond, Classes: []string{"A", "B"}}
	if err := m.Start(t.Context(), test); err != nil {
		t.Error(err)
	}
	want := url.Values{"user_count": {"20"}, "spawn_rate": {"0.5"}, "run_time": {"2s"}, "user_classes": {"A", "B"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		`{"success": true, "message": "Swarming started"}`: "must be started with --class-picker",
		`{"success": false, "message": "no workers"}`:      "did not start the test: no workers",
		`<html>`: "is not JSON",
	} {
		answer = text
		if err := m.Start(t.Context(), test); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	server.Close()
	if err := m.Stop(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "call the Locust master: ") {
		t.Error(err)
	}
}

// A master may take longer to stop a test than to respond to anything else.
func TestMasterStopTakesItsTime(t *testing.T) {
	limits := map[string]bool{}
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		_, limits[r.URL.Path] = r.Context().Deadline()
		return &http.Response{
			StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"success": true}`)),
		}, nil
	})}
	m := Master{URL: "http://master", Client: client}
	_, statsErr := m.Stats(t.Context())
	for _, err := range []error{
		statsErr, m.Start(t.Context(), MasterTest{Users: 1, SpawnRate: 1}), m.Stop(t.Context()),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(map[string]bool{"/stats/requests": true, "/swarm": true, "/stop": false}, limits); diff != "" {
		t.Error(diff)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
