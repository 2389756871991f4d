package dynamo_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/aggregator"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
	"github.com/zeroae/zae-limiter-go/repotest"
)

func TestRepository(t *testing.T) {
	dynamotest.Endpoint(t)
	open := func(t *testing.T) limiter.Repository {
		t.Helper()
		return dynamotest.Connect(t, dynamotest.NewTable(t), nil)
	}
	repotest.Run(t, open, "usage")
}

// TestRepositoryCounted has an aggregator count usage before it is asked for. What
// has nothing to do with usage is left to TestRepository; and so are sums that
// no bucket can count.
func TestRepositoryCounted(t *testing.T) {
	dynamotest.Endpoint(t)
	open := func(t *testing.T) limiter.Repository {
		t.Helper()
		s := dynamotest.NewWriteLog(t, dynamotest.NewTable(t))
		repo := dynamotest.Connect(t, s.Table, &dynamo.Options{AWS: s.Config(dynamotest.Endpoint(t))})
		return &dynamotest.Aggregated{Repository: repo, Aggregator: dynamotest.NewAggregator(t, s, repo.UsageStore(0), aggregator.Options{NoRefill: true})}
	}
	repotest.Run(t, open, "buckets", "refill", "peek", "cascade", "override", "credit", "repair", "expiry", "entities", "config",
		"registries", "namespaces", "audit", "sweep", "lifecycle", "concurrency")
}
