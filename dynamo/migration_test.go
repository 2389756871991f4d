package dynamo_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// oldTable is a table whose items a test replaces.
type oldTable struct {
	*testing.T
	name string
}

func newOldTable(t *testing.T) *oldTable {
	t.Helper()
	return &oldTable{t, dynamotest.NewTable(t)}
}

// load replaces all items of the table.
func (o *oldTable) load(items map[string]attributes) {
	o.Helper()
	var deletes, puts []types.WriteRequest
	for _, it := range tableItems(o.T, o.name) {
		k := attributes{"PK": it["PK"], "SK": it["SK"]}
		deletes = append(deletes, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: readAttributes(o.T, k)}})
	}
	for k, it := range items {
		pk, sk, _ := strings.Cut(k, " ")
		whole := with(it, attributes{"PK": "S:" + pk, "SK": "S:" + sk})
		puts = append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: readAttributes(o.T, whole)}})
	}
	for batch := range slices.Chunk(deletes, 25) {
		o.write(batch)
	}
	for batch := range slices.Chunk(puts, 25) {
		o.write(batch)
	}
}

func (o *oldTable) write(batch []types.WriteRequest) {
	o.Helper()
	_, err := dynamotest.Client(o.T).BatchWriteItem(context.Background(), &dynamodb.BatchWriteItemInput{
		RequestItems: map[string][]types.WriteRequest{o.name: batch},
	})
	must(o.T, err)
}

func (o *oldTable) options() *dynamo.MigrateOptions {
	return &dynamo.MigrateOptions{Options: dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(o.T))}}
}

// migrate runs the pending migrations and checks their versions.
func (o *oldTable) migrate(opts *dynamo.MigrateOptions, want ...string) {
	o.Helper()
	got, err := dynamo.Migrate(context.Background(), o.name, opts)
	must(o.T, err)
	if diff := cmp.Diff(want, got); diff != "" {
		o.Errorf("applied: %s", diff)
	}
}

// items returns the stored items without keys. Placeholders replace the ID of
// the namespace default and current times.
func (o *oldTable) items() map[string]attributes {
	o.Helper()
	stored := tableItems(o.T, o.name)
	id := strings.TrimPrefix(stored["_/SYSTEM# #NAMESPACE#default"]["namespace_id"], "S:")
	items := map[string]attributes{}
	for k, it := range stored {
		shown := attributes{}
		for name, v := range it {
			if id != "" {
				v = strings.ReplaceAll(v, id, "{ns}")
			}
			if aMoment.MatchString(v) && v > "S:2026" {
				v = "S:now"
			}
			shown[name] = v
		}
		delete(shown, "PK")
		delete(shown, "SK")
		if id != "" {
			k = strings.ReplaceAll(k, id, "{ns}")
		}
		items[k] = shown
	}
	return items
}

func (o *oldTable) check(want map[string]attributes) {
	o.Helper()
	if diff := cmp.Diff(want, o.items()); diff != "" {
		o.Error(diff)
	}
}

// checkSurvivesKills kills a migration at every request, runs it again and
// compares the items.
func (o *oldTable) checkSurvivesKills(before, after map[string]attributes, opts dynamo.MigrateOptions) {
	o.Helper()
	p := dynamotest.NewProxy(o, nil)
	killed := opts
	killed.Options.AWS = withoutRetries(dynamotest.Config(p.URL))
	opts.Options.AWS = dynamotest.Config(dynamotest.Endpoint(o.T))
	for n := 0; ; n++ {
		o.load(before)
		p.SetPlan(diesAfter(n, n%2 == 0))
		_, err := dynamo.Migrate(context.Background(), o.name, &killed)
		if err == nil {
			if n < 10 {
				o.Errorf("the migration takes only %d requests", n)
			}
			break
		}
		_, err = dynamo.Migrate(context.Background(), o.name, &opts)
		must(o.T, err)
		if diff := cmp.Diff(after, o.items()); diff != "" {
			o.Fatalf("after %d requests and another run: %s", n, diff)
		}
	}
	o.check(after)
}

const longAgo = "S:2024-01-02T03:04:05Z"

func versionRecordOf(schema string) attributes {
	return attributes{
		"schema_version": "S:" + schema, "client_min_version": "S:0.5.0", "lambda_version": "S:0.7.1",
		"updated_at": longAgo, "updated_by": "S:cli:0.7.1", "GSI4PK": "S:_", "GSI4SK": "S:_/SYSTEM#",
	}
}

// migrated returns a version record after a migration.
func migrated(record attributes) attributes {
	record = maps.Clone(record)
	record["schema_version"], record["updated_at"], record["updated_by"] = "S:0.8.0", "S:now", "S:client:0.10.0"
	return record
}

// with returns an item with added or replaced attributes.
func with(it, more attributes) attributes {
	it = maps.Clone(it)
	maps.Copy(it, more)
	return it
}

func TestATableWithoutAVersionRecordIsMigratedAndGetsOne(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	o.load(map[string]attributes{"ENTITY#key-1 #META": {"entity_id": "S:key-1"}})
	o.migrate(o.options(), "0.8.0", "0.10.0")
	got := slices.Sorted(maps.Keys(o.items()))
	want := []string{
		"ENTITY#key-1 #META", "_/SYSTEM# #NAMESPACE#default", "_/SYSTEM# #NSID#{ns}", "_/SYSTEM# #VERSION",
		"{ns}/ENTITY#key-1 #META",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	o.migrate(o.options())
}

func TestMigrationsRefuseNewerTables(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	for _, k := range []string{"SYSTEM# #VERSION", "_/SYSTEM# #VERSION"} {
		items := map[string]attributes{
			k: versionRecordOf("0.9.0"), "default/SYSTEM# #LIMIT#rpm": oldLimit("rpm", "1", "1", "1"),
		}
		o.load(items)
		if _, err := dynamo.Migrate(t.Context(), o.name, o.options()); !isError[*limiter.VersionError](err) {
			t.Error(err)
		}
		o.check(items)
	}
	if _, err := dynamo.Migrate(
		t.Context(), dynamotest.TableName(t), o.options(),
	); !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
}

func TestAVersionRecordThatChangedMeanwhileIsNotLowered(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	before, _ := oldLimits()
	o.load(before)
	opts := o.options()
	newer := versionRecordOf("0.8.5")
	p := dynamotest.NewProxy(t, func(op string, _ []byte) dynamotest.Fault {
		if op == "UpdateItem" {
			storeItem(t, o.name, with(newer, attributes{"PK": "S:_/SYSTEM#", "SK": "S:#VERSION"}))
		}
		return dynamotest.Pass
	})
	opts.Options.AWS = dynamotest.Config(p.URL)
	o.migrate(opts, "0.8.0")
	if diff := cmp.Diff(newer, o.items()["_/SYSTEM# #VERSION"]); diff != "" {
		t.Error(diff)
	}
}

func TestAMigrationThatIsCancelledStops(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	before, _ := oldLimits()
	o.load(before)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	opts := o.options()
	opts.Progress = func(dynamo.Progress) { cancel() }
	if _, err := dynamo.Migrate(ctx, o.name, opts); !errors.Is(err, context.Canceled) ||
		!isError[*dynamo.MigrationError](err) {
		t.Error(err)
	}
	if got := o.items()["_/SYSTEM# #VERSION"]["schema_version"]; got != "S:0.7.0" {
		t.Error(got)
	}
}
