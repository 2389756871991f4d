package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/google/go-cmp/cmp"
)

// rawTable has the key "k", a string, and is used by a client that sends every
// request once.
type rawTable struct {
	*dynamodb.Client
	t    *testing.T
	name string
}

func newRawTable(t *testing.T) *rawTable {
	t.Helper()
	r := (&rawTable{t: t, name: tableName(t)}).by(awsConfig(engine(t)))
	_, err := r.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &r.name, BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("k"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("k"), AttributeType: types.ScalarAttributeTypeS}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// by is the same table seen through another config.
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

// keys are those in the table, sorted.
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

func isError[T error](err error) bool {
	_, is := errors.AsType[T](err)
	return is
}

func hasStatus(err error, status int) bool {
	resp, is := errors.AsType[*smithyhttp.ResponseError](err)
	return is && resp.HTTPStatusCode() == status
}

func TestFaultsDoWhatTheyAreNamedFor(t *testing.T) {
	isInternal := func(err error) bool {
		return isError[*types.InternalServerError](err) && hasStatus(err, http.StatusInternalServerError)
	}
	for _, test := range []struct {
		fault    fault
		executed bool
		right    func(error) bool
	}{
		{pass, true, func(err error) bool { return err == nil }},
		{delay(time.Millisecond), true, func(err error) bool { return err == nil }},
		{dropReply, true, isReset},
		{resetBefore, false, isReset},
		{fail500, false, isInternal},
		{fail500After, true, isInternal},
		{throttle, false, func(err error) bool {
			return isError[*types.ProvisionedThroughputExceededException](err) && hasStatus(err, http.StatusBadRequest)
		}},
		{conflict, false, func(err error) bool {
			return isError[*types.TransactionConflictException](err) && hasStatus(err, http.StatusBadRequest)
		}},
	} {
		t.Run(test.fault.name, func(t *testing.T) {
			table := newRawTable(t)
			p := newProxy(t, always(test.fault))
			err := table.by(awsConfig(p.URL)).put(t.Context(), "a")
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
			if p.Did(test.fault) != 1 || p.Executed("PutItem") != n {
				t.Errorf("it counted %d faults and %d executed", p.Did(test.fault), p.Executed("PutItem"))
			}
		})
	}
}

// Clients may reject a reply with a wrong checksum, or with none.
func TestRepliesHaveTheirChecksum(t *testing.T) {
	for _, f := range []fault{pass, throttle} {
		t.Run(f.name, func(t *testing.T) {
			p := newProxy(t, always(f))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := wires.RoundTrip(req)
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
	p := newProxy(t, always(conflict))
	err := table.by(awsConfig(p.URL)).putTwoAsOne(t.Context(), "a", "b")
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

// The client leaves when the request has gone as far as it goes.
func TestRequestsThatGetNoAnswer(t *testing.T) {
	for _, test := range []struct {
		fault    fault
		executed []string
	}{
		{hang, []string{}},
		{hangAfter, []string{"a"}},
		{delay(time.Hour), []string{}},
	} {
		t.Run(test.fault.name, func(t *testing.T) {
			noGoroutineLeft(t)
			table := newRawTable(t)
			p := newProxy(t, always(test.fault))
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				until(ctx, func() bool { return p.Did(test.fault) == 1 && p.Executed("PutItem") == len(test.executed) })
				leave()
			}()
			if err := table.by(awsConfig(p.URL)).put(ctx, "a"); !errors.Is(err, context.Canceled) {
				t.Errorf("the client was told: %v", err)
			}
			if diff := cmp.Diff(test.executed, table.keys()); diff != "" {
				t.Errorf("in the table (-want +got):\n%s", diff)
			}
		})
	}
}

// until returns when something is so, or with the context.
func until(ctx context.Context, so func() bool) {
	for ctx.Err() == nil && !so() {
		time.Sleep(time.Millisecond)
	}
}

func TestHangingRequestsEndWithTheTest(t *testing.T) {
	noGoroutineLeft(t)
	table := newRawTable(t)
	told := make(chan error, 1)
	t.Run("hang", func(t *testing.T) {
		p := newProxy(t, always(hang))
		go func() { told <- table.by(awsConfig(p.URL)).put(context.Background(), "a") }()
		until(t.Context(), func() bool { return p.Did(hang) == 1 })
	})
	if err := <-told; !isReset(err) {
		t.Errorf("the client was told: %v", err)
	}
}

func TestDelayIsNotShorterThanSaid(t *testing.T) {
	table := newRawTable(t)
	p := newProxy(t, always(delay(50*time.Millisecond)))
	began := time.Now()
	if err := table.by(awsConfig(p.URL)).put(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("it took %v", took)
	}
}

func TestFirstLetsTheOthersPass(t *testing.T) {
	table := newRawTable(t)
	p := newProxy(t, first(1, "PutItem", throttle))
	through := table.by(awsConfig(p.URL))
	through.keys() // another operation
	if err := through.put(t.Context(), "a"); !isError[*types.ProvisionedThroughputExceededException](err) {
		t.Errorf("the first was told: %v", err)
	}
	if err := through.put(t.Context(), "b"); err != nil {
		t.Errorf("the second was told: %v", err)
	}
	if p.Did(throttle) != 1 || p.Did(pass) != 2 {
		t.Errorf("it counted %d and %d", p.Did(throttle), p.Did(pass))
	}
}

func TestUnprocessedWritesAreNotWritten(t *testing.T) {
	table := newRawTable(t)
	through := table.by(awsConfig(newProxy(t, always(unprocessed)).URL))
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
	through := table.by(awsConfig(newProxy(t, always(unprocessed)).URL))
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

func TestRoundTripsAreTheLongestChain(t *testing.T) {
	span := func(begin, end int) sentRequest { return sentRequest{begin: begin, end: end} }
	for _, test := range []struct {
		name string
		log  []sentRequest
		want int
	}{
		{"nothing", nil, 0},
		{"one", []sentRequest{span(1, 2)}, 1},
		{"one after the other", []sentRequest{span(1, 2), span(3, 4), span(5, 6)}, 3},
		{"all at once", []sentRequest{span(1, 6), span(2, 5), span(3, 4)}, 1},
		{"two and two", []sentRequest{span(1, 3), span(2, 4), span(5, 8), span(6, 7)}, 2},
		{"a second beside a long one", []sentRequest{span(1, 6), span(2, 3), span(4, 5)}, 2},
		{"each overlaps the next only", []sentRequest{span(1, 3), span(2, 5), span(4, 6)}, 2},
		{"still running", []sentRequest{span(1, 0), span(2, 0)}, 1},
		{"one still running", []sentRequest{span(1, 0), span(2, 3), span(4, 0)}, 2},
	} {
		if got := roundTrips(test.log); got != test.want {
			t.Errorf("%s: %d round trips, want %d", test.name, got, test.want)
		}
	}
}

func TestCounterTellsConcurrentFromSequential(t *testing.T) {
	table := newRawTable(t)
	c := newCounter()
	c.settle = time.Hour // it is not needed
	counted := table.by(c.config(engine(t)))
	put := func() {
		if err := counted.put(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	}
	put()
	counted.keys()
	if diff := cmp.Diff([]string{"PutItem", "Scan"}, c.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if c.RoundTrips() != 2 {
		t.Errorf("one after the other are %d round trips", c.RoundTrips())
	}
	c.Reset()
	c.Together(3, 1)
	var all sync.WaitGroup
	for range 3 {
		all.Go(put)
	}
	all.Wait()
	put()
	if len(c.Requests()) != 4 || c.RoundTrips() != 2 {
		t.Errorf("three at once and one: %d requests, %d round trips", len(c.Requests()), c.RoundTrips())
	}
}

func TestCounterIsNotFooledByTogether(t *testing.T) {
	table := newRawTable(t)
	c := newCounter()
	c.settle = time.Millisecond
	counted := table.by(c.config(engine(t)))
	c.Together(2)
	for range 2 {
		if err := counted.put(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	if c.RoundTrips() != 2 {
		t.Errorf("one after the other are %d round trips", c.RoundTrips())
	}
}

func TestCounterLetsCallersLeave(t *testing.T) {
	table := newRawTable(t)
	c := newCounter()
	c.settle = time.Hour
	c.Together(2)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		until(ctx, func() bool { return len(c.Requests()) == 1 })
		leave()
	}()
	if err := table.by(c.config(engine(t))).put(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("the client was told: %v", err)
	}
	if diff := cmp.Diff([]string{}, table.keys()); diff != "" {
		t.Errorf("in the table (-want +got):\n%s", diff)
	}
}

func TestCounterSumsWhatRepliesCost(t *testing.T) {
	table := newRawTable(t)
	c := newCounter()
	counted := table.by(c.config(engine(t)))
	_, err := counted.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: &table.name, Item: rawKey("a"), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil || c.Capacity() != 1 {
		t.Errorf("a put cost %v: %v", c.Capacity(), err)
	}
	_, err = counted.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{
		RequestItems:           map[string]types.KeysAndAttributes{table.name: {Keys: []map[string]types.AttributeValue{rawKey("a")}}},
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil || c.Capacity() != 1.5 {
		t.Errorf("with a read besides it cost %v: %v", c.Capacity(), err)
	}
	if size := c.Log()[0].size; size < int64(len(table.name)) {
		t.Errorf("the put had %d bytes", size)
	}
}

func TestTableNamesAreValidAndUnique(t *testing.T) {
	valid := regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{2,54}$`)
	t.Run("ünusual/name_"+strings.Repeat("x", 99), func(t *testing.T) {
		a, b := tableName(t), tableName(t)
		if a == b || !valid.MatchString(a) || !valid.MatchString(b) {
			t.Errorf("%q and %q", a, b)
		}
	})
}

func TestLeftGoroutinesAreNoticed(t *testing.T) {
	before := goroutines()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() { <-end; close(ended) }()
	if left := newGoroutines(before); len(left) != 1 || !strings.Contains(left[0], t.Name()) {
		t.Errorf("it noticed %q", left)
	}
	close(end)
	<-ended
	until(t.Context(), func() bool { return len(newGoroutines(before)) == 0 })
}

// The scripts are made here, and end in the ways that the engine's may end.
func TestEngineScriptsThatFail(t *testing.T) {
	for _, test := range []struct {
		name, script string
		missing      bool
		says         string
	}{
		{"a program is missing", "echo 'install Java' >&2; exit 3", true, "install Java"},
		{"it fails", "echo 'Java ended' >&2; exit 1", false, "Java ended"},
		{"it says nothing", "exit 0", false, "no URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, err := launch("sh", "-c", test.script)
			if e != nil || err == nil || errors.Is(err, errNoEngine) != test.missing || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, %v", e, err)
			}
		})
	}
	if _, err := launch(filepath.Join(t.TempDir(), "none")); !errors.Is(err, errNoEngine) {
		t.Errorf("without a script: %v", err)
	}
}

func TestEngineStopsWhenItsInputIsClosed(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "stopped")
	e, err := launch("sh", "-c", `echo http://nowhere; cat >/dev/null; echo >"$0"`, mark)
	if err != nil || e.url != "http://nowhere" {
		t.Fatalf("%v, %v", e, err)
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has stopped already: %v", err)
	}
	if err := e.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("it has not come to its end: %v", err)
	}
}
