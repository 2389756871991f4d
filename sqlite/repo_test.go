package sqlite_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/repotest"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

func TestRepository(t *testing.T) {
	repotest.Run(t, func(t *testing.T) limiter.Repository {
		t.Helper()
		return open(t, "", nil)
	})
}

// TestShortRetentionKeepsTheMonthWhole checks that the retention of a window begins
// at its end: the current month is complete.
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
		if _, err := lim.Acquire(t.Context(), limiter.Request{
			Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1),
		}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(24 * time.Hour)
	}
	sum, err := lim.UsageSummary(t.Context(), limiter.UsageQuery{Entity: "alice", Window: limiter.Monthly})
	if err != nil || sum.Total["rpm"] != days {
		t.Errorf("the month has %d of %d: %v", sum.Total["rpm"], days, err)
	}
}
