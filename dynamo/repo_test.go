package dynamo_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

func TestRepository(t *testing.T) {
	t.Parallel()
	dynamotest.Endpoint(t)
	open := func(t *testing.T) limiter.Repository {
		t.Helper()
		return dynamotest.Connect(t, dynamotest.NewTable(t), nil)
	}
	repotest.Run(t, open, "usage")
}

// TestRepositoryCounted runs the conformance tests of usage with an aggregator
// that counts before each query. Sums that no bucket can count are left to
// TestRepository.
func TestRepositoryCounted(t *testing.T) {
	t.Parallel()
	dynamotest.Endpoint(t)
	open := func(t *testing.T) limiter.Repository {
		t.Helper()
		return newCounted(t, dynamotest.NewTable(t))
	}
	repotest.Run(t, open, "buckets", "pages", "refill", "peek", "cascade", "trees", "override", "credit", "repair",
		"expiry", "entities", "config",
		"registries", "namespaces", "audit", "sweep", "lifecycle", "concurrency", "cancel")
}

// newCounted returns a repository with an aggregator that counts before each query.
func newCounted(t *testing.T, table string) limiter.Repository {
	t.Helper()
	s := dynamotest.NewWriteLog(t, table)
	repo := dynamotest.Connect(t, table, &dynamo.Options{AWS: s.Config(dynamotest.Endpoint(t))})
	return &dynamotest.Aggregated{
		Repository: repo,
		Aggregator: dynamotest.NewAggregator(t, s, repo.UsageStore(0), aggregator.Options{NoRefill: true}),
	}
}

// TestRepositoryLean runs the conformance tests that list a resource on a table
// whose index by resource holds keys only, with an aggregator that counts.
func TestRepositoryLean(t *testing.T) {
	t.Parallel()
	dynamotest.Endpoint(t)
	open := func(t *testing.T) limiter.Repository {
		t.Helper()
		return newCounted(t, dynamotest.NewLeanTable(t))
	}
	repotest.Run(t, open, "pages", "refill", "ahead", "peek", "cascade", "trees", "override", "defaults", "credit",
		"entities", "config", "registries",
		"managed", "audit", "sweep", "lifecycle", "concurrency", "cancel")
}

var (
	compareOps  = flag.Int("compare.ops", 500, "how many operations the comparison makes")
	compareSeed = flag.Uint64("compare.seed", 1, "seed of the first history")
)

// perHistory is the number of operations per pair of stores.
const perHistory = 2000

// TestCompare compares DynamoDB with memory.
func TestCompare(t *testing.T) {
	t.Parallel()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("to repeat it, add STORES=dynamo")
		}
	})
	seed := *compareSeed
	for left := *compareOps; left > 0; left -= perHistory {
		repotest.Compare(t, seed, min(left, perHistory), memory.New(nil),
			dynamotest.Connect(t, dynamotest.NewTable(t), &exactOptions), "usage")
		seed++
	}
	t.Logf("%d operations, seeds %d to %d", *compareOps, *compareSeed, seed-1)
}

// TestCompareLean compares DynamoDB with memory on a table whose index by resource
// holds keys only.
func TestCompareLean(t *testing.T) {
	t.Parallel()
	repotest.Compare(t, *compareSeed, min(*compareOps, leanOps), memory.New(nil),
		dynamotest.Connect(t, dynamotest.NewLeanTable(t), &exactOptions), "usage")
}

// leanOps is the length of TestCompareLean, which differs from TestCompare only in
// its listings.
const leanOps = 500

// TestCompareAggregated runs TestCompare with an aggregator that counts usage
// and refills buckets ahead of need. No answer may differ. It leaves out
// overrides, which refill with limits of their own.
func TestCompareAggregated(t *testing.T) {
	t.Parallel()
	seed := *compareSeed
	for left := *compareOps / aggregatedShare; left > 0; left -= perHistory {
		compareAggregated(t, seed, min(left, perHistory))
		seed++
	}
}

// aggregatedShare divides the number of operations for TestCompareAggregated,
// which takes longer.
const aggregatedShare = 4

func compareAggregated(t *testing.T, seed uint64, ops int) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to repeat it: make compare STORES=dynamo SEED=%d OPS=%d", seed, aggregatedShare*ops)
		}
	})
	b := compareWithAggregator(t, seed, ops, aggregator.Options{},
		func(_ *dynamotest.WriteLog, repo *dynamo.Repository) aggregator.Store {
			return repo.UsageStore(0)
		}, "override")
	t.Logf("seed %d: %d operations, %d records, %d refills, %d refused", seed, ops, len(b.Log.From(0)), b.Refilled,
		b.Refused)
	if b.Refilled < ops/25 {
		t.Errorf("seed %d: too few refills to tell", seed)
	}
}

// clockLag is how far the aggregator's clock is behind the latest call, so that
// no later call has an earlier time: clients are up to two seconds ahead or
// behind, and changes of limits have whole seconds.
const clockLag = 5 * time.Second

// compareWithAggregator compares memory with DynamoDB beside an aggregator with
// the given store.
func compareWithAggregator(
	tb testing.TB, seed uint64, ops int, opts aggregator.Options, store func(
		*dynamotest.WriteLog, *dynamo.Repository,
	) aggregator.Store, except ...string,
) *dynamotest.Aggregator {
	tb.Helper()
	s := dynamotest.NewWriteLog(tb, dynamotest.NewTable(tb))
	o := exactOptions
	o.AWS = s.Config(dynamotest.Endpoint(tb))
	repo, reference := dynamotest.Connect(tb, s.Table, &o), memory.New(nil)
	b := dynamotest.NewAggregator(tb, s, &steplessStore{store(s, repo)}, opts)
	b.Behind, b.Rand, b.Eager, b.OnRefill = clockLag, rand.New(rand.NewPCG(seed, 3)), 40, compareBuckets(repo, reference)
	// Without Forget: the aggregator's clock is behind, and a cold process does not
	// know the latest time of a bucket.
	counted := &dynamotest.Aggregated{Repository: repo, Aggregator: b, Wake: b.Run}
	warm := struct {
		limiter.Repository
		limiter.BucketPager
	}{counted, counted}
	repotest.Compare(tb, seed, ops, warm, reference, except...)
	return b
}

// steplessStore steps no quota. A change of window does not take a step that is due,
// so that a step by an aggregator makes a difference if no charge comes before the
// change. TestEndure and TestAggregatorsStepQuotas have aggregators that step.
type steplessStore struct{ aggregator.Store }

func (s *steplessStore) Refill(
	ctx context.Context, now time.Time, of aggregator.ID, state *aggregator.State,
) (bool, error) {
	if !state.StepAt.IsZero() && !now.Before(state.StepAt) {
		return false, nil
	}
	return s.Store.Refill(ctx, now, of, state)
}

// compareBuckets returns a check that both repositories show the same bucket at
// the time of its refill.
func compareBuckets(repo *dynamo.Repository, other limiter.Repository) func(*dynamotest.Aggregator, aggregator.Change) {
	return func(b *dynamotest.Aggregator, c aggregator.Change) {
		// one operation charges both twins
		if c.Bucket.Namespace != repo.NamespaceID() || strings.HasPrefix(c.Bucket.Entity, "twin-") {
			return
		}
		var seen [2][]string
		for i, r := range []limiter.Repository{repo, other} {
			for v, err := range r.Buckets(context.Background(), b.Clock, limiter.Scope{
				Entity: c.Bucket.Entity, Resource: c.Bucket.Resource,
			}) {
				must(b.TB, err)
				seen[i] = append(seen[i], fmt.Sprint(v.Account.Limits, v.Tokens))
			}
		}
		if diff := cmp.Diff(seen[1], seen[0]); diff != "" {
			b.TB.Fatalf("%v, refilled at %s from %+v (-without +with the refill):\n%s", c.Bucket, b.Clock, c.State,
				diff)
		}
	}
}
