package dynamotest

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	localdynamodb "github.com/zeroae/zae-limiter-go/internal/engine/dynamodb"
)

// Item is an item as the SDK represents it.
type Item = map[string]types.AttributeValue

// pooledTable is a table and the items that CreateTable stores in it.
type pooledTable struct {
	name  string
	items map[string]Item // by key
}

// pool holds the tables for reuse. Creating a table takes longer than most
// tests, and many tables slow the engine down.
var pool struct {
	sync.Mutex
	free map[bool][]*pooledTable // whether the index by resource holds keys only, to tables
	all  []*pooledTable
}

// NewTable returns an empty table with the namespace "default". TTL is off,
// because tests that pass their own time would lose items that are old by the
// engine's clock. The stream is off, because every stream record slows the
// engine down.
func NewTable(tb testing.TB) string {
	tb.Helper()
	return newTable(tb, false)
}

// NewLeanTable returns a table like NewTable's whose index by resource holds keys
// only.
func NewLeanTable(tb testing.TB) string {
	tb.Helper()
	return newTable(tb, true)
}

func newTable(tb testing.TB, lean bool) string {
	tb.Helper()

	p := takeTable(tb, lean)
	tb.Cleanup(func() {
		if !tb.Failed() {
			p.empty(tb)
			pool.Lock()
			defer pool.Unlock()
			if pool.free == nil {
				pool.free = map[bool][]*pooledTable{}
			}
			pool.free[lean] = append(pool.free[lean], p)
		}
	})
	return p.name
}

func takeTable(tb testing.TB, lean bool) *pooledTable {
	tb.Helper()
	Endpoint(tb)

	pool.Lock()
	if n := len(pool.free[lean]); n > 0 {
		defer pool.Unlock()
		p := pool.free[lean][n-1]
		pool.free[lean] = pool.free[lean][:n-1]
		return p
	}

	p := &pooledTable{name: "pool-" + strings.ToLower(rand.Text())}
	pool.all = append(pool.all, p)
	pool.Unlock()

	// Creating a table takes long, so other tests must not wait for it.
	must(tb,
		dynamo.CreateTable(context.Background(), p.name, &dynamo.Options{AWS: Config(Endpoint(tb)), LeanIndex: lean}))

	_, err := Client(tb).UpdateTimeToLive(context.Background(), &dynamodb.UpdateTimeToLiveInput{
		TableName: &p.name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String("ttl"), Enabled: aws.Bool(false),
		},
	})
	must(tb, err)

	_, err = Client(tb).UpdateTable(context.Background(), &dynamodb.UpdateTableInput{
		TableName: &p.name, StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(false)},
	})
	must(tb, err)

	p.items = Scan(tb, p.name)
	return p
}

// Scan returns all items of a table by "PK SK".
func Scan(tb testing.TB, table string) map[string]Item {
	tb.Helper()
	items := map[string]Item{}

	pages := dynamodb.NewScanPaginator(Client(tb), &dynamodb.ScanInput{
		TableName: &table, ConsistentRead: aws.Bool(true),
	})

	for pages.HasMorePages() {
		page, err := pages.NextPage(context.Background())
		must(tb, err)
		for _, it := range page.Items {
			items[fmt.Sprint(Text(it, "PK"), " ", Text(it, "SK"))] = it
		}
	}
	return items
}

// Text returns a string attribute, or "" if there is none.
func Text(it Item, attr string) string {
	s, _ := it[attr].(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

// empty restores the items that the table had when it was created.
func (p *pooledTable) empty(tb testing.TB) {
	tb.Helper()

	now := Scan(tb, p.name)

	var writes []types.WriteRequest
	for k, it := range now {
		if p.items[k] == nil {
			writes = append(writes, types.WriteRequest{DeleteRequest: &types.DeleteRequest{
				Key: Item{"PK": it["PK"], "SK": it["SK"]},
			}})
		}
	}

	for k, it := range maps.All(p.items) {
		if !reflect.DeepEqual(now[k], it) {
			writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: it}})
		}
	}

	for len(writes) > 0 {
		// A batch has at most 25 writes.
		n := min(len(writes), 25)
		out, err := Client(tb).BatchWriteItem(context.Background(), &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{p.name: writes[:n]},
		})
		must(tb, err)
		writes = append(writes[n:], out.UnprocessedItems[p.name]...)
	}
}

// dropPool deletes the tables from an engine that outlives the tests.
func dropPool() {
	if os.Getenv(localdynamodb.EndpointVariable) == "" {
		return // the engine ends with the tests
	}

	c := dynamodb.NewFromConfig(*Config(os.Getenv(localdynamodb.EndpointVariable)))
	for _, p := range pool.all {
		_, _ = c.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &p.name})
	}
}
