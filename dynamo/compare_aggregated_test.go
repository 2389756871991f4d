package dynamo_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// TestCompareAggregated is TestCompare with an aggregator beside DynamoDB, which
// counts usage and refills buckets ahead of need: no answer may tell. With
// overrides they could, which refill by their own limits what was not refilled
// before.
func TestCompareAggregated(t *testing.T) {
	seed := *compareSeed
	for left := *compareOps / part; left > 0; left -= perHistory {
		compareAggregated(t, seed, min(left, perHistory))
		seed++
	}
}

// part is what TestCompareAggregated does of the operations asked for, since each
// takes longer.
const part = 4

func compareAggregated(t *testing.T, seed uint64, ops int) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to repeat it: make compare STORES=dynamo SEED=%d OPS=%d", seed, part*ops)
		}
	})
	b := compareBeside(t, seed, ops, aggregator.Options{}, func(_ *stream, repo *dynamo.Repository) aggregator.Store {
		return repo.UsageStore(0)
	}, "override")
	t.Logf("seed %d: %d operations, %d records, %d refills, %d refused", seed, ops, len(b.stream.from(0)), b.refilled, b.refused)
	if b.refilled < ops/20 {
		t.Errorf("seed %d: too few refills to tell", seed)
	}
}

// apart is how far an aggregator's clock must be behind the latest time of a
// comparison for no later call to be earlier: clients are up to two seconds
// ahead or behind, and changes of limits are dated in whole seconds.
const apart = 5 * time.Second

// compareBeside compares memory with DynamoDB beside an aggregator with a store
// of its own.
func compareBeside(
	tb testing.TB, seed uint64, ops int, opts aggregator.Options, store func(*stream, *dynamo.Repository) aggregator.Store, except ...string,
) *beside {
	tb.Helper()
	s := newStream(tb, newTable(tb))
	o := exactly
	o.AWS = s.config(engine(tb))
	repo, reference := connect(tb, s.table, &o), memory.New(nil)
	b := newBeside(tb, s, store(s, repo), opts)
	b.behind, b.rng, b.eager, b.agree = apart, rand.New(rand.NewPCG(seed, 3)), 40, agrees(repo, reference)
	repotest.Compare(tb, seed, ops, &aggregated{repo, b, b.run}, reference, except...)
	return b
}
