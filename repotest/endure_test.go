package repotest_test

import (
	"flag"
	"testing"

	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

var (
	compareOps  = flag.Int("compare.ops", 6_000, "how many operations the comparison makes")
	compareSeed = flag.Uint64("compare.seed", 1, "seed of the first history")
)

// perHistory is the number of operations on one pair of stores: enough to
// reach every state, few enough to inspect after a failure.
const perHistory = 2000

// TestEndure checks memory alone, and views of it whose clocks differ. make compare runs
// it with more operations.
func TestEndure(t *testing.T) {
	seed := *compareSeed
	for left := *compareOps; left > 0; left -= perHistory {
		ops := min(left, perHistory)
		repo := memory.New(nil)
		repotest.Endure(t, seed, ops, 0, repo, repo)
		repo = memory.New(nil)
		repotest.Endure(t, seed, ops, 0, repo, views(t, repo, 3)...)
		seed++
	}
	t.Logf("%d operations, seeds %d to %d", *compareOps, *compareSeed, seed-1)
}
