package aggregator_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
)

// memoryFiles is an archive in memory that may fail before and after a write.
type memoryFiles struct {
	mu     sync.Mutex
	files  map[string][]byte
	writes int
	fault  func() (before, after error)
}

func (s *memoryFiles) Read(_ context.Context, name string) ([]byte, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.files[name]
	if !ok {
		return nil, "", fs.ErrNotExist
	}
	return content, string(content), nil
}

func (s *memoryFiles) Write(_ context.Context, name, version string, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var before, after error
	if s.fault != nil {
		before, after = s.fault()
	}
	if before != nil {
		return before
	}
	if string(s.files[name]) != version {
		return aggregator.ErrChanged
	}
	if s.files == nil {
		s.files = map[string][]byte{}
	}
	s.files[name] = content
	s.writes++
	return after
}

var midnight = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)

func archiver(t *testing.T, files aggregator.Files) *aggregator.Aggregator {
	t.Helper()
	a, err := aggregator.New(newModel(), &aggregator.Options{Archive: files})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// removed returns the removed event with number n.
func removed(n int, at time.Time) aggregator.Event {
	return aggregator.Event{
		AuditEvent: limiter.AuditEvent{
			ID: fmt.Sprintf("01JX%022d", n), Action: "limits_set", Entity: "alice", Principal: "ops", At: at,
			Details: map[string]any{"limits": []any{map[string]any{"name": "rpm", "capacity": int64(n)}}},
		},
		Namespace: "ns-" + string(rune('a'+n%3)), Expired: n%2 == 0,
	}
}

func gunzip(t *testing.T, file []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestArchiveHasEachEventUnderItsDay checks that every event is in the folder of
// its own day, with its namespace and the reason of its removal (O-11, O-12).
func TestArchiveHasEachEventUnderItsDay(t *testing.T) {
	t.Parallel()
	files := &memoryFiles{}
	late := time.Date(2026, time.March, 31, 23, 59, 59, 0, time.UTC)
	anonymous := removed(3, late)
	anonymous.Principal, anonymous.Resource, anonymous.Details = "", "gpt-4", nil
	got := archiver(t, files).Archive(t.Context(), []aggregator.Event{
		removed(1, late.Add(time.Second)), removed(2, late), anonymous,
	})
	if got.Events != 3 || got.Files != 2 || got.Failed != -1 || got.Err != nil {
		t.Errorf("got %+v", got)
	}
	want := map[string]string{
		"audit/year=2026/month=03/day=31/audit-2026-03-31T23.jsonl.gz": `{"event_id":"01JX0000000000000000000002","entity_id":"alice","action":"limits_set","timestamp":"2026-03-31T23:59:59Z","principal":"ops","resource":null,"details":{"limits":[{"capacity":2,"name":"rpm"}]},"namespace_id":"ns-c","deleted_by":"ttl"}
{"event_id":"01JX0000000000000000000003","entity_id":"alice","action":"limits_set","timestamp":"2026-03-31T23:59:59Z","principal":null,"resource":"gpt-4","details":{},"namespace_id":"ns-a","deleted_by":"user"}
`,
		"audit/year=2026/month=04/day=01/audit-2026-04-01T00.jsonl.gz": `{"event_id":"01JX0000000000000000000001","entity_id":"alice","action":"limits_set","timestamp":"2026-04-01T00:00:00Z","principal":"ops","resource":null,"details":{"limits":[{"capacity":1,"name":"rpm"}]},"namespace_id":"ns-b","deleted_by":"user"}
`,
	}
	if diff := cmp.Diff(want, texts(t, files)); diff != "" {
		t.Error(diff)
	}
}

// TestArchiveHasEachEventOnce replays and splits events with random failures. The
// files must be the same as after one pass.
func TestArchiveHasEachEventOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var events []aggregator.Event
		for n := range 1 + rng.IntN(30) {
			events = append(events, removed(n, midnight.Add(time.Duration(rng.IntN(8)-4)*time.Hour)))
		}
		once := &memoryFiles{}
		if got := archiver(t, once).Archive(t.Context(), events); got.Events != len(events) || got.Err != nil {
			t.Fatalf("seed %d: %+v", seed, got)
		}
		often := &memoryFiles{fault: func() (before, after error) {
			faults := []error{nil, nil, nil, errors.New("down"), aggregator.ErrChanged}
			return faults[rng.IntN(len(faults))], faults[rng.IntN(4)]
		}}
		a := archiver(t, often)
		for from := 0; from < len(events); {
			part := events[from : from+1+rng.IntN(len(events)-from)]
			got := a.Archive(t.Context(), part)
			switch {
			case got.Failed < 0 && got.Events == len(part) && got.Err == nil:
				from += len(part)
			case got.Failed >= 0 && got.Err != nil:
				from += got.Failed
			default:
				t.Fatalf("seed %d: %+v of %d", seed, got, len(part))
			}
			if rng.IntN(4) == 0 {
				from = rng.IntN(from + 1)
			}
		}
		often.fault = nil
		if diff := cmp.Diff(texts(t, once), texts(t, often)); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		writes := often.writes
		if got := a.Archive(t.Context(), events); got.Files != 0 || often.writes != writes {
			t.Fatalf("seed %d: existing events were written again: %+v", seed, got)
		}
	}
}

func texts(t *testing.T, s *memoryFiles) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, content := range s.files {
		all[name] = gunzip(t, content)
	}
	return all
}

// TestArchiveCountsOnlyWrittenEvents checks that events that could not be written
// are reported as failed (O-12).
func TestArchiveCountsOnlyWrittenEvents(t *testing.T) {
	t.Parallel()
	files := &memoryFiles{fault: func() (before, after error) { return errors.New("no such bucket"), nil }}
	a := archiver(t, files)
	events := []aggregator.Event{removed(1, midnight), removed(2, midnight.Add(time.Hour))}
	if got := a.Archive(t.Context(), events); got.Events != 0 || got.Files != 0 || got.Failed != 0 ||
		!strings.Contains(fmt.Sprint(got.Err), "no such bucket") {
		t.Errorf("got %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	files.fault = nil
	if got := a.Archive(ctx, events); got.Failed != 0 || !errors.Is(got.Err, context.Canceled) || files.writes != 0 {
		t.Errorf("got %+v with %d writes", got, files.writes)
	}
	if got := archiver(t, nil).Archive(t.Context(), events); got != (aggregator.Archived{Failed: -1}) {
		t.Errorf("without an archive: %+v", got)
	}
}

// TestArchiveLeavesDamagedFilesAlone checks that events go to a second file.
func TestArchiveLeavesDamagedFilesAlone(t *testing.T) {
	t.Parallel()
	const name = "audit/year=2026/month=03/day=01/audit-2026-03-01T00"
	whole := &memoryFiles{}
	archiver(t, whole).Archive(t.Context(), []aggregator.Event{removed(1, midnight)})
	for what, content := range map[string][]byte{
		"not JSON": []byte("{"), "cut off": whole.files[name+".jsonl.gz"][:40], "not gzip": {0x1f, 0x8b, 1, 2, 3},
	} {
		files := &memoryFiles{files: map[string][]byte{name + ".jsonl.gz": content}}
		a := archiver(t, files)
		for range 2 {
			if got := a.Archive(
				t.Context(), []aggregator.Event{removed(1, midnight)},
			); got.Events != 1 || got.Err != nil {
				t.Errorf("%s: got %+v", what, got)
			}
		}
		if !bytes.Equal(files.files[name+".jsonl.gz"], content) {
			t.Errorf("%s: it was overwritten", what)
		}
		if !bytes.Equal(files.files[name+"-2.jsonl.gz"], whole.files[name+".jsonl.gz"]) || len(files.files) != 2 {
			t.Errorf("%s: files are %v", what, slices.Sorted(maps.Keys(files.files)))
		}
	}
}

func TestFolderIsSafeForConcurrentWriters(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "folder")
	var wg sync.WaitGroup
	const writers, each = 4, 10
	for w := range writers {
		folder, err := aggregator.OpenFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		a := archiver(t, folder)
		wg.Go(func() {
			for n := range each {
				for { // until no other writer was faster
					got := a.Archive(t.Context(), []aggregator.Event{removed(w*each+n, midnight)})
					if got.Err == nil {
						break
					}
					if !errors.Is(got.Err, aggregator.ErrChanged) {
						t.Error(got.Err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	content, err := os.ReadFile(filepath.Join(dir, "audit", "year=2026", "month=03", "day=01",
		"audit-2026-03-01T00.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for line := range strings.Lines(gunzip(t, content)) {
		var e struct {
			ID string `json:"event_id"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	if len(ids) != writers*each || len(slices.Compact(slices.Clone(ids))) != len(ids) || !slices.IsSorted(ids) {
		t.Errorf("%d events: %v", len(ids), ids)
	}
}

func TestOpenFolderRefusesAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := aggregator.OpenFolder(file); err == nil {
		t.Error("OpenFolder accepted a file")
	}
}
