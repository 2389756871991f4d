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
	"github.com/zeroae/zae-limiter-go/internal/dynamolocal"
)

// Making a table takes the engine longer than most tests take, and many tables
// make it slow, so a table is emptied and used again.

type Item = map[string]types.AttributeValue

// pooledTable is a table with what CreateTable puts into it.
type pooledTable struct {
	name  string
	items map[string]Item // by key
}

var pool struct {
	sync.Mutex
	free []*pooledTable
	all  []*pooledTable
}

// newTable is an empty table with the namespace "default". It never removes
// anything by itself: tests that pass their own time would otherwise lose what
// is old by the engine's clock. And it has no stream: with each record that
// some stream holds, the local engine becomes slower.
func NewTable(tb testing.TB) string {
	tb.Helper()
	p := takeTable(tb)
	tb.Cleanup(func() {
		if !tb.Failed() {
			p.empty(tb)
			pool.Lock()
			defer pool.Unlock()
			pool.free = append(pool.free, p)
		}
	})
	return p.name
}

func takeTable(tb testing.TB) *pooledTable {
	tb.Helper()
	Endpoint(tb)
	pool.Lock()
	if n := len(pool.free); n > 0 {
		defer pool.Unlock()
		p := pool.free[n-1]
		pool.free = pool.free[:n-1]
		return p
	}
	p := &pooledTable{name: "pool-" + strings.ToLower(rand.Text())}
	pool.all = append(pool.all, p)
	pool.Unlock()
	must(tb, dynamo.CreateTable(context.Background(), p.name, &dynamo.Options{AWS: Config(Endpoint(tb))}))
	_, err := Client(tb).UpdateTimeToLive(context.Background(), &dynamodb.UpdateTimeToLiveInput{
		TableName:               &p.name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(false)},
	})
	must(tb, err)
	_, err = Client(tb).UpdateTable(context.Background(), &dynamodb.UpdateTableInput{
		TableName: &p.name, StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(false)},
	})
	must(tb, err)
	p.items = Scan(tb, p.name)
	return p
}

// scanned is everything in a table.
func Scan(tb testing.TB, table string) map[string]Item {
	tb.Helper()
	items := map[string]Item{}
	pages := dynamodb.NewScanPaginator(Client(tb), &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(context.Background())
		must(tb, err)
		for _, it := range page.Items {
			items[fmt.Sprint(Text(it, "PK"), " ", Text(it, "SK"))] = it
		}
	}
	return items
}

func Text(it Item, attr string) string {
	s, _ := it[attr].(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

// empty makes the table what it was when it was made.
func (p *pooledTable) empty(tb testing.TB) {
	tb.Helper()
	now := Scan(tb, p.name)
	var writes []types.WriteRequest
	for k, it := range now {
		if p.items[k] == nil {
			writes = append(writes, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: Item{"PK": it["PK"], "SK": it["SK"]}}})
		}
	}
	for k, it := range maps.All(p.items) {
		if !reflect.DeepEqual(now[k], it) {
			writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: it}})
		}
	}
	for len(writes) > 0 {
		n := min(len(writes), 25)
		out, err := Client(tb).BatchWriteItem(context.Background(), &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{p.name: writes[:n]},
		})
		must(tb, err)
		writes = append(writes[n:], out.UnprocessedItems[p.name]...)
	}
}

// dropPool drops the tables: an engine that runs on must not keep them.
func dropPool() {
	if os.Getenv(dynamolocal.EndpointVariable) == "" {
		return // it ends with the tests
	}
	c := dynamodb.NewFromConfig(*Config(os.Getenv(dynamolocal.EndpointVariable)))
	for _, p := range pool.all {
		_, _ = c.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &p.name})
	}
}
