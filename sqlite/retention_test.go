package sqlite_test

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

func isClosed(err error) bool { return errors.Is(err, limiter.ErrClosed) }

// A window is kept for its retention after it ended: a month that is not over
// is whole, however short the retention.
func TestShortRetentionKeepsTheMonthWhole(t *testing.T) {
	repo := open(t, "", &sqlite.Options{UsageRetention: 24 * time.Hour})
	now := time.Date(2026, 3, 1, 0, 30, 0, 0, time.UTC)
	lim, err := limiter.New(repo, &limiter.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10)); err != nil {
		t.Fatal(err)
	}
	const days = 20
	for range days {
		if _, err := lim.Acquire(t.Context(), limiter.Request{Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1)}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(24 * time.Hour)
	}
	sum, err := lim.UsageSummary(t.Context(), limiter.UsageQuery{Entity: "alice", Window: limiter.Monthly})
	if err != nil || sum.Total["rpm"] != days {
		t.Errorf("the month says %d of %d: %v", sum.Total["rpm"], days, err)
	}
}
