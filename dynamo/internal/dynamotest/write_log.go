package dynamotest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// WriteLog stands in for the stream of a table: it records every write to a
// bucket by the clients that are made from its Config, with both images. A real
// stream slows the engine down and dates records by the engine's clock. These
// records have the time of the bucket, as embedded stores date usage. WriteLog
// is safe for concurrent use.
type WriteLog struct {
	TB     testing.TB
	client *dynamodb.Client
	Table  string

	writing sync.Mutex // held from a write to the read after it, so that each write has its record
	mu      sync.Mutex
	buckets map[bucketKey]*loggedBucket
	fresh   []freshRecord // in order for each bucket; sorted by From
	records []dynamo.StreamRecord
}

type bucketKey struct{ pk, sk string }

// name returns the key without the namespace ID, which differs between runs.
func (k bucketKey) name() string {
	_, entity, _ := strings.Cut(k.pk, "/")
	return entity + k.sk
}

// loggedBucket is the state of a bucket after its last recorded write.
type loggedBucket struct {
	number int // in order of the first write
	image  Item
	at     time.Time             // the latest time of a call that wrote it
	since  []dynamo.StreamRecord // records with the current refill time
}

type freshRecord struct {
	of bucketKey
	dynamo.StreamRecord
}

// NewWriteLog returns an empty log for a table.
func NewWriteLog(tb testing.TB, table string) *WriteLog {
	tb.Helper()
	return &WriteLog{TB: tb, client: Client(tb), Table: table, buckets: map[bucketKey]*loggedBucket{}}
}

// From returns the records from a position on.
func (s *WriteLog) From(position int) []dynamo.StreamRecord {
	s.mu.Lock()
	defer s.mu.Unlock()

	// Concurrent calls write in any order. Sorting by bucket makes a run
	// repeatable.
	slices.SortStableFunc(s.fresh, func(a, b freshRecord) int { return strings.Compare(a.of.name(), b.of.name()) })
	for _, r := range s.fresh {
		r.Sequence = strconv.Itoa(len(s.records) + 1)
		s.records = append(s.records, r.StreamRecord)
	}

	s.fresh = nil
	return s.records[position:]
}

// Candidates returns, for each bucket, the records with its current refill time.
// The refill time alone does not identify the latest of them.
func (s *WriteLog) Candidates() [][]dynamo.StreamRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(s.buckets), func(a, b bucketKey) int {
		return cmp.Or(strings.Compare(a.name(), b.name()), s.buckets[a].number-s.buckets[b].number)
	})

	var all [][]dynamo.StreamRecord
	for _, k := range keys {
		if since := s.buckets[k].since; len(since) > 0 {
			all = append(all, slices.Clone(since))
		}
	}
	return all
}

// look adds a record if a bucket has changed. The call of ctx has just tried to
// write the bucket; written reports whether it succeeded for certain.
func (s *WriteLog) look(ctx context.Context, k bucketKey, written bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The call may have ended, and what it wrote belongs in the log all the
	// same.
	out, err := s.client.GetItem(context.WithoutCancel(ctx), &dynamodb.GetItemInput{
		TableName: &s.Table, ConsistentRead: aws.Bool(true),
		Key: Item{"PK": &types.AttributeValueMemberS{Value: k.pk}, "SK": &types.AttributeValueMemberS{Value: k.sk}},
	})
	if err != nil {
		s.TB.Errorf("looking at %v: %v", k, err)
		return
	}

	b := s.buckets[k]
	if b == nil {
		b = &loggedBucket{number: len(s.buckets)}
		s.buckets[k] = b
	}

	// The time of a call that wrote nothing must not date the next change.
	if at, _ := ctx.Value(callTime{}).(time.Time); written {
		b.at = latest(b.at, at, refilledAt(out.Item))
	}

	if !reflect.DeepEqual(b.image, out.Item) {
		s.fresh = append(s.fresh, freshRecord{k, b.becomes(s.Table, out.Item)})
	}
}

// becomes returns the record of a change. From sets its sequence number.
func (b *loggedBucket) becomes(feed string, now Item) dynamo.StreamRecord {
	r := dynamo.StreamRecord{Feed: feed, Sequence: "1", Event: "MODIFY", At: b.at, Old: b.image, New: now}

	switch {
	case r.Old == nil:
		r.Event = "INSERT"
	case r.New == nil:
		r.Event = "REMOVE"
		// The next bucket under this key begins with a time of its own.
		b.at = time.Time{}
	}

	if !refilledAt(r.New).Equal(refilledAt(r.Old)) {
		// A refill refuses images of an earlier refill time, so they are no
		// candidates.
		b.since = nil
	}

	b.image, b.since = now, append(b.since, r)
	return r
}

// refilledAt returns the refill time of a bucket, or zero if the item has none.
func refilledAt(it Item) time.Time {
	n, _ := it["rf"].(*types.AttributeValueMemberN)
	if n == nil {
		return time.Time{}
	}

	ms, _ := strconv.ParseInt(n.Value, 10, 64)
	return time.UnixMilli(ms)
}

func latest(times ...time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// Config returns the AWS config of an endpoint whose writes are logged.
func (s *WriteLog) Config(endpoint string) *aws.Config {
	cfg := Config(endpoint)
	cfg.HTTPClient = &writeLogClient{s, cfg.HTTPClient}
	return cfg
}

// writeLogClient sends requests, and has the log read the buckets they may have
// written, whether or not they failed.
type writeLogClient struct {
	log  *WriteLog
	next aws.HTTPClient
}

// Do sends a request.
func (w *writeLogClient) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	// Reading the body has used it up, so the request gets another one.
	req.Body = io.NopCloser(bytes.NewReader(body))

	var keys []bucketKey
	switch Operation(req.Header) {
	case "PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem":
		var doc any
		if err := json.Unmarshal(body, &doc); err != nil {
			return nil, fmt.Errorf("the body of a request: %w", err)
		}
		keys = bucketKeys(doc)
	}

	if keys == nil {
		return w.next.Do(req)
	}

	w.log.writing.Lock()
	defer w.log.writing.Unlock()
	resp, err := w.next.Do(req)
	for _, k := range keys {
		w.log.look(req.Context(), k, err == nil && resp.StatusCode == http.StatusOK)
	}
	return resp, err
}

// callTime is the context key for the time of a call.
type callTime struct{}

func calledAt(ctx context.Context, now time.Time) context.Context {
	return context.WithValue(ctx, callTime{}, now)
}

// bucketKeys returns the keys of the buckets in a request.
func bucketKeys(doc any) (keys []bucketKey) {
	switch doc := doc.(type) {
	case []any:
		for _, part := range doc {
			keys = append(keys, bucketKeys(part)...)
		}
	case map[string]any:
		pk, _ := doc["PK"].(map[string]any)
		sk, _ := doc["SK"].(map[string]any)

		if name, _ := sk["S"].(string); pk != nil && strings.HasPrefix(name, "#BUCKET#") {
			return []bucketKey{{fmt.Sprint(pk["S"]), name}}
		}

		for _, part := range doc {
			keys = append(keys, bucketKeys(part)...)
		}
	}
	return keys
}
