package dynamo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// TestTightBudgetsShortenPages checks that a page ends with what its budget paid
// for, and that the next page goes on from there.
func TestTightBudgetsShortenPages(t *testing.T) {
	t.Parallel()
	repo := dynamotest.Connect(t, dynamotest.NewTable(t), nil)
	setDefaults(t, repo, perMinute60)
	const entities = 60
	for i := range entities {
		consume(t, repo, 0, chargeOf(fmt.Sprintf("e-%02d", i), 1), true)
	}
	spend, _ := repo.NewReadBudget(3)
	page, err := repo.BucketPage(spend(t.Context()), start, limiter.BucketQuery{Max: entities})
	must(t, err)
	if n := len(page.Buckets); n == 0 || n == entities || page.Next == "" {
		t.Fatalf("%d buckets and next %q, want some of %d", n, page.Next, entities)
	}
	rest := readPages(t.Context(), t, repo, start, limiter.BucketQuery{After: page.Next})
	for i, b := range append(page.Buckets, rest...) {
		if want := fmt.Sprintf("e-%02d", i); b.Account.Entity != want {
			t.Fatalf("bucket %d is %s, want %s", i, b.Account.Entity, want)
		}
	}
	if got := len(page.Buckets) + len(rest); got != entities {
		t.Errorf("%d buckets, want %d", got, entities)
	}
}

// TestReadsShowLimitsOfOthers checks that reads with a budget show limits that
// another process has set two seconds ago, although charges use older ones.
func TestReadsShowLimitsOfOthers(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	repo, other := dynamotest.Connect(t, table, nil), dynamotest.Connect(t, table, nil)
	key := limiter.Scope{Entity: "key-1", Resource: model}
	setDefaults(t, repo, perMinute60)
	consume(t, repo, 0, chargeOf(key.Entity, 1), true)
	spend, _ := repo.NewReadBudget(1000)
	ctx := spend(t.Context())
	reads := map[string]func(time.Time) (limiter.Bucket, error){
		"BucketPage": func(now time.Time) (limiter.Bucket, error) {
			page, err := repo.BucketPage(ctx, now, limiter.BucketQuery{})
			return page.Buckets[0], err
		},
		"BucketsAt": func(now time.Time) (limiter.Bucket, error) {
			found, err := repo.BucketsAt(ctx, now, []limiter.Scope{key})
			return found[0], err
		},
		"Buckets": func(now time.Time) (limiter.Bucket, error) {
			return dynamotest.Collect(t, repo.Buckets(ctx, now, key))[0], nil
		},
		"Peek": func(now time.Time) (limiter.Bucket, error) {
			out, err := repo.Peek(ctx, now, chargeOf(key.Entity, 1))
			return out.Payers[0], err
		},
	}
	now := start
	for i, scope := range []limiter.Scope{{Resource: model}, {Entity: key.Entity}, key} {
		changed := limiter.PerMinute("rpm", int64(100+i))
		for _, read := range reads {
			_, err := read(now)
			must(t, err)
		}
		must(t,
			other.SetConfig(t.Context(), limiter.Config{Scope: scope, Limits: []limiter.Limit{changed}},
				limiter.AuditEvent{At: now}))
		now = now.Add(2 * time.Second)
		for name, read := range reads {
			b, err := read(now)
			must(t, err)
			if len(b.Account.Limits) != 1 || b.Account.Limits[0] != changed || b.Account.Source != scope {
				t.Errorf("%s after a change of %v: %v of %v", name, scope, b.Account.Limits, b.Account.Source)
			}
		}
	}
}
