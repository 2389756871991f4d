package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
)

// hookedStore calls hooks before the writes of a store.
type hookedStore struct {
	*memory.Repository
	writes  atomic.Int64
	before  func(n int64) // called before the n-th write of limits, from 1
	renewal func() error  // called before SetManaged, which returns its error
}

func (h *hookedStore) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	n := h.writes.Add(1)
	if h.before != nil {
		h.before(n)
	}
	return h.Repository.ReplaceConfig(ctx, cfg, ev)
}

func (h *hookedStore) SetManaged(
	ctx context.Context, now time.Time, previous, hash, owner string, scopes []limiter.Scope,
) error {
	if h.renewal != nil {
		if err := h.renewal(); err != nil {
			return err
		}
	}
	return h.Repository.SetManaged(ctx, now, previous, hash, owner, scopes)
}

// entityManifest declares n entities with one limit each.
func entityManifest(prefix string, n int, capacity int64) *manifest.Manifest {
	m := &manifest.Manifest{}
	for i := range n {
		s := limiter.Scope{Entity: fmt.Sprint(prefix, i), Resource: "gpt-4"}
		m.Levels = append(m.Levels, limiter.Config{
			Scope: s, Limits: []limiter.Limit{limiter.PerMinute("rpm", capacity)},
		})
	}
	return m
}

// checkInForce checks that the levels of a manifest are stored and managed,
// and no others.
func checkInForce(t *testing.T, repo limiter.Repository, m *manifest.Manifest) {
	t.Helper()
	got, err := manifest.Export(bg, repo, "")
	check(t, err)
	text, err := got.YAML()
	check(t, err)
	want, err := m.YAML()
	check(t, err)
	equal(t, "stored", string(text), string(want))
	scopes, hash := managed(t, repo)
	equal(t, "managed", scopes, declared(m))
	equal(t, "hash", hash, m.Hash())
}

// sleepSecond delays a write by a second.
func sleepSecond(int64) { time.Sleep(time.Second) }

// TestSecondApplyWaitsForTheFirst checks that both succeed, one after the
// other, even if the first one is slow.
func TestSecondApplyWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := &hookedStore{Repository: memory.New(nil), before: sleepSecond}
		first, second := entityManifest("a", 200, 1), entityManifest("a", 100, 2)
		var group sync.WaitGroup
		group.Go(func() {
			_, _, err := manifest.Apply(bg, repo, first, nil)
			check(t, err)
		})
		group.Go(func() {
			time.Sleep(3 * time.Second)
			begin, waited := time.Now(), 0
			_, report, err := manifest.Apply(bg, repo, second, &manifest.Options{Waiting: func() { waited++ }})
			check(t, err)
			equal(t, "told to wait", waited, 1)
			if took := time.Since(begin); took < 70*time.Second { // the rest of 50 s, then 25 s
				t.Errorf("it took only %v", took)
			}
			equal(t, "deleted", report.Count(manifest.Delete), 100)
			checkInForce(t, repo, second)
		})
		group.Wait()
	})
}

// TestManyAppliesAtOnce checks that one manifest wins and leaves nothing of
// the others.
func TestManyAppliesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := &hookedStore{Repository: memory.New(nil), before: sleepSecond}
		var last atomic.Pointer[manifest.Manifest]
		var group sync.WaitGroup
		for i := range 6 {
			m := entityManifest(fmt.Sprint("m", i, "-"), 5+i, int64(i+1))
			group.Go(func() {
				_, _, err := manifest.Apply(bg, repo, m, nil)
				check(t, err)
				last.Store(m)
			})
		}
		group.Wait()
		checkInForce(t, repo, last.Load())
	})
}

func TestDeadApplyIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := memory.New(nil)
		left := limiter.Scope{Entity: "left", Resource: "gpt-4"}
		storeConfig(t, repo, limiter.Config{Scope: left, Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}}, "1")
		check(t, repo.SetManaged(bg, epoch, "", "applying:and never heard of again", "", []limiter.Scope{left}))
		begin := time.Now()
		m := entityManifest("a", 3, 1)
		_, report, err := manifest.Apply(bg, repo, m, nil)
		check(t, err)
		if took := time.Since(begin); took != 20*time.Second {
			t.Errorf("it was believed to be alive for %v", took)
		}
		equal(t, "deleted", report.Count(manifest.Delete), 1)
		checkInForce(t, repo, m)
	})
}

func TestPlanIsRefusedAfterAnotherApply(t *testing.T) {
	repo := memory.New(nil)
	plan, err := manifest.NewPlan(bg, repo, entityManifest("a", 3, 1), nil)
	check(t, err)
	other := entityManifest("b", 2, 1)
	_, _, err = manifest.Apply(bg, repo, other, nil)
	check(t, err)
	if report, err := plan.Apply(bg); !errors.Is(err, manifest.ErrStale) || report != nil {
		t.Errorf("error %v, report %v", err, report)
	}
	checkInForce(t, repo, other)
}

// TestApplyThatCannotRenewItsClaimStops checks that it stops before another
// apply may take over.
func TestApplyThatCannotRenewItsClaimStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := memory.New(nil)
		var calls atomic.Int64
		cut := &hookedStore{Repository: repo, before: sleepSecond, renewal: func() error {
			if calls.Add(1) > 1 {
				return errors.New("no connection")
			}
			return nil
		}}
		second := entityManifest("b", 3, 1)
		var group sync.WaitGroup
		group.Go(func() {
			begin := time.Now()
			_, report, err := manifest.Apply(bg, cut, entityManifest("a", 400, 1), nil)
			if err == nil || !strings.Contains(err.Error(), "no connection") {
				t.Errorf("error %v", err)
			}
			if took := time.Since(begin); took >= 20*time.Second {
				t.Errorf("it went on for %v", took)
			}
			if made := report.Count(manifest.Create); made < 40 || made > 80 {
				t.Errorf("%d were made", made)
			}
		})
		group.Go(func() {
			time.Sleep(time.Second)
			_, _, err := manifest.Apply(bg, repo, second, nil)
			check(t, err)
			checkInForce(t, repo, second) // the levels of the first one are gone too
		})
		group.Wait()
	})
}

// TestApplyThatWasTakenOverSaysSo checks that it also leaves the state of its
// successor alone.
func TestApplyThatWasTakenOverSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := memory.New(nil)
		second := entityManifest("b", 3, 1)
		stalled := &hookedStore{Repository: repo, before: func(n int64) {
			if n == 1 { // the process stalls, and another apply takes over
				_, hash, _, err := repo.Managed(bg)
				check(t, err)
				check(t, repo.SetManaged(bg, epoch, hash, "taken over", "", nil))
				_, _, err = manifest.Apply(bg, repo, second, nil)
				check(t, err)
				time.Sleep(6 * time.Second)
			}
		}}
		_, report, err := manifest.Apply(bg, stalled, entityManifest("a", 1, 1), nil)
		if !errors.Is(err, limiter.ErrConflict) || !strings.Contains(err.Error(), "took over") {
			t.Errorf("error %v", err)
		}
		if report == nil {
			t.Error("no report")
		}
		scopes, hash := managed(t, repo)
		equal(t, "managed", scopes, declared(second))
		equal(t, "hash", hash, second.Hash())
	})
}

// applyAsleep applies a manifest of 40 levels and simulates a machine that
// sleeps during the tenth write: only the wall clock advances. It returns the
// number of writes that began afterwards.
func applyAsleep(t *testing.T, repo *memory.Repository, meanwhile func()) (*manifest.Report, int64, error) {
	t.Helper()
	var slept, before atomic.Int64
	stopped := &hookedStore{Repository: repo}
	stopped.before = func(n int64) {
		time.Sleep(time.Duration(n) * time.Millisecond) // one after the other
		if n == 10 {
			meanwhile()
			before.Store(stopped.writes.Load())
			slept.Store(int64(time.Hour))
		}
	}
	wall := func() time.Time { return epoch.Add(time.Duration(slept.Load())) }
	_, report, err := manifest.Apply(bg, stopped, entityManifest("a", 40, 1), manifest.Options{}.WithWall(wall))
	return report, stopped.writes.Load() - before.Load(), err
}

func TestApplyThatSleptDoesNotWriteAfterItWasTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := memory.New(nil)
		second := entityManifest("b", 3, 1)
		report, writes, err := applyAsleep(t, repo, func() {
			_, hash, _, err := repo.Managed(bg)
			check(t, err)
			check(t, repo.SetManaged(bg, epoch, hash, "taken over", "", nil))
			_, _, err = manifest.Apply(bg, repo, second, nil)
			check(t, err)
		})
		if writes > 4 { // the ones in flight
			t.Errorf("%d writes after it slept", writes)
		}
		if !errors.Is(err, limiter.ErrConflict) {
			t.Fatalf("error %v", err)
		}
		made := report.Made()
		equal(t, "error", err.Error(),
			fmt.Sprintf("another apply took over while this one was at work, after %d of 40 changes; apply again",
				len(made)))
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
		report, _, err := applyAsleep(t, repo, func() {})
		check(t, err)
		equal(t, "made", len(report.Made()), 40)
		checkInForce(t, repo, entityManifest("a", 40, 1))
	})
}
