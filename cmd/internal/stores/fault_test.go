package stores_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// writeMethods lists the methods that write.
var writeMethods = []string{"ReplaceConfig", "DeleteConfig", "SetManaged"}

// TestOneFaultAnywhere lets each call of an apply fail in turn, before or
// after its effect. The list of managed levels has to match the store, and
// another apply has to complete the changes.
func TestOneFaultAnywhere(t *testing.T) {
	failures := map[string]int{}
	for seed := range uint64(12) {
		for _, fault := range []repotest.Fault{repotest.Before, repotest.After} {
			var calls int64
			synctest.Test(t, func(t *testing.T) { _, calls = applyWithFault(t, seed, 0, fault) })
			for n := range calls {
				synctest.Test(t, func(t *testing.T) {
					method, _ := applyWithFault(t, seed, n+1, fault)
					failures[method]++
				})
				if t.Failed() {
					t.Fatalf("seed %d, call %d, fault %d", seed, n+1, fault)
				}
			}
		}
	}
	for _, method := range append(slices.Clone(writeMethods), "Config", "Managed") {
		if failures[method] == 0 {
			t.Errorf("%s never failed", method)
		}
	}
}

// applyWithFault fails the n-th call, or none if n is 0. It returns the method
// that failed and the number of calls.
func applyWithFault(t *testing.T, seed uint64, n int64, fault repotest.Fault) (method string, calls int64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	repo := memory.New(nil)
	seedStore(t, rng, repo)
	m := randomManifest(rng)
	before := storedConfigs(t, repo)
	known, hashBefore := managed(t, repo)
	var count atomic.Int64
	var failed atomic.Value
	failed.Store("")
	faulty := repotest.NewFaulty(repo, func(method string) repotest.Fault {
		if count.Add(1) == n {
			failed.Store(method)
			return fault
		}
		return repotest.None
	})
	begin := time.Now()
	_, report, err := manifest.Apply(bg, faulty, m, nil)
	method = failed.Load().(string)
	if method == "SetManaged" && fault == repotest.After && (err != nil || time.Since(begin) > 0) {
		t.Errorf("a lost answer is not looked up: error %v after %v", err, time.Since(begin))
	}
	want := expectedConfigs(before, known, m)
	if report == nil { // it could not begin
		if err == nil || slices.Contains([]string{"ReplaceConfig", "DeleteConfig"}, method) {
			t.Errorf("%s failed: no report, error %v", method, err)
		}
		equal(t, "stored", storedConfigs(t, repo), before)
		if _, hash := managed(t, repo); hash != hashBefore {
			t.Errorf("%s failed: hash %s, want %s", method, hash, hashBefore)
		}
	} else {
		checkRecorded(t, repo, report, m, before, known)
	}
	_, _, err = manifest.Apply(bg, repo, m, nil)
	check(t, err)
	checkApplied(t, repo, m, want)
	return method, count.Load()
}

// checkRecorded compares the managed levels with the outcome of each change.
func checkRecorded(
	t *testing.T, repo limiter.Repository, report *manifest.Report, m *manifest.Manifest,
	before map[limiter.Scope]limiter.Config, known map[limiter.Scope]bool,
) {
	t.Helper()
	now := storedConfigs(t, repo)
	scopes, hash := managed(t, repo)
	if strings.HasPrefix(hash, "applying:") { // the record could not be written: it lists every level that may exist
		for s := range declared(m) {
			known[s] = true
		}
		equal(t, "managed", scopes, known)
		return
	}
	want := declared(m)
	for _, r := range report.Results {
		name := fmt.Sprintf("%s %s %s (%v)", r.Action, manifest.Level(r.Scope), manifest.Target(r.Scope), r.Err)
		switch {
		case r.Err == nil:
			equal(t, name, now[r.Scope].Limits, r.After.Limits)
			equal(t, name, now[r.Scope].OnUnavailable, r.After.OnUnavailable)
		case !want[r.Scope]:
			want[r.Scope] = true // could not be deleted
			equal(t, name, now[r.Scope], before[r.Scope])
		case !known[r.Scope]:
			delete(want, r.Scope)
			equal(t, name, now[r.Scope], before[r.Scope])
		}
	}
	equal(t, "managed", scopes, want)
	if complete := len(report.Failed()) == 0; complete != (hash == m.Hash()) {
		t.Errorf("hash %s, complete %v", hash, complete)
	}
}

// TestStoreThatFailsForAWhile applies until one apply meets no fault.
func TestStoreThatFailsForAWhile(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 4))
			repo := memory.New(nil)
			seedStore(t, rng, repo)
			m := randomManifest(rng)
			known, _ := managed(t, repo)
			want := expectedConfigs(storedConfigs(t, repo), known, m)
			var lots atomic.Uint64
			faulty := repotest.NewFaulty(repo, func(string) repotest.Fault {
				r := rand.New(rand.NewPCG(seed, lots.Add(1)))
				if r.IntN(30) > 0 {
					return repotest.None
				}
				return []repotest.Fault{repotest.Before, repotest.After}[r.IntN(2)]
			})
			for try := 0; ; try++ {
				_, report, err := manifest.Apply(bg, faulty, m, nil)
				if err == nil && len(report.Failed()) == 0 {
					break
				}
				if try == 200 {
					t.Fatalf("still failing: %v", err)
				}
			}
			checkApplied(t, repo, m, want)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
