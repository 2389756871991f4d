package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// readPages returns the buckets of all pages.
func readPages(
	ctx context.Context, tb testing.TB, repo limiter.Repository, now time.Time, q limiter.BucketQuery,
) (all []limiter.Bucket) {
	tb.Helper()
	for {
		page, err := repo.(limiter.BucketPager).BucketPage(ctx, now, q)
		must(tb, err)
		if all = append(all, page.Buckets...); page.Next == "" {
			return all
		}
		q.After = page.Next
	}
}

// TestPagesPassUsageByKey checks that a page costs the same with 10,000 usage items
// among its entities, within a few queries of the index.
func TestPagesPassUsageByKey(t *testing.T) {
	t.Parallel()
	table, m := dynamotest.TableName(t), &meter{next: dynamotest.Transport}
	must(t, dynamo.CreateTable(t.Context(), table, &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}))
	other := dynamotest.Connect(t, table, nil)
	setDefaults(t, other, perMinute60)
	cfg := dynamotest.Config(dynamotest.Endpoint(t))
	cfg.HTTPClient = &http.Client{Transport: m}
	repo := dynamotest.Connect(t, table, &dynamo.Options{AWS: cfg, CountCapacity: true})
	const entities, snapshots = 5, 2000
	var usage []dynamotest.Item
	for i := range entities {
		entity := fmt.Sprint("e-", i)
		consume(t, other, 0, chargeOf(entity, 1), true)
		for j := range snapshots {
			whole := snapshotOf(other.NamespaceID(), entity, j)
			usage = append(usage, dynamotest.Item{
				"PK": whole["PK"], "SK": whole["SK"], "GSI4PK": whole["GSI4PK"], "GSI4SK": whole["GSI4SK"],
			})
		}
	}
	cost := func() (requests int, units float64) {
		t.Helper()
		for range 2 { // the first one reads the levels
			m.reset()
			if all := readPages(t.Context(), t, repo, start, limiter.BucketQuery{}); len(all) != entities {
				t.Fatalf("%d buckets, want %d", len(all), entities)
			}
		}
		return m.requests, m.reads
	}
	plainRequests, plainUnits := cost()
	writeItems(t, table, usage)
	requests, units := cost()
	t.Logf("without usage %d requests and %g units, with %d items %d and %g", plainRequests, plainUnits, len(usage),
		requests, units)
	if requests > plainRequests+entities || units > plainUnits+entities*2 {
		t.Errorf("%d requests and %g units with %d usage items, %d and %g without", requests, units, len(usage),
			plainRequests, plainUnits)
	}
}

// used returns the units that a budget has spent.
func used(spent func() (units, rate float64)) float64 {
	units, _ := spent()
	return units
}

// TestBudgetsMeasureReads checks that a budget counts what the table
// bills, in all namespaces, and that charges need no budget.
func TestBudgetsMeasureReads(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	repo := dynamotest.Connect(t, table, &dynamo.Options{
		CountCapacity: true, AWS: dynamotest.Config(dynamotest.Endpoint(t)),
	})
	setDefaults(t, repo, perMinute60)
	_, err := repo.RegisterNamespace(t.Context(), start, "other")
	must(t, err)
	for i := range 30 {
		consume(t, repo, 0, chargeOf(fmt.Sprint("e-", i), 1), true)
	}
	spend, spent := repo.NewReadBudget(1e6)
	ctx := spend(t.Context())
	repo.Forget()
	before := repo.Stats().ReadUnits
	inside, err := repo.Namespace(ctx, "other")
	must(t, err)
	for _, v := range []limiter.Repository{repo, inside} {
		readPages(ctx, t, v, start, limiter.BucketQuery{Max: 7})
		_, err := v.(limiter.BucketPager).BucketsAt(ctx, start,
			[]limiter.Scope{{Entity: "e-1", Resource: model}})
		must(t, err)
		_, err = v.Config(ctx, limiter.Scope{Resource: model})
		must(t, err)
		dynamotest.Collect(t, v.Entities(ctx, ""))
		dynamotest.Collect(t, v.Buckets(ctx, start, limiter.Scope{}))
		must(t, v.Ping(ctx))
	}
	_, err = repo.Peek(ctx, start, chargeOf("new", 1))
	must(t, err)
	if used, billed := used(spent), repo.Stats().ReadUnits-before; used != billed || used < 15 {
		t.Errorf("%g units spent, %g billed", used, billed)
	}
	before = used(spent)
	repo.Forget()
	consume(t, repo, 0, chargeOf("e-1", 1), true)
	if used := used(spent); used != before {
		t.Errorf("a charge used %g units of the budget", used-before)
	}
}

// TestBudgetsHoldUpNoCharge checks that calls without a budget never wait for reads
// that do, although they share caches.
func TestBudgetsHoldUpNoCharge(t *testing.T) {
	t.Parallel()
	repo := dynamotest.Connect(t, dynamotest.NewTable(t), nil)
	setDefaults(t, repo, perMinute60)
	spend, spent := repo.NewReadBudget(1)
	var keys []limiter.Scope
	for i := range 80 {
		keys = append(keys, limiter.Scope{Entity: fmt.Sprint("e-", i), Resource: model})
		consume(t, repo, 0, chargeOf(keys[i].Entity, 1), true)
	}
	readPages(t.Context(), t, repo, start, limiter.BucketQuery{}) // so that the next call needs one request
	_, err := repo.BucketsAt(spend(t.Context()), start, keys)     // leaves a debt of more than half a minute
	must(t, err)
	if used(spent) < 40 {
		t.Fatalf("%g units used, want a debt", used(spent))
	}
	repo.Forget()
	ctx, cancel := context.WithCancel(spend(t.Context()))
	reads := make(chan error, 3)
	go func() { _, err := repo.Peek(ctx, start, chargeOf("alice", 1)); reads <- err }()
	go func() {
		_, err := repo.BucketPage(ctx, start, limiter.BucketQuery{})
		reads <- err
	}()
	go func() { _, err := repo.Config(ctx, limiter.Scope{}); reads <- err }()
	for range 10 {
		consume(t, repo, 0, chargeOf("alice", 1), true)
		repo.Forget()
	}
	cancel()
	for range 3 {
		if err := <-reads; !errors.Is(err, context.Canceled) {
			t.Errorf("a read in debt: %v, want the end of its context", err)
		}
	}
}

// TestPagesLeaveDamagedBucketsOut checks that a damaged bucket, or damaged limits of
// one, hide no other bucket.
func TestPagesLeaveDamagedBucketsOut(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	for _, entity := range []string{"a", "b", "c", "d", "e"} {
		s.SetLimits(limiter.Scope{Entity: entity, Resource: model}, perMinute60)
		consume(t, s.Repo, 0, chargeOf(entity, 1), true)
	}
	bucket := s.Item("{ns}/ENTITY#b", "#BUCKET#"+model)
	bucket["b_rpm_tk"] = &types.AttributeValueMemberS{Value: "many"}
	_, err := s.Client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &s.TableName, Item: bucket})
	must(t, err)
	s.PutItem("{ns}/ENTITY#d", "#CONFIG#"+model, "l_rpm_cp S 60\nl_rpm_ra N 60\nl_rpm_rp N 60")
	fresh := dynamotest.Connect(t, s.TableName, nil)
	for _, size := range []int{1, 2, 10} {
		var found, damaged []string
		q := limiter.BucketQuery{Max: size}
		for {
			page, err := fresh.BucketPage(t.Context(), start, q)
			must(t, err)
			for _, b := range page.Buckets {
				found = append(found, b.Account.Entity)
			}
			for _, k := range page.Damaged {
				damaged = append(damaged, k.Entity+" "+k.Resource)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		want := fmt.Sprint([]string{"a", "c", "e"}, []string{"b " + model, "d " + model})
		if got := fmt.Sprint(found, damaged); got != want {
			t.Errorf("pages of %d: %s, want %s", size, got, want)
		}
	}
}
