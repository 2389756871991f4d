package sqlite

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// manyTokens is the capacity of manyDaily.
const manyTokens = 1_000_000

// checkTaken checks how many tokens of alice are stored as taken.
func checkTaken(t *testing.T, lim *limiter.RateLimiter, want int64) {
	t.Helper()
	left, err := lim.Available(t.Context(), "alice", "gpt-4")
	if got := manyTokens - left.Get("rpm"); err != nil || got != want {
		t.Errorf("%d are stored, and %d were admitted: %v", got, want, err)
	}
}

// cancelAtRandom calls each from several goroutines, with contexts that end at
// random.
func cancelAtRandom(calls int, each func(context.Context)) {
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range calls / 16 {
				ctx, cancel := context.WithCancel(context.Background())
				timer := time.AfterFunc(rand.N(time.Millisecond), cancel)
				each(ctx)
				timer.Stop()
				cancel()
			}
		})
	}
	group.Wait()
}

// TestCancelledCallsLeaveNothing cancels thousands of calls at random. What was
// admitted is what is stored, in the balance and in the usage.
func TestCancelledCallsLeaveNothing(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	lim := manyDaily(t, r)
	var admitted atomic.Int64
	cancelAtRandom(9600, func(ctx context.Context) {
		if _, err := lim.Acquire(ctx, oneOfAlice); err == nil {
			admitted.Add(1)
		}
	})
	waitIdle(t, r)
	checkTaken(t, lim, admitted.Load())
	sum, err := lim.UsageSummary(t.Context(), limiter.UsageQuery{Entity: "alice", Window: limiter.Monthly})
	if err != nil || sum.Total["rpm"] != admitted.Load() {
		t.Errorf("the usage is %d, and %d were admitted: %v", sum.Total["rpm"], admitted.Load(), err)
	}
}

// TestCancelledConsumeOfALease checks that a lease and the store agree after its
// Consume was cancelled at random.
func TestCancelledConsumeOfALease(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	lim := manyDaily(t, r)
	lease, err := lim.Acquire(t.Context(), oneOfAlice)
	if err != nil {
		t.Fatal(err)
	}
	cancelAtRandom(3200, func(ctx context.Context) { _ = lease.Consume(ctx, limiter.Tokens("rpm", 1)) })
	waitIdle(t, r)
	checkTaken(t, lim, lease.Consumed().Get("rpm"))
	if err := lease.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkTaken(t, lim, 0)
}

// TestCloseGivesBackWhatCallersLeft closes the store while its writer is frozen and
// the callers have left.
func TestCloseGivesBackWhatCallersLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	r := openFile(t, path, nil)
	lim := manyDaily(t, r)
	frozen, thawed := make(chan struct{}, 1), make(chan struct{})
	onCommit(t, r, func() bool {
		select {
		case frozen <- struct{}{}:
		default:
		}
		<-thawed
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := lim.Acquire(ctx, oneOfAlice)
		failed <- err
	}()
	<-frozen
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire returns %v, want context.Canceled", err)
	}
	close(thawed)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	checkTaken(t, limiterOn(t, openFile(t, path, nil)), 0)
}

// TestFailedCommitUndoesNothing checks that a call whose caller left is not undone
// if its commit fails, or if it had not begun.
func TestFailedCommitUndoesNothing(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	lim := manyDaily(t, r)
	for range 5 {
		if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
			t.Fatal(err)
		}
	}
	var fails atomic.Bool
	onCommit(t, r, func() bool { return !fails.Load() })
	fails.Store(true)
	cancelAtRandom(320, func(ctx context.Context) {
		if _, err := lim.Acquire(ctx, oneOfAlice); err == nil {
			t.Error("a call is admitted although its commit failed")
		}
	})
	fails.Store(false)
	waitIdle(t, r)
	checkTaken(t, lim, 5)
}
