package dynamo_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
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
	b := compareBeside(t, seed, ops, aggregator.Options{}, func(_ *dynamotest.WriteLog, repo *dynamo.Repository) aggregator.Store {
		return repo.UsageStore(0)
	}, "override")
	t.Logf("seed %d: %d operations, %d records, %d refills, %d refused", seed, ops, len(b.Log.From(0)), b.Refilled, b.Refused)
	if b.Refilled < ops/20 {
		t.Errorf("seed %d: too few refills to tell", seed)
	}
}
