package sqlite

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// rows returns the numbers of top-up IDs and of audit events.
func rows(t *testing.T, r *Repository) (topUps, events int) {
	t.Helper()
	waitIdle(t, r)
	err := r.read(t.Context(), func(tx *tx) error {
		return tx.row("SELECT (SELECT count(*) FROM top_ups), (SELECT count(*) FROM audit)").scan(&topUps, &events)
	})
	if err != nil {
		t.Fatal(err)
	}
	return topUps, events
}

// TestTopUpOfAnotherProcess checks that an ID works once, whichever process sends
// it, until it is forgotten.
func TestTopUpOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	first, second := openFile(t, path, nil), openFile(t, path, nil)
	now := newYear
	limits := []limiter.Limit{limiter.Quota("tokens", 10, limiter.EveryYear)}
	charge := chargeOf(limiter.Tokens("tokens", 10))
	charge.Defaults = limits
	if out, err := first.Consume(t.Context(), now, charge); err != nil || !out.Admitted {
		t.Fatal(out, err)
	}
	fill := limiter.Fill{
		Entity: "alice", Resource: "gpt-4", Amounts: limiter.Tokens("tokens", 3), ID: "invoice-1",
		Defaults: limits,
	}
	charge.Amounts = limiter.Amounts{}
	for i, c := range []struct {
		r    *Repository
		at   time.Duration
		done bool
		left int64
	}{
		{first, 0, true, 3},
		{second, 0, false, 3},
		{first, limiter.TopUpLife - time.Millisecond, false, 3},
		{second, limiter.TopUpLife, true, 6},
	} {
		now = newYear.Add(c.at)
		done, err := c.r.Fill(t.Context(), now, fill, limiter.AuditEvent{
			ID: string(rune('a' + i)), Entity: "alice", At: now,
		})
		if err != nil || done != c.done {
			t.Errorf("fill %d: %t, %v; want %t", i, done, err, c.done)
		}
		out, err := first.Peek(t.Context(), now, charge)
		if err != nil || out.Payers[0].Tokens[0] != c.left*1000 {
			t.Errorf("after fill %d: %v, %v; want %d left", i, out.Payers[0].Tokens, err, c.left)
		}
	}
	if topUps, events := rows(t, first); topUps != 1 || events != 2 {
		t.Errorf("%d IDs and %d events, want 1 and 2", topUps, events)
	}
	now = now.Add(limiter.TopUpLife + 3*time.Hour)
	if _, err := first.Consume(t.Context(), now, charge); err != nil {
		t.Fatal(err)
	}
	if topUps, _ := rows(t, first); topUps != 0 {
		t.Errorf("%d IDs after the sweep", topUps)
	}
}

// TestFailedFillStoresNothing checks that a fill whose commit failed stores neither
// tokens nor ID nor event.
func TestFailedFillStoresNothing(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	lim := tenDaily(t, r)
	req := oneOfAlice
	req.Consume = limiter.Tokens("rpm", 10)
	if _, err := lim.Acquire(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	_, before := rows(t, r)
	var works atomic.Bool
	onCommit(t, r, works.Load)
	if err := lim.Reset(t.Context(), "alice", "gpt-4"); !isOutage(err) {
		t.Errorf("reset: %v", err)
	}
	if _, err := lim.TopUp(t.Context(), "alice", "gpt-4", limiter.Tokens("rpm", 5), "1"); !isOutage(err) {
		t.Errorf("top-up: %v", err)
	}
	works.Store(true)
	if topUps, events := rows(t, r); topUps != 0 || events != before {
		t.Errorf("%d IDs and %d new events", topUps, events-before)
	}
	if left, err := lim.Available(t.Context(), "alice", "gpt-4"); err != nil || left.Get("rpm") != 0 {
		t.Errorf("%s left: %v", left, err)
	}
	for range 2 {
		if _, err := lim.TopUp(t.Context(), "alice", "gpt-4", limiter.Tokens("rpm", 5), "1"); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := lim.Available(t.Context(), "alice", "gpt-4"); err != nil || left.Get("rpm") != 5 {
		t.Errorf("%s left, want 5: %v", left, err)
	}
	if topUps, events := rows(t, r); topUps != 1 || events != before+1 {
		t.Errorf("%d IDs and %d new events, want one of each", topUps, events-before)
	}
}
