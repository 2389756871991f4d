package locust

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

// at returns a time some seconds after a whole second.
func at(seconds float64) time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func TestReportAddsEventsUp(t *testing.T) {
	r := newRecorder()
	r.record(loadtest.Event{Type: "ACQUIRE", Name: "api", At: at(0.5), Latency: 147 * time.Millisecond})
	r.record(loadtest.Event{
		Type: "ACQUIRE", Name: "api", At: at(1.5), Latency: 2 * time.Millisecond, Err: errors.New("throttled"),
	})
	r.record(loadtest.Event{Type: "RATE_LIMITED", Name: "api", At: at(1.25), Latency: 3 * time.Millisecond})
	rep := r.take()
	got := map[string]*entry{}
	for _, e := range rep.Entries {
		got[e.Method] = e
	}
	two, hundred, last := 2.0, 147.0, 1_800_000_001.5
	want := &entry{
		Name: "api", Method: "ACQUIRE", Last: &last, Start: got["ACQUIRE"].Start, Requests: 2, Failures: 1,
		Total: 149, Max: hundred, Min: &two,
		Times: map[int64]int64{150: 1, 2: 1}, PerSecond: map[int64]int64{1_800_000_000: 1, 1_800_000_001: 1},
		FailPerSecond: map[int64]int64{1_800_000_001: 1},
	}
	if diff := cmp.Diff(want, got["ACQUIRE"]); diff != "" {
		t.Error(diff)
	}
	if refused := got["RATE_LIMITED"]; refused.Requests != 1 || refused.Failures != 0 {
		t.Errorf("a refusal counts as %+v", refused)
	}
	if rep.Total.Requests != 3 || rep.Total.Failures != 1 || rep.Total.Total != 152 || rep.Total.Times[3] != 1 {
		t.Errorf("the total is %+v", rep.Total)
	}
	for _, f := range rep.Errors {
		if f.Error != "throttled" || f.Occurrences != 1 || f.First != last || f.Name != "api" || f.Method != "ACQUIRE" {
			t.Errorf("the error is %+v", f)
		}
	}
	if again := r.take(); len(again.Entries)+len(again.Errors) != 0 || again.Total.Requests != 0 ||
		again.Total.Min != nil {
		t.Errorf("the next report has %+v", again)
	}
}

func TestRestoredReportIsAddedToTheNext(t *testing.T) {
	r := newRecorder()
	for i := range 3 {
		r.record(loadtest.Event{
			Type: "ACQUIRE", Name: "api", At: at(float64(i)), Latency: time.Duration(i+1) * time.Millisecond,
			Err: errors.New("throttled"),
		})
		r.restore(r.take())
	}
	rep := r.take()
	if rep.Total.Requests != 3 || rep.Total.Failures != 3 || *rep.Total.Min != 1 || rep.Total.Max != 3 ||
		*rep.Total.Last != seconds(at(2)) || len(rep.Errors) != 1 {
		t.Errorf("%+v", rep.Total)
	}
	for _, f := range rep.Errors {
		if f.Occurrences != 3 || f.First != seconds(at(0)) || f.Last != seconds(at(2)) {
			t.Errorf("%+v", f)
		}
	}
}

// Texts with IDs or numbers must not fill the memory of the master.
func TestErrorTextsAreBounded(t *testing.T) {
	r := newRecorder()
	r.record(loadtest.Event{Type: "ACQUIRE", Name: "api", Err: errors.New(strings.Repeat("é", 10_000))})
	for i := range 1000 {
		r.record(loadtest.Event{Type: "ACQUIRE", Name: "api", Err: fmt.Errorf("entity %d", i)})
	}
	rep := r.take()
	occurrences := int64(0)
	for _, f := range rep.Errors {
		occurrences += f.Occurrences
		if len(f.Error) > maxErrorText+10 {
			t.Errorf("a text has %d bytes", len(f.Error))
		}
	}
	if len(rep.Errors) != maxErrors+1 || occurrences != 1001 {
		t.Errorf("%d texts for %d errors", len(rep.Errors), occurrences)
	}
}

func TestRecorderLosesNothingUnderConcurrency(t *testing.T) {
	r := newRecorder()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				r.record(loadtest.Event{Type: "ACQUIRE", Name: "api", At: at(0), Latency: time.Millisecond})
			}
		})
	}
	total := int64(0)
	for range 50 {
		total += r.take().Total.Requests
	}
	wg.Wait()
	if total += r.take().Total.Requests; total != 8000 {
		t.Errorf("%d of 8000", total)
	}
}
