package dynamo_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// attributes is an item, keys included. A value is its type and text: "S:a",
// "N:1", "BOOL:true", "NULL", "SS:a,b".
type attributes map[string]string

// tableItems returns all items of a table by "PK SK".
func tableItems(t *testing.T, table string) map[string]attributes {
	t.Helper()
	all := map[string]attributes{}
	pages := dynamodb.NewScanPaginator(dynamotest.Client(t), &dynamodb.ScanInput{
		TableName: &table, ConsistentRead: aws.Bool(true),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range page.Items {
			shown := attributes{}
			for name, v := range it {
				shown[name] = strings.Replace(dynamotest.FormatAttribute(v), " ", ":", 1)
			}
			all[strings.TrimPrefix(shown["PK"], "S:")+" "+strings.TrimPrefix(shown["SK"], "S:")] = shown
		}
	}
	return all
}

// storeItem stores an item in the form of tableItems. A list holds one string, a
// map one NULL.
func storeItem(t *testing.T, table string, shown attributes) {
	t.Helper()
	_, err := dynamotest.Client(t).PutItem(context.Background(), &dynamodb.PutItemInput{
		TableName: &table, Item: readAttributes(t, shown),
	})
	must(t, err)
}

func readAttributes(t *testing.T, shown attributes) map[string]types.AttributeValue {
	t.Helper()
	it := map[string]types.AttributeValue{}
	for name, s := range shown {
		kind, value, _ := strings.Cut(s, ":")
		switch kind {
		case "S":
			it[name] = &types.AttributeValueMemberS{Value: value}
		case "N":
			it[name] = &types.AttributeValueMemberN{Value: value}
		case "BOOL":
			it[name] = &types.AttributeValueMemberBOOL{Value: value == "true"}
		case "NULL":
			it[name] = &types.AttributeValueMemberNULL{Value: true}
		case "SS":
			it[name] = &types.AttributeValueMemberSS{Value: strings.Split(value, ",")}
		case "L":
			only := strings.TrimSuffix(strings.TrimPrefix(value, "[S "), "]")
			it[name] = &types.AttributeValueMemberL{Value: []types.AttributeValue{
				&types.AttributeValueMemberS{Value: only},
			}}
		case "M":
			only := strings.TrimSuffix(strings.TrimPrefix(value, "{"), " NULL}")
			it[name] = &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
				only: &types.AttributeValueMemberNULL{Value: true},
			}}
		default:
			t.Fatalf("%s: what is %s?", name, s)
		}
	}
	return it
}

// deleteRecord deletes a record of the table or its namespaces.
func deleteRecord(t *testing.T, table, sk string) {
	t.Helper()
	_, err := dynamotest.Client(t).DeleteItem(context.Background(), &dynamodb.DeleteItemInput{
		TableName: &table, Key: readAttributes(t, attributes{"PK": "S:_/SYSTEM#", "SK": "S:" + sk}),
	})
	must(t, err)
}

func TestCreateTableMakesWhatPythonExpects(t *testing.T) {
	t.Parallel()
	name, opts := dynamotest.TableName(t), &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}
	must(t, dynamo.CreateTable(t.Context(), name, opts))
	out, err := dynamotest.Client(t).DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		t.Fatal(err)
	}
	table := out.Table
	if got := showKeys(table.KeySchema); got != "PK HASH, SK RANGE" {
		t.Error(got)
	}
	if table.BillingModeSummary.BillingMode != types.BillingModePayPerRequest ||
		table.StreamSpecification.StreamViewType != types.StreamViewTypeNewAndOldImages {
		t.Error(table.BillingModeSummary, table.StreamSpecification)
	}
	indexes := map[string]string{}
	for _, index := range table.GlobalSecondaryIndexes {
		indexes[*index.IndexName] = showKeys(index.KeySchema) + " " + string(index.Projection.ProjectionType)
	}
	want := map[string]string{
		"GSI1": "GSI1PK HASH, GSI1SK RANGE ALL",
		"GSI2": "GSI2PK HASH, GSI2SK RANGE ALL",
		"GSI3": "GSI3PK HASH, GSI3SK RANGE KEYS_ONLY",
		"GSI4": "GSI4PK HASH, GSI4SK RANGE KEYS_ONLY",
	}
	if diff := cmp.Diff(want, indexes); diff != "" {
		t.Error(diff)
	}
	if len(table.AttributeDefinitions) != 10 {
		t.Error(table.AttributeDefinitions)
	}
	ttl, err := dynamotest.Client(t).DescribeTimeToLive(t.Context(),
		&dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil || *ttl.TimeToLiveDescription.AttributeName != "ttl" ||
		ttl.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusEnabled {
		t.Error(ttl, err)
	}
	if r := dynamotest.Connect(t, name, opts); r.NamespaceID() == "" {
		t.Error("the namespace has no ID")
	}
}

func showKeys(keys []types.KeySchemaElement) string {
	var all []string
	for _, k := range keys {
		all = append(all, *k.AttributeName+" "+string(k.KeyType))
	}
	return strings.Join(all, ", ")
}

var (
	anID    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{10}$`)
	aMoment = regexp.MustCompile(`^S:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)
)

func TestCreateTableStoresTheRecordsOfPython(t *testing.T) {
	t.Parallel()
	name := dynamotest.NewTable(t)
	id := dynamotest.Connect(t, name, nil).NamespaceID()
	if !anID.MatchString(id) {
		t.Errorf("namespace ID %q", id)
	}
	items := tableItems(t, name)
	stamp := items["_/SYSTEM# #VERSION"]["updated_at"]
	created := items["_/SYSTEM# #NAMESPACE#default"]["created_at"]
	if !aMoment.MatchString(stamp) || !aMoment.MatchString(created) {
		t.Error(stamp, created)
	}
	want := map[string]attributes{
		"_/SYSTEM# #VERSION": {
			"PK": "S:_/SYSTEM#", "SK": "S:#VERSION", "GSI4PK": "S:_", "GSI4SK": "S:_/SYSTEM#",
			"schema_version": "S:0.8.0", "client_min_version": "S:0.0.0", "lambda_version": "NULL",
			"updated_at": stamp, "updated_by": "S:client:0.10.0",
		},
		"_/SYSTEM# #NAMESPACE#default": namespaceRecord("#NAMESPACE#default", id, "default", created),
		"_/SYSTEM# #NSID#" + id:        namespaceRecord("#NSID#"+id, id, "default", created),
	}
	if diff := cmp.Diff(want, items); diff != "" {
		t.Error(diff)
	}
}

// namespaceRecord returns a record of an active namespace.
func namespaceRecord(sk, id, name, created string) attributes {
	return attributes{
		"PK": "S:_/SYSTEM#", "SK": "S:" + sk, "GSI4PK": "S:_", "GSI4SK": "S:_/SYSTEM#",
		"namespace_id": "S:" + id, "namespace_name": "S:" + name, "status": "S:active", "created_at": created,
	}
}

func TestCreateTableAgainChangesNothing(t *testing.T) {
	t.Parallel()
	name, opts := dynamotest.NewTable(t), &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}
	before := tableItems(t, name)
	must(t, dynamo.CreateTable(t.Context(), name, opts))
	if diff := cmp.Diff(before, tableItems(t, name)); diff != "" {
		t.Error(diff)
	}
	other := *opts
	other.Namespace = "team-a"
	must(t, dynamo.CreateTable(t.Context(), name, &other))
	if got := len(tableItems(t, name)); got != len(before)+2 {
		t.Errorf("%d items, had %d", got, len(before))
	}
}

func TestCreateTableByManyAtOnceMakesOne(t *testing.T) {
	t.Parallel()
	name, opts := dynamotest.TableName(t), &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := dynamo.CreateTable(context.Background(), name, opts); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := len(tableItems(t, name)); got != 3 {
		t.Errorf("%d items", got)
	}
}

func TestCreateTableLeavesTablesOfOthersAlone(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{"id"}, {"PK", "SK"}} {
		name := foreignTable(t, keys...)
		err := dynamo.CreateTable(t.Context(), name, &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))})
		if !isError[*limiter.VersionError](err) {
			t.Error(err)
		}
		if items := tableItems(t, name); len(items) != 0 {
			t.Error(items)
		}
		ttl, err := dynamotest.Client(t).DescribeTimeToLive(t.Context(),
			&dynamodb.DescribeTimeToLiveInput{TableName: &name})
		if err != nil || ttl.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusDisabled {
			t.Error(ttl, err)
		}
	}
}

// foreignTable creates a table of another program.
func foreignTable(t *testing.T, keys ...string) string {
	t.Helper()
	name := dynamotest.TableName(t)
	in := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest}
	for i, k := range keys {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(k), AttributeType: types.ScalarAttributeTypeS,
		})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{
			AttributeName: aws.String(k), KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i],
		})
	}
	if _, err := dynamotest.Client(t).CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestCreateTableChecksItsArguments(t *testing.T) {
	t.Parallel()
	opts := dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}
	bad := opts
	bad.Namespace = "_"
	for name, o := range map[string]dynamo.Options{"no_underscore": opts, "fine": bad} {
		if err := dynamo.CreateTable(t.Context(), name, &o); !isError[*limiter.InvalidError](err) {
			t.Error(name, err)
		}
	}
}
