package manifest_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
)

// asleep applies a manifest of 40 levels and lets the machine sleep in the tenth
// write: only the clock on the wall goes on. It returns how many writes began
// after that.
func asleep(t *testing.T, repo *memory.Repository, meanwhile func()) (*manifest.Report, int64, error) {
	t.Helper()
	var slept, before atomic.Int64
	stopped := &hooked{Repository: repo}
	stopped.before = func(n int64) {
		time.Sleep(time.Duration(n) * time.Millisecond) // one after the other
		if n == 10 {
			meanwhile()
			before.Store(stopped.writes.Load())
			slept.Store(int64(time.Hour))
		}
	}
	wall := func() time.Time { return epoch.Add(time.Duration(slept.Load())) }
	_, report, err := manifest.Apply(bg, stopped, crowd("a", 40, 1), manifest.Options{}.WithWall(wall))
	return report, stopped.writes.Load() - before.Load(), err
}

func TestApplyThatSleptDoesNotWriteAfterItWasTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := memory.New(nil)
		second := crowd("b", 3, 1)
		report, writes, err := asleep(t, repo, func() {
			_, hash, _, err := repo.Managed(bg)
			check(t, err)
			check(t, repo.SetManaged(bg, epoch, hash, "taken over", "", nil))
			_, _, err = manifest.Apply(bg, repo, second, nil)
			check(t, err)
		})
		if writes > 4 { // that were about to begin
			t.Errorf("%d writes after it slept", writes)
		}
		if !errors.Is(err, limiter.ErrConflict) {
			t.Fatalf("error %v", err)
		}
		made := report.Made()
		equal(t, "error", err.Error(), fmt.Sprintf("another apply took over while this one was at work, after %d of 40 changes; apply again", len(made)))
		for _, c := range made {
			cfg, err := repo.Config(bg, c.Scope)
			check(t, err)
			equal(t, "what was made", cfg, c.After)
		}
		left, why := report.Left()
		if left == 0 || len(made) < 5 || len(made)+left > 40 {
			t.Errorf("%d made, %d left", len(made), left)
		}
		equal(t, "why", why.Error(), "another apply took over while this one was at work; apply again")
		_, hash := managed(t, repo)
		equal(t, "hash", hash, second.Hash())
	})
}

func TestApplyThatSleptAloneGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := memory.New(nil)
		report, _, err := asleep(t, repo, func() {})
		check(t, err)
		equal(t, "made", len(report.Made()), 40)
		inForce(t, repo, crowd("a", 40, 1))
	})
}
