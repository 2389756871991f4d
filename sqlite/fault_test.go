package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	driver "modernc.org/sqlite"
)

// waitIdle waits until the writer is idle: no batch is running, and no sweep.
func waitIdle(t *testing.T, r *Repository) {
	t.Helper()
	if err := r.write(t.Context(), time.Time{}, func(*tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

// onCommit calls f in every later commit of the repository. The commit fails if f
// returns false.
func onCommit(t *testing.T, r *Repository, f func() bool) {
	t.Helper()
	waitIdle(t, r)
	err := r.writer.conn.Raw(func(conn any) error {
		hooks, ok := conn.(driver.HookRegisterer)
		if !ok {
			return errors.New("the driver has no hooks")
		}
		hooks.RegisterCommitHook(func() int32 {
			if f() {
				return 0
			}
			return 1
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lockFile holds the write lock like another process, until unlock is called.
func lockFile(t *testing.T, r *Repository) (unlock func()) {
	t.Helper()
	waitIdle(t, r)
	db, err := sql.Open("sqlite", r.path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), beginWriting); err != nil {
		t.Fatal(err)
	}
	unlock = sync.OnceFunc(func() { _ = db.Close() })
	t.Cleanup(unlock)
	return unlock
}

func limiterOn(t *testing.T, r *Repository) *limiter.RateLimiter {
	t.Helper()
	lim, err := limiter.New(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// tenDaily returns a limiter with ten tokens that do not refill during a test.
func tenDaily(t *testing.T, r *Repository) *limiter.RateLimiter {
	t.Helper()
	lim := limiterOn(t, r)
	if err := lim.SetSystemDefaults(t.Context(), limiter.Custom("rpm", 10, 1, 24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	return lim
}

var oneOfAlice = limiter.Request{Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1)}

func isOutage(err error) bool {
	_, ok := errors.AsType[*limiter.UnavailableError](err)
	return ok
}

// TestFailedModeDoesNotApply checks that a mode whose commit failed does not apply,
// even if another process then gets the same generation.
func TestFailedModeDoesNotApply(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	r, other := openFile(t, path, &Options{BusyTimeout: time.Millisecond}), openFile(t, path, nil)
	lim := tenDaily(t, r)
	if err := lim.SetOnUnavailable(t.Context(), limiter.Block); err != nil {
		t.Fatal(err)
	}
	var works atomic.Bool
	onCommit(t, r, works.Load)
	if err := lim.SetOnUnavailable(t.Context(), limiter.Allow); !isOutage(err) {
		t.Fatalf("a commit that fails: %v", err)
	}
	if mode := r.OnUnavailable(); mode != limiter.Block {
		t.Errorf("mode %q after the failure", mode)
	}
	works.Store(true)
	if err := limiterOn(t, other).SetResourceDefaults(t.Context(), "other", limiter.PerMinute("rpm", 1)); err != nil {
		t.Fatal(err)
	}
	waitIdle(t, other)
	if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
		t.Fatal(err)
	}
	lockFile(t, r)
	if _, err := lim.Acquire(t.Context(), oneOfAlice); !isOutage(err) {
		t.Errorf("got %v in an outage, want it blocked", err)
	}
}

// TestDeadlineEndsACallOnAFrozenDisk checks that calls return at their deadline
// with an outage. What is stored later is given back.
func TestDeadlineEndsACallOnAFrozenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
		lim := tenDaily(t, r)
		thawed := make(chan struct{})
		onCommit(t, r, func() bool { <-thawed; return true })
		began := time.Now()
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				_, err := lim.Acquire(ctx, oneOfAlice)
				if took := time.Since(began); took != 300*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				if !isOutage(err) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want an outage", err)
				}
			})
		}
		group.Wait()
		close(thawed)
		waitIdle(t, r)
		if left, err := lim.Available(t.Context(), "alice", "gpt-4"); err != nil || left.Get("rpm") != 10 {
			t.Errorf("%s left, want all of it: %v", left, err)
		}
		if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
			t.Error(err)
		}
	})
}

// TestAbandonedCallReportsAnUnknownOutcome checks that the error says so only if
// the work had started.
func TestAbandonedCallReportsAnUnknownOutcome(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	began, end := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	err := r.write(ctx, time.Time{}, func(*tx) error {
		close(began)
		<-end
		return nil
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("started: %v", err)
	}
	err = r.write(ctx, time.Time{}, func(*tx) error { return nil })
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "unknown") {
		t.Errorf("not started: %v", err)
	}
	close(end)
}

// TestDeadlineEndsTheRetriesOfAFailedCommit checks that calls whose shared commit
// failed are retried one by one, each until its own deadline. Every commit is slow
// and fails.
func TestDeadlineEndsTheRetriesOfAFailedCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
		lim := tenDaily(t, r)
		onCommit(t, r, func() bool { time.Sleep(90 * time.Millisecond); return false })
		began := time.Now()
		var group sync.WaitGroup
		for range 30 {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				if _, err := lim.Acquire(ctx, oneOfAlice); !isOutage(err) {
					t.Errorf("got %v, want an outage", err)
				}
			})
		}
		group.Wait()
		if took := time.Since(began); took != 200*time.Millisecond {
			t.Errorf("the last call returned after %v", took)
		}
		if err := r.write(t.Context(), time.Time{}, func(*tx) error { return nil }); err == nil {
			t.Error("the commit did not fail")
		}
		if took := time.Since(began); took > 400*time.Millisecond { // one that had started, and this one
			t.Errorf("abandoned calls went on for %v", took-200*time.Millisecond)
		}
	})
}

// TestBusyTimeoutCountsFromTheCall checks that many calls wait for BusyTimeout, not
// one after another.
func TestBusyTimeoutCountsFromTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits.db")
		r := openFile(t, path, &Options{BusyTimeout: time.Second})
		lim := tenDaily(t, r)
		unlock := lockFile(t, r)
		began := time.Now()
		var group sync.WaitGroup
		for range 1200 {
			group.Go(func() {
				if _, err := lim.Acquire(t.Context(), oneOfAlice); !isOutage(err) ||
					!strings.Contains(err.Error(), "locked by another process") {
					t.Errorf("got %v", err)
				}
			})
		}
		group.Wait()
		if took := time.Since(began); took < time.Second || took > time.Second+20*time.Millisecond {
			t.Errorf("it took %v, want a second", took)
		}
		unlock()
		if left, err := lim.Available(t.Context(), "alice", "gpt-4"); err != nil || left.Get("rpm") != 10 {
			t.Errorf("%s left, want all of it: %v", left, err)
		}
		if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
			t.Errorf("after the unlock: %v", err)
		}
	})
}

// TestDeadlineEndsOpen opens a file that another program has locked exclusively.
func TestDeadlineEndsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	if err := openFile(t, path, nil).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, statement := range []string{"PRAGMA locking_mode = EXCLUSIVE", "DELETE FROM audit"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		for _, readOnly := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			began := time.Now()
			_, err := Open(ctx, path, &Options{BusyTimeout: time.Hour, ReadOnly: readOnly})
			cancel()
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 200*time.Millisecond {
				t.Errorf("read only %t: %v after %v", readOnly, err, took)
			}
		}
	})
}

// TestFullDiskRecovers checks that calls fail only while the disk is full.
func TestFullDiskRecovers(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	lim := tenDaily(t, r)
	if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
		t.Fatal(err)
	}
	pages := func(pragma string) {
		t.Helper()
		if err := r.write(t.Context(), time.Time{}, func(tx *tx) error { return tx.script(pragma) }); err != nil {
			t.Fatal(err)
		}
	}
	pages("PRAGMA max_page_count = 1") // SQLite raises it to the current number
	big := limiter.Entity{ID: "big", Metadata: map[string]string{"note": strings.Repeat("x", 100_000)}}
	if _, err := lim.CreateEntity(t.Context(), big); !isOutage(err) || !strings.Contains(err.Error(), "is full") {
		t.Errorf("got %v, want an outage that says so", err)
	}
	if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
		t.Errorf("a call that needs no space: %v", err)
	}
	pages("PRAGMA max_page_count = 1000000")
	if _, err := lim.CreateEntity(t.Context(), big); err != nil {
		t.Errorf("with free space: %v", err)
	}
}
