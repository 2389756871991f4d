package jsonview

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// TestUsedIsWhatWasUsed checks that a raised limit does not count as used, and that
// a window counts from its start on.
func TestUsedIsWhatWasUsed(t *testing.T) {
	ctx := context.Background()
	now := time.Date(2026, time.March, 3, 15, 30, 0, 0, time.UTC)
	lim, err := limiter.New(memory.New(nil), &limiter.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	set := func(rpm int64) {
		t.Helper()
		err := lim.SetLimits(ctx, "key", "gpt-4", limiter.PerMinute("rpm", rpm), limiter.PerDay("rpd", 1000),
			limiter.Quota("tokens", 1000, limiter.EveryMonth).In("Asia/Tokyo"),
			limiter.Quota("spend", 1_000_000, limiter.EveryYear))
		if err != nil {
			t.Fatal(err)
		}
	}
	take := func(at time.Time, n int64) {
		t.Helper()
		before := now
		now = at
		lease, err := lim.Acquire(ctx, limiter.Request{
			Entity: "key", Resource: "gpt-4",
			Consume: limiter.Tokens("rpm", n).And("rpd", n).And("tokens", n).And("spend", n*1000),
		})
		if err == nil {
			err = lease.Commit(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		now = before
	}
	set(40)
	take(time.Date(2026, time.January, 15, 8, 0, 0, 0, time.UTC), 1)
	take(time.Date(2026, time.February, 28, 14, 59, 0, 0, time.UTC), 2) // the last minute of February in Tokyo
	take(time.Date(2026, time.February, 28, 15, 0, 0, 0, time.UTC), 4)
	take(time.Date(2026, time.March, 1, 1, 0, 0, 0, time.UTC), 8)
	take(time.Date(2026, time.March, 3, 14, 0, 0, 0, time.UTC), 16)
	take(now, 3)
	set(100)

	_, statuses, err := ReadStatuses(ctx, lim, "key", "")
	if err != nil {
		t.Fatal(err)
	}
	used, err := ReadUsed(ctx, lim, now, statuses)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Used{}
	for i, s := range statuses {
		got[s.Limit.Name] = used[i]
		if object := NewStatus(s); s.Limit.Name == "rpm" && (object.Available != 37 || object.Missing != 63) {
			t.Errorf("rpm: %d available, %d missing", object.Available, object.Missing)
		}
	}
	day := func(month time.Month, day, hour int) time.Time {
		return time.Date(2026, month, day, hour, 0, 0, 0, time.UTC)
	}
	want := map[string]Used{
		"rpm":    {3, day(time.March, 3, 15)},
		"rpd":    {19, day(time.March, 3, 0)},
		"tokens": {31, day(time.February, 28, 15)},
		"spend":  {34_000, day(time.January, 1, 0)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}

// TestUsedOfNothing checks that what was never counted is absent.
func TestUsedOfNothing(t *testing.T) {
	ctx := context.Background()
	lim, err := limiter.New(memory.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := lim.SetLimits(
		ctx, "key", "gpt-4", limiter.PerMinute("rpm", 5), limiter.Quota("tokens", 5, limiter.EveryMonth),
	); err != nil {
		t.Fatal(err)
	}
	_, statuses, err := ReadStatuses(ctx, lim, "key", "")
	if err != nil {
		t.Fatal(err)
	}
	used, err := ReadUsed(ctx, lim, time.Now(), statuses)
	if diff := cmp.Diff([]Used{{}, {}}, used); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestPartsSince(t *testing.T) {
	now := time.Date(2026, time.March, 3, 15, 30, 0, 0, time.UTC)
	for since, want := range map[string]string{
		"2026-03-03T15:00:00Z": "hourly 2026-03-03T15:00:00Z..2026-03-03T15:30:00Z",
		"2026-03-03T00:00:00Z": "daily 2026-03-03T00:00:00Z..2026-03-03T15:30:00Z",
		"2026-03-01T00:00:00Z": "monthly 2026-03-01T00:00:00Z..2026-03-03T15:30:00Z",
		"2026-02-28T15:00:00Z": "hourly 2026-02-28T15:00:00Z..2026-02-28T23:59:59Z monthly " +
			"2026-03-01T00:00:00Z..2026-03-03T15:30:00Z",
		"2025-12-30T23:00:00Z": "hourly 2025-12-30T23:00:00Z..2025-12-30T23:59:59Z daily " +
			"2025-12-31T00:00:00Z..2025-12-31T23:59:59Z " +
			"monthly 2026-01-01T00:00:00Z..2026-03-03T15:30:00Z",
	} {
		at, err := time.Parse(time.RFC3339, since)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, q := range partsSince(at, now) {
			got = append(got, string(q.Window)+" "+q.From.Format(time.RFC3339)+".."+q.To.Format(time.RFC3339))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s\nwant %s", since, strings.Join(got, " "), want)
		}
	}
}
