package dynamotest

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/google/go-cmp/cmp"
)

// rawTable is a table with the string key "k" and a client that sends every
// request once.
type rawTable struct {
	*dynamodb.Client
	t    *testing.T
	name string
}

func newRawTable(t *testing.T) *rawTable {
	t.Helper()
	r := (&rawTable{t: t, name: TableName(t)}).by(Config(Endpoint(t)))
	_, err := r.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &r.name, BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("k"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{
			AttributeName: aws.String("k"), AttributeType: types.ScalarAttributeTypeS,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// by returns the same table with a client of another config.
func (r *rawTable) by(cfg *aws.Config) *rawTable {
	c := dynamodb.NewFromConfig(*cfg, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	return &rawTable{c, r.t, r.name}
}

func rawKey(k string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"k": &types.AttributeValueMemberS{Value: k}}
}

func (r *rawTable) put(ctx context.Context, k string) error {
	_, err := r.PutItem(ctx, &dynamodb.PutItemInput{TableName: &r.name, Item: rawKey(k)})
	return err
}

func (r *rawTable) putTwoAsOne(ctx context.Context, a, b string) error {
	_, err := r.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{TableName: &r.name, Item: rawKey(a)}}, {Put: &types.Put{TableName: &r.name, Item: rawKey(b)}},
	}})
	return err
}

// keys returns the sorted keys of the items.
func (r *rawTable) keys() []string {
	r.t.Helper()
	out, err := r.Scan(context.Background(), &dynamodb.ScanInput{TableName: &r.name, ConsistentRead: aws.Bool(true)})
	if err != nil {
		r.t.Fatal(err)
	}
	return sortedKeys(out.Items)
}

func sortedKeys(items []map[string]types.AttributeValue) []string {
	found := []string{}
	for _, it := range items {
		found = append(found, it["k"].(*types.AttributeValueMemberS).Value)
	}
	slices.Sort(found)
	return found
}

func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }

func is[T error](err error) bool {
	_, is := errors.AsType[T](err)
	return is
}

func hasStatus(err error, status int) bool {
	resp, is := errors.AsType[*smithyhttp.ResponseError](err)
	return is && resp.HTTPStatusCode() == status
}

func TestFaultsDoWhatTheyAreNamedFor(t *testing.T) {
	isInternal := func(err error) bool {
		return is[*types.InternalServerError](err) && hasStatus(err, http.StatusInternalServerError)
	}
	for _, test := range []struct {
		fault    Fault
		executed bool
		right    func(error) bool
	}{
		{Pass, true, func(err error) bool { return err == nil }},
		{Delay(time.Millisecond), true, func(err error) bool { return err == nil }},
		{DropReply, true, isReset},
		{ResetBefore, false, isReset},
		{Fail500, false, isInternal},
		{Fail500After, true, isInternal},
		{Throttle, false, func(err error) bool {
			return is[*types.ProvisionedThroughputExceededException](err) && hasStatus(err, http.StatusBadRequest)
		}},
		{Conflict, false, func(err error) bool {
			return is[*types.TransactionConflictException](err) && hasStatus(err, http.StatusBadRequest)
		}},
	} {
		t.Run(test.fault.Name, func(t *testing.T) {
			table := newRawTable(t)
			p := NewProxy(t, Always(test.fault))
			err := table.by(Config(p.URL)).put(t.Context(), "a")
			if !test.right(err) {
				t.Errorf("the client was told: %v", err)
			}
			want, n := []string{}, 0
			if test.executed {
				want, n = []string{"a"}, 1
			}
			if diff := cmp.Diff(want, table.keys()); diff != "" {
				t.Errorf("in the table (-want +got):\n%s", diff)
			}
			if p.Count(test.fault) != 1 || p.Executed("PutItem") != n {
				t.Errorf("it counted %d faults and %d executed", p.Count(test.fault), p.Executed("PutItem"))
			}
		})
	}
}

// Clients may reject a reply with a wrong checksum, or with none.
func TestRepliesHaveTheirChecksum(t *testing.T) {
	for _, f := range []Fault{Pass, Throttle} {
		t.Run(f.Name, func(t *testing.T) {
			p := NewProxy(t, Always(f))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := Transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if want := fmt.Sprint(crc32.ChecksumIEEE(body)); err != nil || resp.Header.Get("X-Amz-Crc32") != want {
				t.Errorf("the checksum is %q, want %s: %v", resp.Header.Get("X-Amz-Crc32"), want, err)
			}
		})
	}
}

func TestConflictOfATransactionIsAReason(t *testing.T) {
	table := newRawTable(t)
	p := NewProxy(t, Always(Conflict))
	err := table.by(Config(p.URL)).putTwoAsOne(t.Context(), "a", "b")
	canceled, is := errors.AsType[*types.TransactionCanceledException](err)
	if !is || len(canceled.CancellationReasons) != 2 {
		t.Fatalf("the client was told: %v", err)
	}
	if code := *canceled.CancellationReasons[0].Code; code != "TransactionConflict" {
		t.Errorf("the first reason is %s", code)
	}
	if code := *canceled.CancellationReasons[1].Code; code != "None" {
		t.Errorf("the second reason is %s", code)
	}
}

// The client leaves when the request is stuck.
func TestRequestsThatGetNoAnswer(t *testing.T) {
	for _, test := range []struct {
		fault    Fault
		executed []string
	}{
		{Hang, []string{}},
		{HangAfter, []string{"a"}},
		{Delay(time.Hour), []string{}},
	} {
		t.Run(test.fault.Name, func(t *testing.T) {
			CheckGoroutines(t)
			table := newRawTable(t)
			p := NewProxy(t, Always(test.fault))
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				until(ctx, func() bool {
					return p.Count(test.fault) == 1 && p.Executed("PutItem") == len(test.executed)
				})
				leave()
			}()
			if err := table.by(Config(p.URL)).put(ctx, "a"); !errors.Is(err, context.Canceled) {
				t.Errorf("the client was told: %v", err)
			}
			if diff := cmp.Diff(test.executed, table.keys()); diff != "" {
				t.Errorf("in the table (-want +got):\n%s", diff)
			}
		})
	}
}

// until returns when so returns true or ctx is done.
func until(ctx context.Context, so func() bool) {
	for ctx.Err() == nil && !so() {
		time.Sleep(time.Millisecond)
	}
}

func TestHangingRequestsEndWithTheTest(t *testing.T) {
	CheckGoroutines(t)
	table := newRawTable(t)
	told := make(chan error, 1)
	t.Run("hang", func(t *testing.T) {
		p := NewProxy(t, Always(Hang))
		go func() { told <- table.by(Config(p.URL)).put(context.Background(), "a") }()
		until(t.Context(), func() bool { return p.Count(Hang) == 1 })
	})
	if err := <-told; !isReset(err) {
		t.Errorf("the client was told: %v", err)
	}
}

func TestDelayIsNotShorterThanSaid(t *testing.T) {
	table := newRawTable(t)
	p := NewProxy(t, Always(Delay(50*time.Millisecond)))
	began := time.Now()
	if err := table.by(Config(p.URL)).put(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("it took %v", took)
	}
}

func TestFirstLetsTheOthersPass(t *testing.T) {
	table := newRawTable(t)
	p := NewProxy(t, First(1, "PutItem", Throttle))
	through := table.by(Config(p.URL))
	through.keys() // another operation
	if err := through.put(t.Context(), "a"); !is[*types.ProvisionedThroughputExceededException](err) {
		t.Errorf("the first was told: %v", err)
	}
	if err := through.put(t.Context(), "b"); err != nil {
		t.Errorf("the second was told: %v", err)
	}
	if p.Count(Throttle) != 1 || p.Count(Pass) != 2 {
		t.Errorf("it counted %d and %d", p.Count(Throttle), p.Count(Pass))
	}
}

func TestUnprocessedWritesAreNotWritten(t *testing.T) {
	table := newRawTable(t)
	through := table.by(Config(NewProxy(t, Always(Unprocessed)).URL))
	var writes []types.WriteRequest
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: rawKey(k)}})
	}
	for _, want := range [][]string{{"a", "b", "c"}, {"a", "b", "c", "d"}, {"a", "b", "c", "d", "e"}} {
		out, err := through.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{table.name: writes},
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, table.keys()); diff != "" {
			t.Errorf("in the table (-want +got):\n%s", diff)
		}
		if writes = out.UnprocessedItems[table.name]; len(writes) != 5-len(want) {
			t.Errorf("with %v in the table %d writes are left", want, len(writes))
		}
	}
}

func TestUnprocessedKeysAreNotRead(t *testing.T) {
	table := newRawTable(t)
	wanted := types.KeysAndAttributes{ConsistentRead: aws.Bool(true)}
	for _, k := range []string{"a", "b", "c"} {
		wanted.Keys = append(wanted.Keys, rawKey(k))
		if err := table.put(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	through := table.by(Config(NewProxy(t, Always(Unprocessed)).URL))
	for _, want := range [][]string{{"a", "b"}, {"c"}} {
		out, err := through.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{table.name: wanted},
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, sortedKeys(out.Responses[table.name])); diff != "" {
			t.Errorf("read (-want +got):\n%s", diff)
		}
		wanted = out.UnprocessedKeys[table.name]
		if len(want) == 2 && !aws.ToBool(wanted.ConsistentRead) {
			t.Error("what is left has lost ConsistentRead")
		}
	}
	if len(wanted.Keys) != 0 {
		t.Errorf("%d keys are left", len(wanted.Keys))
	}
}
