package dynamo_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// projections returns the projection of each index of a table.
func projections(t *testing.T, table string) map[string]types.ProjectionType {
	t.Helper()
	out, err := dynamotest.Client(t).DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
	must(t, err)
	all := map[string]types.ProjectionType{}
	for _, index := range out.Table.GlobalSecondaryIndexes {
		all[*index.IndexName] = index.Projection.ProjectionType
	}
	return all
}

func TestCreateTableMakesALeanIndexOnlyInANewTable(t *testing.T) {
	t.Parallel()
	opts := dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}
	lean := opts
	lean.LeanIndex = true
	name := dynamotest.TableName(t)
	for _, o := range []dynamo.Options{lean, opts, lean} { // again, and without the option, it stays
		must(t, dynamo.CreateTable(t.Context(), name, &o))
		for index, got := range projections(t, name) {
			if want := index != "GSI1"; (got == types.ProjectionTypeKeysOnly) != want {
				t.Errorf("%s of a lean table projects %s", index, got)
			}
		}
	}
	name = dynamotest.NewTable(t)
	before := tableItems(t, name)
	lean.Namespace = "team-a"
	err := dynamo.CreateTable(t.Context(), name, &lean)
	want := fmt.Sprintf(
		"table %q: already exists, and its index by resource holds whole items; only a new table can have a lean index",
		name,
	)
	if !errors.Is(err, limiter.ErrExists) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if projections(t, name)["GSI2"] != types.ProjectionTypeAll || len(tableItems(t, name)) != len(before) {
		t.Error("the refusal changed the table")
	}
}

// batches is enough items for a full batch and a part of one.
const batches = 105

// newLeanPair returns two tables with the same items: buckets and usage of one
// resource, more than a batch of each. The index by resource of the second holds
// keys only.
func newLeanPair(t *testing.T) (full, lean *storedTable) {
	t.Helper()
	full = &storedTable{dynamotest.OpenStoredTable(t, dynamotest.NewTable(t), nil)}
	setDefaults(t, full.Repo, perMinute60)
	consume(t, full.Repo, 0, chargeOf("b", 1), true)
	bucket := rawBucket(t, full.TableName, full.NS, "b")
	var items []dynamotest.Item
	for i := range batches {
		entity := fmt.Sprintf("e-%03d", i)
		it := bucketKeyOf(full.NS, entity)
		for name, v := range bucket {
			if it[name] == nil {
				it[name] = v
			}
		}
		it["entity_id"], it["GSI2SK"], it["GSI4SK"] = textOf(entity), textOf("BUCKET#"+entity), it["PK"]
		items = append(items, it, snapshotOf(full.NS, entity, i%3))
	}
	writeItems(t, full.TableName, items)
	all := dynamotest.Scan(t, full.TableName)
	name := dynamotest.NewLeanTable(t)
	items = nil
	for _, it := range all {
		items = append(items, it)
	}
	writeItems(t, name, items)
	return full, &storedTable{dynamotest.OpenStoredTable(t, name, nil)}
}

func textOf(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// snapshotOf returns a snapshot of an hour in the form of a stored item.
func snapshotOf(ns, entity string, hour int) dynamotest.Item {
	start, pk := fmt.Sprintf("2026-03-14T%02d:00:00Z", hour), ns+"/ENTITY#"+entity
	return dynamotest.Item{
		"PK": textOf(pk), "SK": textOf("#USAGE#" + model + "#" + start), "entity_id": textOf(entity),
		"resource": textOf(model),
		"window":   textOf("hourly"), "window_start": textOf(start), "rpm": &types.AttributeValueMemberN{Value: "1"},
		"GSI2PK": textOf(ns + "/RESOURCE#" + model), "GSI2SK": textOf("USAGE#" + start + "#" + entity),
		"GSI4PK": textOf(ns), "GSI4SK": textOf(pk),
	}
}

// writeItems stores items in batches.
func writeItems(t *testing.T, table string, items []dynamotest.Item) {
	t.Helper()
	for batch := range slices.Chunk(items, 25) {
		var writes []types.WriteRequest
		for _, it := range batch {
			writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: it}})
		}
		_, err := dynamotest.Client(t).BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{table: writes},
		})
		must(t, err)
	}
}

// byResource returns what listings of the resource show, in their order.
func (s *storedTable) byResource() (buckets, usage []string) {
	s.Helper()
	for _, b := range dynamotest.Collect(s.T, s.Repo.Buckets(s.Context(), start, limiter.Scope{Resource: model})) {
		buckets = append(buckets, fmt.Sprint(b.Account.Entity, b.Account.Limits, b.Tokens))
	}
	return buckets, s.usage(limiter.UsageQuery{Resource: model})
}

func TestALeanIndexShowsTheSame(t *testing.T) {
	t.Parallel()
	full, lean := newLeanPair(t)
	buckets, usage := full.byResource()
	if len(buckets) != batches+1 || len(usage) != batches {
		t.Fatalf("%d buckets and %d snapshots in the table with a full index", len(buckets), len(usage))
	}
	for _, size := range []int64{0, 30, 101} {
		lean.Wire.PageSize.Store(size)
		gotBuckets, gotUsage := lean.byResource()
		lean.Equal(fmt.Sprintf("buckets in pages of %d", size), gotBuckets, buckets)
		lean.Equal(fmt.Sprintf("usage in pages of %d", size), gotUsage, usage)
	}
}

// editIndex changes the items of each page that a query of GSI2 returns.
func (s *storedTable) editIndex(edit func(items []map[string]any) []map[string]any) {
	s.Wire.Intercept(func(c *dynamotest.Call) (*http.Response, error) {
		resp, err := c.Send()
		if err != nil || c.Op != "Query" || !strings.Contains(c.Body, `"GSI2"`) {
			return resp, err
		}
		defer resp.Body.Close()
		var reply map[string]any
		s.Must(json.NewDecoder(resp.Body).Decode(&reply))
		var items []map[string]any
		for _, it := range reply["Items"].([]any) {
			items = append(items, it.(map[string]any))
		}
		reply["Items"] = edit(items)
		return dynamotest.Respond(s.T, reply)
	})
}

// keysOnly returns an item of the index by resource without its other attributes.
func keysOnly(it map[string]any) map[string]any {
	return map[string]any{"PK": it["PK"], "SK": it["SK"], "GSI2PK": it["GSI2PK"], "GSI2SK": it["GSI2SK"]}
}

// Some items of the index have all attributes, some only keys.
func TestAMixedIndexShowsTheSame(t *testing.T) {
	t.Parallel()
	full, _ := newLeanPair(t)
	buckets, usage := full.byResource()
	for _, every := range []int{2, 3, 101} {
		full.editIndex(func(items []map[string]any) []map[string]any {
			for i := range items {
				if i%every == 1 {
					items[i] = keysOnly(items[i])
				}
			}
			return items
		})
		gotBuckets, gotUsage := full.byResource()
		full.Equal("buckets", gotBuckets, buckets)
		full.Equal("usage", gotUsage, usage)
	}
}

// The page of an index shows an item under its old and its new keys.
func TestALeanIndexMayShowAnItemTwice(t *testing.T) {
	t.Parallel()
	_, lean := newLeanPair(t)
	_, usage := lean.byResource()
	lean.editIndex(func(items []map[string]any) []map[string]any { return append(items[:1:1], items...) })
	got := dynamotest.Collect(t, lean.Repo.Buckets(t.Context(), start, limiter.Scope{Resource: model}))
	if len(got) != batches+2 || got[0].Account.Entity != got[1].Account.Entity {
		t.Errorf("%d buckets, want %d", len(got), batches+2)
	}
	if got := lean.usage(limiter.UsageQuery{Resource: model}); len(got) != len(usage) {
		t.Errorf("%d snapshots, want %d", len(got), len(usage))
	}
}

// An item is deleted after the index was read, and before the table is.
func TestALeanIndexSkipsItemsThatAreDeleted(t *testing.T) {
	t.Parallel()
	_, lean := newLeanPair(t)
	buckets, _ := lean.byResource()
	lean.Repo.Forget()
	lean.Wire.Before(func(c *dynamotest.Call) bool {
		return c.Op == "BatchGetItem" && strings.Contains(c.Body, "e-007")
	}, func() {
		_, err := lean.Client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
			TableName: &lean.TableName, Key: bucketKeyOf(lean.NS, "e-007"),
		})
		must(t, err)
	})
	got, _ := lean.byResource()
	lean.Equal("buckets", got, slices.DeleteFunc(buckets, func(b string) bool { return strings.Contains(b, "e-007") }))
}

// The service returns a part of each batch when it is busy.
func TestALeanIndexReadsUnprocessedKeysAgain(t *testing.T) {
	t.Parallel()
	_, lean := newLeanPair(t)
	_, usage := lean.byResource()
	var asked atomic.Int64
	lean.Wire.Intercept(func(c *dynamotest.Call) (*http.Response, error) {
		if c.Op != "BatchGetItem" || asked.Add(1)%2 == 0 {
			return c.Send()
		}
		var sent struct{ RequestItems map[string]any }
		lean.Must(json.Unmarshal([]byte(c.Body), &sent))
		return dynamotest.Respond(t, map[string]any{
			"Responses": map[string]any{}, "UnprocessedKeys": sent.RequestItems,
		})
	})
	lean.Equal("usage", lean.usage(limiter.UsageQuery{Resource: model}), usage)
	if asked.Load() != 4 {
		t.Errorf("%d batches, want 2, each twice", asked.Load())
	}
}

// countBatches returns how many batches of items work reads.
func (s *storedTable) countBatches(work func()) int64 {
	s.Helper()
	var n atomic.Int64
	s.Wire.Intercept(func(c *dynamotest.Call) (*http.Response, error) {
		if c.Op == read {
			n.Add(1)
		}
		return c.Send()
	})
	work()
	s.Wire.Intercept(nil)
	return n.Load()
}

// A listing reads items when it needs them, and only where the index lacks them.
func TestListingsOfAResourceReadNoMoreThanTheyNeed(t *testing.T) {
	t.Parallel()
	full, lean := newLeanPair(t)
	first := func(s *storedTable) func() {
		return func() {
			for _, err := range s.Repo.Usage(t.Context(), limiter.UsageQuery{Resource: model}) {
				must(t, err)
				return
			}
		}
	}
	all := func(s *storedTable) func() { return func() { s.usage(limiter.UsageQuery{Resource: model}) } }
	full.usage(limiter.UsageQuery{Resource: model}) // remembers the namespace
	lean.usage(limiter.UsageQuery{Resource: model})
	for _, c := range []struct {
		what string
		got  int64
		want int64
	}{
		{"the first of a full index", full.countBatches(first(full)), 0},
		{"all of a full index", full.countBatches(all(full)), 0},
		{"the first of a lean index", lean.countBatches(first(lean)), 1},
		{"all of a lean index", lean.countBatches(all(lean)), 2},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d batches, want %d", c.what, c.got, c.want)
		}
	}
}

// A page that fails ends the listing after the windows before it.
func TestALeanIndexShowsWhatComesBeforeAnError(t *testing.T) {
	t.Parallel()
	full, lean := newLeanPair(t)
	for _, c := range []struct {
		s      *storedTable
		denied string
		want   int
	}{{full, "Query", 2 * (batches / 3)}, {lean, "Query", 2 * (batches / 3)}, {lean, "BatchGetItem", 0}} {
		c.s.usage(limiter.UsageQuery{Resource: model}) // remembers the namespace
		c.s.Wire.PageSize.Store(80)                    // all of two windows, some of the third
		var queries atomic.Int64
		c.s.Wire.Intercept(func(sent *dynamotest.Call) (*http.Response, error) {
			if sent.Op != c.denied || sent.Op == "Query" && queries.Add(1) == 1 {
				return sent.Send()
			}
			resp, err := dynamotest.Respond(t, map[string]any{"__type": "AccessDeniedException", "message": "no"})
			resp.StatusCode = http.StatusBadRequest
			return resp, err
		})
		listed, failure := 0, error(nil)
		for _, err := range c.s.Repo.Usage(t.Context(), limiter.UsageQuery{Resource: model}) {
			if failure = err; err == nil {
				listed++
			}
		}
		c.s.Wire.Intercept(nil)
		if listed != c.want || failure == nil || !strings.Contains(failure.Error(), "access denied") {
			t.Errorf("%s denied: %d snapshots and error %v, want %d and access denied", c.denied, listed, failure,
				c.want)
		}
	}
}
