package limiter_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

func TestWindowBounds(t *testing.T) {
	at := time.Date(2024, 2, 29, 0, 30, 15, 7, time.FixedZone("+1", 3600)) // 2024-02-28 23:30 UTC
	utc := func(day, h, m, s int) time.Time { return time.Date(2024, 2, day, h, m, s, 0, time.UTC) }
	for _, c := range []struct {
		window     limiter.Window
		start, end time.Time
	}{
		{limiter.Hourly, utc(28, 23, 0, 0), utc(28, 23, 59, 59)},
		{limiter.Daily, utc(28, 0, 0, 0), utc(28, 23, 59, 59)},
		{limiter.Monthly, utc(1, 0, 0, 0), utc(29, 23, 59, 59)},
		{"weekly", at, at},
	} {
		start, end := c.window.Bounds(at)
		if !start.Equal(c.start) || !end.Equal(c.end) {
			t.Errorf("%s: %v to %v", c.window, start, end)
		}
	}
}

func usage(
	entity string, window limiter.Window, at time.Time, events int64, counters map[string]int64,
) limiter.UsageSnapshot {
	start, end := window.Bounds(at)
	return limiter.UsageSnapshot{
		Entity: entity, Resource: resource, Window: window, Start: start, End: end, Counters: counters,
		Events: events,
	}
}

func (w *world) wantUsage(t *testing.T, q limiter.UsageQuery, want ...limiter.UsageSnapshot) {
	t.Helper()
	if diff := cmp.Diff(want, collect(t, w.Usage(bg, q))); diff != "" {
		t.Errorf("%+v:\n%s", q, diff)
	}
}

// TestUsageIsNetConsumption checks that usage is the net consumption of each
// hour, day and month.
func TestUsageIsNetConsumption(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000), limiter.PerDay("tpm", 100_000))
	w.family(t)
	w.take(t, alice, rpm(1).And("tpm", 500))
	lease := w.take(t, alice, rpm(1))
	check(t, lease.Adjust(tpm(40)))
	check(t, lease.Commit(bg))
	check(t, w.take(t, alice, rpm(5)).Rollback(bg))
	w.refuse(t, rpm(10_000)) // a refusal is not usage
	w.take(t, alice, rpm(0)) // neither is an amount of 0
	later := noon.Add(90 * time.Minute)
	w.clock.pass(90 * time.Minute)
	w.take(t, alice, tpm(3))

	first, second := map[string]int64{"rpm": 2, "tpm": 540}, map[string]int64{"tpm": 3}
	total := map[string]int64{"rpm": 2, "tpm": 543}
	for _, e := range []string{alice, project} { // the parent pays the same
		w.wantUsage(t, limiter.UsageQuery{Entity: e},
			usage(e, limiter.Hourly, later, 1, second),
			usage(e, limiter.Hourly, noon, 5, first),
			usage(e, limiter.Daily, noon, 6, total),
			usage(e, limiter.Monthly, noon, 6, total),
		)
		w.wantUsage(t, limiter.UsageQuery{Entity: e, Resource: "other"})
	}
	w.wantUsage(t, limiter.UsageQuery{Resource: resource, Window: limiter.Daily},
		usage(alice, limiter.Daily, noon, 6, total), usage(project, limiter.Daily, noon, 6, total))
	hour, _ := limiter.Hourly.Bounds(later)
	q := limiter.UsageQuery{Entity: alice, Window: limiter.Hourly, From: hour}
	w.wantUsage(t, q, usage(alice, limiter.Hourly, later, 1, second)) // bounds are inclusive
	q.From, q.To = time.Time{}, hour.Add(-time.Nanosecond)
	w.wantUsage(t, q, usage(alice, limiter.Hourly, noon, 5, first))
	q.To = hour
	w.wantUsage(t, q, usage(alice, limiter.Hourly, later, 1, second), usage(alice, limiter.Hourly, noon, 5, first))
}

// TestUsageAtMidnight checks that windows that start together are separate.
func TestUsageAtMidnight(t *testing.T) {
	w := start(t, limiter.PerDay("rpm", 1000))
	midnight := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	w.clock.at = midnight
	w.take(t, alice, rpm(1))
	w.clock.pass(time.Hour)
	w.take(t, alice, rpm(2))
	one, two, three := map[string]int64{"rpm": 1}, map[string]int64{"rpm": 2}, map[string]int64{"rpm": 3}
	w.wantUsage(t, limiter.UsageQuery{Entity: alice},
		usage(alice, limiter.Hourly, midnight.Add(time.Hour), 1, two),
		usage(alice, limiter.Daily, midnight, 2, three),
		usage(alice, limiter.Hourly, midnight, 1, one),
		usage(alice, limiter.Monthly, midnight, 2, three),
	)
}

func TestUsageOutlivesItsBucket(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 10))
	w.take(t, alice, rpm(4))
	w.clock.pass(24 * time.Hour)
	w.take(t, "bob", rpm(1))
	if n := w.buckets(t, alice); n != 0 {
		t.Fatalf("%d buckets", n)
	}
	w.wantUsage(t, limiter.UsageQuery{Entity: alice, Window: limiter.Daily},
		usage(alice, limiter.Daily, noon, 1, map[string]int64{"rpm": 4}))
}
