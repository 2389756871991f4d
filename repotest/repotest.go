// Package repotest tests implementations of limiter.Repository. A store runs
// the conformance suite in a test of its own package:
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
// The subtests are grouped by noun, such as -run 'TestRepository/credit'. Each
// subtest runs in parallel with the others on a store of its own. The suite
// passes all times to the store: it reads no clock and does not sleep. It
// compares balances to the thousandth, with the default BucketTTL of 7 fill
// times. The suite uses time zones: where the machine has none, import time/tzdata in
// the test. Run it with -race. The flag -short shortens the concurrent parts.
//
// [Compare] drives two stores with the same random history and compares their
// answers. [Endure] drives several clients of one store. [Faulty] injects
// faults into tests of code that uses a repository.
package repotest

import (
	"slices"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// Run checks that the repository returned by open conforms to
// limiter.Repository. Each call of open must return a new, empty store in the
// namespace "default" with default options, or fail the test. Run closes the
// store.
//
// Run skips the nouns listed in except. Only "usage" may be skipped, if another
// program counts it.
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

// check tests one guarantee of the port. Its name states the guarantee.
type check struct {
	name string
	run  func(f *fixture)
}

type noun struct {
	name   string
	checks []check
}

const (
	usageNoun    = "usage"    // counting of usage
	overrideNoun = "override" // limits that come with a charge
)

func nouns() []noun {
	return []noun{
		{"buckets", bucketChecks()},
		{"pages", pageChecks()},
		{"refill", refillChecks()},
		{"ahead", aheadChecks()},
		{"peek", peekChecks()},
		{"cascade", cascadeChecks()},
		{"trees", treeChecks()},
		{overrideNoun, overrideChecks()},
		{"defaults", defaultsChecks()},
		{"credit", creditChecks()},
		{"repair", repairChecks()},
		{"expiry", expiryChecks()},
		{"quotas", slices.Concat(quotaChecks(), quotaChangeChecks(), quotaCarriedChecks())},
		{"replaced", replacedChecks()},
		{"shadow", slices.Concat(shadowChecks(), shadowUseChecks())},
		{"switch", switchChecks()},
		{"fill", fillChecks()},
		{"entities", entityChecks()},
		{"deletion", deletionChecks()},
		{"config", configChecks()},
		{"registries", registryChecks()},
		{"managed", managedChecks()},
		{"statistics", statisticsChecks()},
		{"namespaces", namespaceChecks()},
		{"audit", auditChecks()},
		{usageNoun, usageChecks()},
		{"sweep", sweepChecks()},
		{"lifecycle", lifecycleChecks()},
		{"sequences", sequenceChecks()},
		{"concurrency", concurrencyChecks()},
		{"cancel", cancelChecks()},
	}
}
