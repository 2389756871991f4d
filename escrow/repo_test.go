package escrow_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// sharing holds nothing, so answers are exact.
var sharing = &escrow.Options{MaxHold: -1}

func TestRepository(t *testing.T) {
	stores := map[string]func(*testing.T) limiter.Repository{
		"memory": func(*testing.T) limiter.Repository { return memory.New(nil) },
		"sqlite": func(t *testing.T) limiter.Repository {
			t.Helper()
			repo, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "limits.db"), nil)
			if err != nil {
				t.Fatal(err)
			}
			return repo
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			repotest.Run(t, func(t *testing.T) limiter.Repository { t.Helper(); return escrow.New(open(t), sharing) }, "usage")
		})
	}
}

func TestCompare(t *testing.T) {
	for seed := range uint64(6) {
		repotest.Compare(t, seed, 2000, memory.New(nil), escrow.New(memory.New(nil), sharing))
	}
}

// process is a client of a store. Other processes may hold tokens that it finds
// missing, so a refusal proves nothing.
type process struct{ *escrow.Repository }

// Lossy reports that tokens may be missing.
func (process) Lossy() bool { return true }

// Holds returns the longest time for which given-back tokens are held.
func (process) Holds() time.Duration { return 3 * time.Second }

// bubble is a store in a bubble whose clock follows the history.
type bubble struct{ limiter.Repository }

// Elapse moves the clock of the bubble.
func (bubble) Elapse(d time.Duration) { time.Sleep(d) }

// Close keeps the store open for the other processes.
func (bubble) Close() error { return nil }

var endureSeeds = flag.Uint64("endure.seeds", 4, "histories of TestEndure")

func TestEndure(t *testing.T) {
	for seed := range *endureSeeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { endure(t, seed) })
		})
	}
}

func endure(t *testing.T, seed uint64) {
	t.Helper()
	store := bubble{memory.New(nil)}
	var clients []limiter.Repository
	for range 4 {
		clients = append(clients, process{escrow.New(store, nil)})
	}
	defer func() {
		for _, c := range clients {
			c := c.(process)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if s := c.Stats(); s.Held != 0 {
				t.Errorf("held after Close: %+v", s)
			} else if seed == 0 {
				t.Logf("%+v", s)
			}
		}
	}()
	repotest.Endure(t, seed, 2000, 0.03, store, clients...)
}
