package lambda

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recordedUsage returns the usage in the recorded stream: three requests of 500
// tokens by a key with a cascade to its project. One request gave back 120
// tokens, another one all.
func recordedUsage() map[string]int64 {
	want := map[string]int64{}
	for _, entity := range []string{"key-a", "proj-1"} {
		for _, window := range []string{"hourly", "daily", "monthly"} {
			want[entity+" rpm "+window], want[entity+" tok-ens.in "+window], want[entity+" events "+window] = 2, 880, 5
		}
	}
	return want
}

// wantRecordedUsage checks that both namespaces have the recorded usage.
func (r *rig) wantRecordedUsage(what string) {
	r.Helper()
	for _, namespace := range []string{"default", "tenant-b"} {
		if diff := cmp.Diff(recordedUsage(), r.usage(namespace)); diff != "" {
			r.Errorf("%s, %s: %s", what, namespace, diff)
		}
	}
}

// wantSuccess checks that an invocation handles all records.
func (r *rig) wantSuccess(what string, event json.RawMessage) {
	r.Helper()
	got, err := r.invoke(r.Context(), event)
	if err != nil || len(got.Failures) > 0 {
		r.Errorf("%s: %v, %v\n%s", what, got, err, &r.log)
	}
}

func TestRecordedEventIsCounted(t *testing.T) {
	r := newRig(t)
	event := r.event("stream.json")
	for _, what := range []string{"once", "replayed", "and again"} {
		r.wantSuccess(what, event)
		r.wantRecordedUsage(what)
	}
	archived := r.archived()
	slices.Sort(archived)
	if diff := cmp.Diff([]string{
		"audit-2026-11-15T12.jsonl.gz 0X66E2 default ttl",
		"audit-2026-11-15T12.jsonl.gz E5MYKS tenant-b user",
		"audit-2026-11-15T12.jsonl.gz F6RZVC default user",
		"audit-2026-11-15T12.jsonl.gz WB9N3C default ttl",
		"audit-2026-11-16T00.jsonl.gz 4ZS296 tenant-b user",
		"audit-2026-11-16T00.jsonl.gz VJTJPZ tenant-b ttl",
	}, archived); diff != "" {
		t.Error(diff)
	}
}

// splitEvent returns the records of an event.
func splitEvent(t *testing.T, event json.RawMessage) (records []json.RawMessage) {
	t.Helper()
	var e struct{ Records []json.RawMessage }
	if err := json.Unmarshal(event, &e); err != nil {
		t.Fatal(err)
	}
	return e.Records
}

// joinEvent returns an event with the given records.
func joinEvent(t *testing.T, records []json.RawMessage) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"Records": records})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// An event source mapping that retries from the reported record counts every
// change once and archives every event once, whatever fails.
func TestFailuresAreRetriedFromTheFirst(t *testing.T) {
	r := newRig(t)
	all := splitEvent(t, r.event("stream.json"))
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var mu sync.Mutex
		chance := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return rng.IntN(4) == 0
		}
		r.failRequests(func(op, _ string) bool { return op == "UpdateItem" && chance() })
		for from := 0; from < len(all); {
			part := all[from : from+1+rng.IntN(len(all)-from)]
			if chance() {
				r.s3.Refuse("SlowDown")
			}
			got, err := r.invoke(t.Context(), joinEvent(t, part))
			r.s3.Refuse("")
			switch {
			case err != nil:
				t.Fatal(err)
			case len(got.Failures) == 0:
				from += len(part)
			default:
				from += indexOf(t, part, got.Failures[0].Sequence)
			}
		}
		r.failRequests(func(string, string) bool { return false })
		r.wantRecordedUsage(fmt.Sprint("seed ", seed))
	}
	if got := r.archived(); len(got) != 6 {
		t.Errorf("archived %v", got)
	}
}

// indexOf returns the index of the record with a sequence number.
func indexOf(t *testing.T, records []json.RawMessage, sequence string) int {
	t.Helper()
	for i, raw := range records {
		if bytes.Contains(raw, []byte(`"SequenceNumber":"`+sequence+`"`)) {
			return i
		}
	}
	t.Fatalf("%q is reported as failed, but the event does not hold it", sequence)
	return 0
}

// archived returns the events of the archive, each with its file.
func (r *rig) archived() (all []string) {
	r.Helper()
	for name, content := range r.s3.Objects() {
		unpacked, err := gzip.NewReader(bytes.NewReader(content))
		r.ok(err)
		text, err := io.ReadAll(unpacked)
		r.ok(err)
		for line := range strings.Lines(string(text)) {
			var e struct {
				ID        string `json:"event_id"`
				Namespace string `json:"namespace_id"`
				DeletedBy string `json:"deleted_by"`
			}
			r.ok(json.Unmarshal([]byte(line), &e))
			namespace := map[string]string{r.first: "default", r.tenant: "tenant-b"}[e.Namespace]
			all = append(all, fmt.Sprintf("%s %s %s %s", path.Base(name), e.ID[20:], namespace, e.DeletedBy))
		}
	}
	return all
}

// Unusable records are logged and skipped, and all records after them are
// counted.
func TestUnusableRecordsAreSkipped(t *testing.T) {
	r := newRig(t)
	event := r.event("poison.json")
	r.wantSuccess("poison", event)
	want := recordedUsage()
	for name := range want {
		if strings.HasPrefix(name, "key-a") {
			delete(want, name)
		}
	}
	if diff := cmp.Diff(want, r.usage("default")); diff != "" {
		t.Error(diff)
	}
	var warned []float64
	for _, line := range r.lines("Error processing record: ") {
		warned = append(warned, line["record_index"].(float64))
	}
	const poison = 25
	seen := map[float64]bool{}
	for _, index := range warned {
		seen[index] = true
	}
	for i := 1; i <= poison; i++ {
		if !seen[float64(i)] {
			t.Errorf("record %d was skipped without a warning: %s", i, splitEvent(t, event)[i])
		}
	}
	if len(warned) != poison {
		t.Errorf("warned of %v", warned)
	}
}

func TestNothingIsLostWhenTheTableCannotBeReached(t *testing.T) {
	r := newRig(t)
	r.failRequests(func(string, string) bool { return true })
	event := r.event("stream.json")
	got, err := r.invoke(t.Context(), event)
	if err != nil || len(got.Failures) != 1 || indexOf(t, splitEvent(t, event), got.Failures[0].Sequence) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	r.env["TABLE_NAME"] = "missing"
	if got, err := r.invoke(t.Context(), event); err != nil || len(got.Failures) != 1 {
		t.Errorf("without a table: %v, %v", got, err)
	}
	if _, err := r.invoke(t.Context(), json.RawMessage(`{"Records":[{"eventName":"MODIFY"}]}`)); err == nil {
		t.Error("a record without a number cannot be reported as failed, so the invocation must fail")
	}
}

// A record without a sequence number cannot be reported, so the invocation fails
// with the reason until the archive accepts the event.
func TestEventWithoutANumberIsNotLost(t *testing.T) {
	r := newRig(t)
	event := json.RawMessage(`{"Records":[{"eventName":"REMOVE","dynamodb":{"OldImage":{"PK":{"S":"n/AUDIT#a"},"SK":{"S":"#AUDIT#01M7FKB7FQYW9K6Q3RYHWB9N3C"},` +
		`"action":{"S":"limits_set"},"timestamp":{"S":"2026-11-15T12:00:00Z"}}}}]}`)
	r.s3.Refuse("AccessDenied")
	if _, err := r.invoke(t.Context(), event); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("got %v", err)
	}
	r.s3.Refuse("")
	r.wantSuccess("once it may", event)
	if got := r.archived(); len(got) != 1 {
		t.Errorf("archived %v", got)
	}
}

// Writes end early enough to report the records that are left.
func TestTimeIsLeftToRespond(t *testing.T) {
	began := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	base, cancelBase := context.WithDeadline(t.Context(), began.Add(time.Minute))
	defer cancelBase()
	ctx, cancel := withReserve(base, began)
	defer cancel()
	if end, _ := ctx.Deadline(); end.Sub(began) != 54*time.Second {
		t.Errorf("ends after %v of a minute", end.Sub(began))
	}
	r := newRig(t)
	event := r.event("stream.json")
	over, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	if got, err := r.invoke(over, event); err != nil || len(got.Failures) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	if got := r.usage("default"); len(got) > 0 {
		t.Errorf("counted %v", got)
	}
}

func TestInvalidEvents(t *testing.T) {
	r := newRig(t)
	for _, event := range []string{
		`{}`, `{"Records":[]}`, `{"Records":null}`,
		`{"requestContext":{"condition":"RetryAttemptsExhausted"},"DDBStreamBatchInfo":{}}`,
	} {
		r.wantSuccess(event, json.RawMessage(event))
	}
	for _, event := range []string{`"text"`, `[]`, `{"Records":{}}`, `{`} {
		if got, err := r.invoke(t.Context(), json.RawMessage(event)); err == nil {
			t.Errorf("%s: %v", event, got)
		}
	}
}
