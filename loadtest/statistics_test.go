package loadtest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

func TestStatistics(t *testing.T) {
	s := loadtest.NewStatistics()
	var recorders sync.WaitGroup
	for range 4 {
		recorders.Go(func() {
			for ms := 1; ms <= 1000; ms++ {
				s.Record(loadtest.Event{
					Type: loadtest.Acquire, Name: "api", Latency: time.Duration(ms) * time.Millisecond,
				})
			}
			s.Record(loadtest.Event{Type: loadtest.RateLimited, Name: "api", Latency: time.Millisecond})
			// longer than the histogram
			s.Record(loadtest.Event{Type: loadtest.Acquire, Name: "api", Latency: time.Hour, Err: limiter.ErrClosed})
		})
	}
	recorders.Wait()
	got := s.Snapshot(10 * time.Second)
	if got.Admitted != 4000 || got.Refused != 4 || got.Failed != 4 {
		t.Errorf("%d admitted, %d refused, %d failed; want 4000, 4 and 4", got.Admitted, got.Refused, got.Failed)
	}
	if diff := cmp.Diff(map[string]int64{"closed": 4}, got.Failures); diff != "" {
		t.Error(diff)
	}
	if len(got.Rows) != 2 || got.Rows[0].Type != "ACQUIRE" || got.Rows[1].Type != "RATE_LIMITED" {
		t.Fatalf("rows %+v, want one for each type", got.Rows)
	}
	row := got.Rows[0]
	near := func(what string, got, want time.Duration) {
		t.Helper()
		if got < want*999/1000 || got > want*1002/1000 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("p50", row.P50, 501*time.Millisecond)
	near("p95", row.P95, 951*time.Millisecond)
	near("p99", row.P99, 991*time.Millisecond)
	near("average", row.Average, (500500*time.Millisecond+time.Hour)/1001)
	if row.Requests != 4004 || row.Failures != 4 || row.Min != time.Millisecond || row.Max != time.Hour ||
		row.PerSecond != 400.4 {
		t.Errorf("%+v", row)
	}
	if total := got.Total; total.Requests != 4008 || total.Failures != 4 || total.PerSecond != 400.8 {
		t.Errorf("total %+v; a refusal counts as success", total)
	}
	if empty := loadtest.NewStatistics().Snapshot(0); empty.Total.Requests != 0 || len(empty.Rows) != 0 {
		t.Errorf("%+v without events", empty)
	}
}
