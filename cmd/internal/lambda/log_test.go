package lambda

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Details of every write are logged at the level DEBUG only.
func TestDetailsAreLoggedOnRequest(t *testing.T) {
	r := newRig(t)
	event := r.event("stream.json")
	r.env["LOG_LEVEL"] = ""
	r.wantSuccess("by default", event)
	if got := len(r.lines("Snapshot updated")) + len(r.lines("Bucket refilled")); got > 0 {
		t.Errorf("%d lines of details", got)
	}
	r.env["LOG_LEVEL"] = "DEBUG"
	r.wantSuccess("with details", event)
	lines := r.lines("Snapshot updated")
	if len(lines) == 0 {
		t.Fatal("no details")
	}
	for _, field := range []string{
		"entity_id", "resource", "limit_name", "window", "window_key", "tokens_delta", "timestamp", "level",
		"logger",
	} {
		if lines[0][field] == nil {
			t.Errorf("%v has no %s", lines[0], field)
		}
	}
	r.env["LOG_LEVEL"] = "ERROR"
	r.wantSuccess("in silence", event)
	if r.log.Len() > 0 {
		t.Errorf("logged %s", &r.log)
	}
}

// Dashboards depend on these messages and fields.
func TestInvocationIsSummarized(t *testing.T) {
	r := newRig(t)
	r.wantSuccess("stream", r.event("stream.json"))
	for message, fields := range map[string]string{
		"Lambda invocation started": "archive_bucket enable_archival function_name record_count request_id " +
			"snapshot_windows table_name",
		"Lambda invocation completed": "error_count events_archived processed processing_time_ms " +
			"refills_written request_id s3_objects_created snapshots_updated",
		"Batch processing started": "record_count table_name windows",
		"Batch processing completed": "deltas_extracted error_count processed_count processing_time_ms " +
			"refills_written snapshots_updated",
		"S3 object created": "bucket key size_bytes",
	} {
		lines := r.lines(message)
		if len(lines) == 0 {
			t.Errorf("no line %q", message)
			continue
		}
		got := slices.DeleteFunc(slices.Sorted(maps.Keys(lines[0])), func(field string) bool {
			return slices.Contains([]string{"level", "logger", "message", "timestamp"}, field)
		})
		if diff := cmp.Diff(strings.Fields(fields), got); diff != "" {
			t.Errorf("%s: %s", message, diff)
		}
	}
	done := r.lines("Lambda invocation completed")[0]
	for field, want := range map[string]float64{
		"processed": 44, "snapshots_updated": 12, "events_archived": 6, "s3_objects_created": 2,
		"error_count": 0,
	} {
		if done[field] != want {
			t.Errorf("%s is %v; want %v", field, done[field], want)
		}
	}
}

func TestLogLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := newLog(&out, slog.LevelInfo, "aggregator")
	log.Debug("hidden")
	log.Warn("shown", "timestamp_of", "x", "n", 17)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	stamp, _ := line["timestamp"].(string)
	if _, err := time.Parse("2006-01-02T15:04:05.000000Z", stamp); err != nil {
		t.Error(err)
	}
	delete(line, "timestamp")
	want := map[string]any{
		"level": "WARNING", "logger": "zae_limiter.aggregator", "message": "shown", "timestamp_of": "x",
		"n": 17.0,
	}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Error(diff)
	}
}
