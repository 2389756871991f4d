// Package repotest is the meaning of [limiter.Repository], as tests. Whoever
// writes an adapter runs the suite in a test of its own package:
//
//	func TestRepository(t *testing.T) {
//		repotest.Run(t, func(t *testing.T) limiter.Repository {
//			repo, err := mystore.Open(t.Context(), filepath.Join(t.TempDir(), "limits"))
//			if err != nil {
//				t.Fatal(err)
//			}
//			return repo
//		})
//	}
//
// The subtests are grouped by noun and named after what they protect, so that
// -run finds them: -run 'TestRepository/credit'. All of them run in parallel,
// each on a store of its own, at times that are passed in: the suite reads no
// clock and does not sleep. Balances are compared to the thousandth, with the
// default BucketTTL of 7 fill times. Run it with -race; -short makes the
// concurrent parts shorter.
//
// [Faulty] is a repository that fails on demand, for tests of what stands above
// the port.
package repotest

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// Run checks that the repository open returns keeps every promise of
// [limiter.Repository]. Each call of open returns a fresh, empty store in the
// namespace "default", with default options, or fails the test it is given; the
// suite closes it.
//
// Nouns listed in except are left out. The only one a store may do without is
// "usage", if another program counts it.
func Run(t *testing.T, open func(t *testing.T) limiter.Repository, except ...string) {
	t.Helper()
	for _, n := range nouns() {
		if slices.Contains(except, n.name) {
			continue
		}
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range n.checks {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					repo := open(t)
					t.Cleanup(func() { _ = repo.Close() })
					f := newFixture(t, repo)
					f.countsUsage = !slices.Contains(except, usageNoun)
					c.run(f)
				})
			}
		})
	}
}

// check is one promise: its name says what would break without it.
type check struct {
	name string
	run  func(f *fixture)
}

type noun struct {
	name   string
	checks []check
}

const (
	usageNoun    = "usage"    // what is counted of every charge
	overrideNoun = "override" // limits that come with a charge
)

func nouns() []noun {
	return []noun{
		{"buckets", bucketChecks()},
		{"refill", refillChecks()},
		{"ahead", aheadChecks()},
		{"peek", peekChecks()},
		{"cascade", cascadeChecks()},
		{overrideNoun, overrideChecks()},
		{"defaults", defaultsChecks()},
		{"credit", creditChecks()},
		{"repair", repairChecks()},
		{"expiry", expiryChecks()},
		{"entities", entityChecks()},
		{"deletion", deletionChecks()},
		{"config", configChecks()},
		{"registries", registryChecks()},
		{"managed", managedChecks()},
		{"namespaces", namespaceChecks()},
		{"audit", auditChecks()},
		{usageNoun, usageChecks()},
		{"sweep", sweepChecks()},
		{"lifecycle", lifecycleChecks()},
		{"sequences", sequenceChecks()},
		{"concurrency", concurrencyChecks()},
	}
}
