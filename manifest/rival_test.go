package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

// hooked is a store whose writes of limits can be slow, or worse.
type hooked struct {
	*memory.Repository
	writes  atomic.Int64
	before  func(n int64) // the n-th write of limits, from 1
	renewal func() error  // instead of SetManaged, if it has an error
}

func (h *hooked) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	n := h.writes.Add(1)
	if h.before != nil {
		h.before(n)
	}
	return h.Repository.ReplaceConfig(ctx, cfg, ev)
}

func (h *hooked) SetManaged(ctx context.Context, now time.Time, previous, hash, owner string, scopes []limiter.Scope) error {
	if h.renewal != nil {
		if err := h.renewal(); err != nil {
			return err
		}
	}
	return h.Repository.SetManaged(ctx, now, previous, hash, owner, scopes)
}

// crowd declares n entities with a limit.
func crowd(prefix string, n int, capacity int64) *manifest.Manifest {
	m := &manifest.Manifest{}
	for i := range n {
		s := limiter.Scope{Entity: fmt.Sprint(prefix, i), Resource: "gpt-4"}
		m.Levels = append(m.Levels, limiter.Config{Scope: s, Limits: []limiter.Limit{limiter.PerMinute("rpm", capacity)}})
	}
	return m
}

// inForce checks that exactly the levels of one manifest are stored and
// managed.
func inForce(t *testing.T, repo limiter.Repository, m *manifest.Manifest) {
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

// slowly takes a second for each write.
func slowly(int64) { time.Sleep(time.Second) }

// TestSecondApplyWaitsForTheFirst: both succeed, one after the other, however
// long the first one takes.
func TestSecondApplyWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := &hooked{Repository: memory.New(nil), before: slowly}
		first, second := crowd("a", 200, 1), crowd("a", 100, 2)
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
			inForce(t, repo, second)
		})
		group.Wait()
	})
}

// TestManyAppliesAtOnce: in the end one of them rules, and nothing of the others
// is left.
func TestManyAppliesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := &hooked{Repository: memory.New(nil), before: slowly}
		var last atomic.Pointer[manifest.Manifest]
		var group sync.WaitGroup
		for i := range 6 {
			m := crowd(fmt.Sprint("m", i, "-"), 5+i, int64(i+1))
			group.Go(func() {
				_, _, err := manifest.Apply(bg, repo, m, nil)
				check(t, err)
				last.Store(m)
			})
		}
		group.Wait()
		inForce(t, repo, last.Load())
	})
}

func TestDeadApplyIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := memory.New(nil)
		left := limiter.Scope{Entity: "left", Resource: "gpt-4"}
		store(t, repo, limiter.Config{Scope: left, Limits: []limiter.Limit{limiter.PerMinute("rpm", 1)}}, "1")
		check(t, repo.SetManaged(bg, epoch, "", "applying:and never heard of again", "", []limiter.Scope{left}))
		begin := time.Now()
		m := crowd("a", 3, 1)
		_, report, err := manifest.Apply(bg, repo, m, nil)
		check(t, err)
		if took := time.Since(begin); took != 20*time.Second {
			t.Errorf("it was believed to be alive for %v", took)
		}
		equal(t, "deleted", report.Count(manifest.Delete), 1)
		inForce(t, repo, m)
	})
}

func TestPlanIsRefusedAfterAnotherApply(t *testing.T) {
	repo := memory.New(nil)
	plan, err := manifest.NewPlan(bg, repo, crowd("a", 3, 1), nil)
	check(t, err)
	other := crowd("b", 2, 1)
	_, _, err = manifest.Apply(bg, repo, other, nil)
	check(t, err)
	if report, err := plan.Apply(bg); !errors.Is(err, manifest.ErrStale) || report != nil {
		t.Errorf("error %v, report %v", err, report)
	}
	inForce(t, repo, other)
}

// TestApplyThatCannotRenewItsClaimStops, before anyone may take it for dead.
func TestApplyThatCannotRenewItsClaimStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := memory.New(nil)
		var calls atomic.Int64
		cut := &hooked{Repository: repo, before: slowly, renewal: func() error {
			if calls.Add(1) > 1 {
				return errors.New("no connection")
			}
			return nil
		}}
		second := crowd("b", 3, 1)
		var group sync.WaitGroup
		group.Go(func() {
			begin := time.Now()
			_, report, err := manifest.Apply(bg, cut, crowd("a", 400, 1), nil)
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
			inForce(t, repo, second) // also what the first one made is gone
		})
		group.Wait()
	})
}

// TestApplyThatWasTakenOverSaysSo, and does not undo what its successor noted.
func TestApplyThatWasTakenOverSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := memory.New(nil)
		second := crowd("b", 3, 1)
		stalled := &hooked{Repository: repo, before: func(n int64) {
			if n == 1 { // nothing of this process runs for a while, and then somebody else has taken over
				_, hash, _, err := repo.Managed(bg)
				check(t, err)
				check(t, repo.SetManaged(bg, epoch, hash, "taken over", "", nil))
				_, _, err = manifest.Apply(bg, repo, second, nil)
				check(t, err)
				time.Sleep(6 * time.Second)
			}
		}}
		_, report, err := manifest.Apply(bg, stalled, crowd("a", 1, 1), nil)
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

// TestTwoProcessesAtOnce is the same on stores that processes share.
func TestTwoProcessesAtOnce(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) [2]limiter.Repository{
		"sqlite": func(t *testing.T) [2]limiter.Repository {
			t.Helper()
			path := filepath.Join(t.TempDir(), "limits.db")
			var both [2]limiter.Repository
			for i := range both {
				repo, err := sqlite.Open(bg, path, nil)
				check(t, err)
				t.Cleanup(func() { _ = repo.Close() })
				both[i] = repo
			}
			return both
		},
		"dynamo": func(t *testing.T) [2]limiter.Repository {
			t.Helper()
			first, table, opts := onTable(t)
			second, err := dynamo.Connect(bg, table, opts)
			check(t, err)
			t.Cleanup(func() { _ = second.Close() })
			return [2]limiter.Repository{first, second}
		},
	} {
		t.Run(name, func(t *testing.T) {
			repos := open(t)
			var last atomic.Pointer[manifest.Manifest]
			var group sync.WaitGroup
			for i, repo := range repos {
				m := crowd(fmt.Sprint("m", i, "-"), 30, int64(i+1))
				group.Go(func() {
					_, report, err := manifest.Apply(bg, repo, m, nil)
					if err != nil || len(report.Failed()) > 0 {
						t.Errorf("error %v, report %+v", err, report)
					}
					last.Store(m)
				})
			}
			group.Wait()
			inForce(t, repos[0], last.Load())
		})
	}
}
