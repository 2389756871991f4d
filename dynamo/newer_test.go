package dynamo_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// recorded returns the items that a newer release of Python's library wrote:
// scripts/python-newer records them. The ID of the namespace default becomes ns.
func recorded(t *testing.T, version, ns string) (items []map[string]types.AttributeValue) {
	t.Helper()
	file, err := os.ReadFile("testdata/python-" + version + ".jsonl")
	must(t, err)
	_, id, _ := strings.Cut(string(file), `"SK": {"S": "#NAMESPACE#default"}`)
	_, id, _ = strings.Cut(id, `"namespace_id": {"S": "`)
	id, _, ok := strings.Cut(id, `"`)
	if !ok {
		t.Fatal("the record has no namespace default")
	}
	lines := bufio.NewScanner(strings.NewReader(strings.ReplaceAll(string(file), id, ns)))
	for lines.Scan() {
		var fields map[string]map[string]any
		must(t, json.Unmarshal(lines.Bytes(), &fields))
		it := map[string]types.AttributeValue{}
		for name, field := range fields {
			it[name] = attributeOf(t, field)
		}
		items = append(items, it)
	}
	must(t, lines.Err())
	return items
}

// attributeOf decodes an attribute of DynamoDB JSON.
func attributeOf(t *testing.T, field map[string]any) types.AttributeValue {
	t.Helper()
	for kind, v := range field {
		switch kind {
		case "S":
			return &types.AttributeValueMemberS{Value: v.(string)}
		case "N":
			return &types.AttributeValueMemberN{Value: v.(string)}
		case "BOOL":
			return &types.AttributeValueMemberBOOL{Value: v.(bool)}
		case "NULL":
			return &types.AttributeValueMemberNULL{Value: v.(bool)}
		case "SS":
			var texts []string
			for _, s := range v.([]any) {
				texts = append(texts, s.(string))
			}
			return &types.AttributeValueMemberSS{Value: texts}
		case "M":
			m := map[string]types.AttributeValue{}
			for name, inner := range v.(map[string]any) {
				m[name] = attributeOf(t, inner.(map[string]any))
			}
			return &types.AttributeValueMemberM{Value: m}
		}
	}
	t.Fatalf("no attribute: %v", field)
	return nil
}

// putRecorded stores items as they are.
func putRecorded(t *testing.T, table string, items ...map[string]types.AttributeValue) {
	t.Helper()
	for _, it := range items {
		_, err := dynamotest.Client(t).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: it})
		must(t, err)
	}
}

// newerBucketsOf returns the recorded buckets of a release, with a ttl. A ttl of
// zero means none.
func newerBucketsOf(t *testing.T, version, ns string, ttl time.Time) (buckets []map[string]types.AttributeValue) {
	t.Helper()
	for _, it := range recorded(t, version, ns) {
		if sk := it["SK"].(*types.AttributeValueMemberS).Value; sk != "#STATE" {
			continue
		}
		delete(it, "ttl")
		if !ttl.IsZero() {
			it["ttl"] = &types.AttributeValueMemberN{Value: strconv.FormatInt(ttl.Unix(), 10)}
		}
		buckets = append(buckets, it)
	}
	if len(buckets) < 3 {
		t.Fatalf("the record of %s has %d buckets", version, len(buckets))
	}
	return buckets
}

// A newer release leaves the version record of a table of this package alone, and
// its buckets are all that shows that it is there.
func TestConnectRefusesANamespaceWithNewerBuckets(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"0.10.1", "0.17.0"} {
		table := dynamotest.NewTable(t)
		opts := &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}
		repo := dynamotest.Connect(t, table, opts)
		other, err := repo.RegisterNamespace(t.Context(), start, "other")
		must(t, err)
		home := activeID(t, repo, "default")

		putRecorded(t, table, newerBucketsOf(t, version, home, time.Now().Add(-time.Hour))...)
		must(t, dynamotest.Connect(t, table, opts).Close()) // expired
		putRecorded(t, table, newerBucketsOf(t, version, home, time.Time{})...)

		err = connectError(t, table, opts)
		if !isError[*limiter.VersionError](err) {
			t.Errorf("%s: %v", version, err)
		}
		checkError(t, err, `namespace "default"`, "0.10.1 or newer", "exactly 0.10.0",
			"DeleteNewerBuckets("+table+" us-east-1 http")
		if _, err := repo.Namespace(t.Context(), "default"); !isError[*limiter.VersionError](err) {
			t.Errorf("%s: view: %v", version, err)
		}
		tenant := *opts
		tenant.Namespace = other.Name
		dynamotest.Connect(t, table, &tenant)

		whole := *opts
		whole.Namespace = "_"
		all := dynamotest.Connect(t, table, &whole)
		if err := all.CheckBuckets(t.Context()); !isError[*limiter.VersionError](err) ||
			!strings.Contains(err.Error(), `"default" has`) {
			t.Errorf("%s: %v", version, err)
		}
		putRecorded(t, table, newerBucketsOf(t, version, other.ID, time.Time{})...)
		checkError(t, all.CheckBuckets(t.Context()), `namespace "default" and 1 more have buckets`)
		deleted, err := all.DeleteNewerBuckets(t.Context())
		must(t, err)
		if deleted < 6 {
			t.Errorf("%s: deleted %d buckets", version, deleted)
		}
		must(t, all.CheckBuckets(t.Context()))
		dynamotest.Connect(t, table, opts)
	}
}

// activeID returns the ID of a namespace.
func activeID(t *testing.T, repo limiter.Repository, name string) string {
	t.Helper()
	for n, err := range repo.Namespaces(t.Context()) {
		must(t, err)
		if n.Name == name {
			return n.ID
		}
	}
	t.Fatalf("no namespace %s", name)
	return ""
}

// A policy that does not cover the index must not keep a service from starting.
func TestConnectWorksWithoutTheIndex(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	for _, kind := range []string{"AccessDeniedException", "ValidationException"} {
		denial := dynamotest.Fault{Name: "denied", Act: func(x *dynamotest.Exchange) {
			x.Answer(dynamotest.Failure(http.StatusBadRequest, kind, `"message":"no"`))
		}}
		proxy := dynamotest.NewProxy(t, dynamotest.First(1000, "Query", denial))
		dynamotest.Connect(t, table, &dynamo.Options{AWS: dynamotest.Config(proxy.URL)})
		if proxy.Count(denial) == 0 {
			t.Errorf("%s: Connect did not query", kind)
		}
	}
}
