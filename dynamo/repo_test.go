package dynamo_test

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// connect opens a table as one process would. The AWS config of opts is the
// engine's unless it is given.
func connect(tb testing.TB, table string, opts *dynamo.Options) *dynamo.Repository {
	tb.Helper()
	var o dynamo.Options
	if opts != nil {
		o = *opts
	}
	if o.AWS == nil {
		o.AWS = awsConfig(engine(tb))
	}
	o.Timeout = cmp.Or(o.Timeout, unhurried)
	o.PurgeWait = cmp.Or(o.PurgeWait, -1)
	repo, err := dynamo.Connect(context.Background(), table, &o)
	must(tb, err)
	tb.Cleanup(func() { _ = repo.Close() })
	return repo
}

// unhurried is the Timeout of tests that are not about it: the engine shares a
// machine with all of them.
const unhurried = time.Minute

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestRepository(t *testing.T) {
	engine(t)
	open := func(t *testing.T) limiter.Repository {
		t.Helper()
		return connect(t, newTable(t), nil)
	}
	repotest.Run(t, open, "usage")
}

// TestRepositoryCounted has an aggregator count usage before it is asked for. What
// has nothing to do with usage is left to TestRepository; and so are sums that
// no bucket can count.
func TestRepositoryCounted(t *testing.T) {
	engine(t)
	open := func(t *testing.T) limiter.Repository {
		t.Helper()
		s := newStream(t, newTable(t))
		repo := connect(t, s.table, &dynamo.Options{AWS: s.config(engine(t))})
		return &aggregated{repo, newBeside(t, s, repo.UsageStore(0), aggregator.Options{NoRefill: true}), nil}
	}
	repotest.Run(t, open, "buckets", "refill", "peek", "cascade", "override", "credit", "repair", "expiry", "entities", "config",
		"registries", "namespaces", "audit", "sweep", "lifecycle", "concurrency")
}

// exactly is how the store answers as the embedded ones do.
var exactly = dynamo.Options{Exact: true, NoRejectionMemory: true}

// TestCompare holds memory and DynamoDB against each other.
func TestCompare(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("to repeat it, add STORES=dynamo")
		}
	})
	seed := *compareSeed
	for left := *compareOps; left > 0; left -= perHistory {
		repotest.Compare(t, seed, min(left, perHistory), memory.New(nil), connect(t, newTable(t), &exactly), "usage")
		seed++
	}
	t.Logf("%d operations, seeds %d to %d", *compareOps, *compareSeed, seed-1)
}
