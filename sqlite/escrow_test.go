package sqlite_test

import (
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/repotest"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

func TestRepositoryInEscrow(t *testing.T) {
	repotest.Run(t, func(t *testing.T) limiter.Repository {
		t.Helper()
		repo, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "limits.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return escrow.New(repo, &escrow.Options{MaxHold: -1}) // holds nothing, so answers are exact
	}, "usage")
}

// bubble is a store in a bubble whose clock follows the history.
type bubble struct{ limiter.Repository }

// Elapse moves the clock of the bubble.
func (bubble) Elapse(d time.Duration) { time.Sleep(d) }

// Close keeps the store open for the other processes.
func (bubble) Close() error { return nil }

// holder is a process that holds tokens of the store.
type holder struct{ *escrow.Repository }

// Lossy reports that other processes may hold tokens, so that a refusal proves
// nothing.
func (holder) Lossy() bool { return true }

// Holds returns three holds of an account with limits.
func (holder) Holds(limits []limiter.Limit) time.Duration {
	hold := time.Second
	for _, l := range limits {
		if l.IsQuota() {
			continue
		}
		fill := time.Duration(float64(l.Period) * float64(l.Capacity) / float64(l.Refill))
		hold = min(hold, fill/100)
	}
	return 3 * hold
}

// TestEndureInEscrow checks the promise of processes that share a file and hold tokens
// of it, where one of some charges and credits fails.
func TestEndureInEscrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	synctest.Test(t, func(t *testing.T) {
		store, err := sqlite.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()

		var clients []limiter.Repository
		for i := range 4 {
			faulty := repotest.NewFaulty(bubble{store}, faults(uint64(i)))
			clients = append(clients, holder{escrow.New(faulty, nil)})
		}
		defer func() {
			for _, c := range clients {
				_ = c.Close()
			}
		}()
		repotest.Endure(t, 1, 600, 0.03, bubble{store}, clients...)
	})
}

// faults returns a plan in which one of fifteen charges and credits fails, before or
// after it was stored.
func faults(seed uint64) func(string) repotest.Fault {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 3))
	return func(method string) repotest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if method != "Consume" && method != "Credit" || rng.IntN(15) > 0 {
			return repotest.None
		}
		return []repotest.Fault{repotest.Before, repotest.After}[rng.IntN(2)]
	}
}
