package sqlite_test

import (
	"context"
	"flag"
	"path/filepath"
	"testing"

	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
	"github.com/zeroae/zae-limiter-go/sqlite"
)

var (
	compareOps  = flag.Int("compare.ops", 6_000, "how many operations the comparison makes")
	compareSeed = flag.Uint64("compare.seed", 1, "seed of the first history")
)

// perHistory is the number of operations on one pair of stores: enough to
// reach every state, few enough to inspect after a failure.
const perHistory = 2000

// TestCompareLong compares memory and sqlite in many histories. make compare
// runs it with more operations.
func TestCompareLong(t *testing.T) {
	seed := *compareSeed
	for left := *compareOps; left > 0; left -= perHistory {
		compareStores(t, seed, min(left, perHistory))
		seed++
	}
	t.Logf("%d operations, seeds %d to %d", *compareOps, *compareSeed, seed-1)
}

func compareStores(t *testing.T, seed uint64, ops int) {
	t.Helper()
	file, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "limits.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	repotest.Compare(t, seed, ops, memory.New(nil), file)
}
