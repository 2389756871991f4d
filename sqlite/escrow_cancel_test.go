package sqlite_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// kept is a store that outlives the escrow around it.
type kept struct{ limiter.Repository }

// Close does nothing.
func (kept) Close() error { return nil }

// Thousands of calls are cancelled at random, in front of a pot that holds tokens.
// After Close, what is stored is what was admitted.
func TestCancelledCallsLeaveNothingInEscrow(t *testing.T) {
	file, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "limits.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]limiter.Repository{"memory": memory.New(nil), "sqlite": file} {
		t.Run(name, func(t *testing.T) {
			const capacity, callers, calls = 1_000_000, 16, 400
			defer store.Close()
			repo := escrow.New(kept{store}, nil)
			lim, err := limiter.New(repo, nil)
			must(t, err)
			must(t, lim.SetSystemDefaults(t.Context(), limiter.Custom("rpm", capacity, 1, 24*time.Hour)))
			_, err = lim.CreateEntity(t.Context(), limiter.Entity{ID: "alice", Parent: "project", Cascade: true})
			must(t, err)
			var admitted atomic.Int64
			var group sync.WaitGroup
			for range callers {
				group.Go(func() {
					for range calls {
						ctx, cancel := context.WithCancel(context.Background())
						timer := time.AfterFunc(rand.N(time.Millisecond), cancel)
						if _, err := lim.Acquire(ctx, limiter.Request{
							Entity: "alice", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 2),
						}); err == nil {
							admitted.Add(2)
						}
						timer.Stop()
						cancel()
					}
				})
			}
			group.Wait()
			must(t, repo.Close())
			if dropped := repo.Stats().Dropped; dropped != 0 {
				t.Errorf("%d tokens are dropped", dropped)
			}
			for _, entity := range []string{"alice", "project"} {
				out, err := store.Peek(t.Context(), time.Now(), limiter.Charge{Entity: entity, Resource: "gpt-4"})
				must(t, err)
				if got := capacity - out.Payers[0].Tokens[0]/1000; got != admitted.Load() {
					t.Errorf("%d of %s are stored, and %d were admitted", got, entity, admitted.Load())
				}
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
