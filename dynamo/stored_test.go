package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// dawn is when tests of stored items begin.
var dawn = time.Date(2026, time.March, 14, 15, 9, 26, 0, time.UTC)

// storedTable is a table of its own, seen twice: through a repository, and as
// the items that are in it.
type storedTable struct {
	*testing.T
	repo   *dynamo.Repository
	client *dynamodb.Client
	name   string
	ns     string
	wire   *wire
	events int
}

func newStoredTable(t *testing.T) *storedTable {
	t.Helper()
	cfg := awsConfig(engine(t))
	w := &wire{next: cfg.HTTPClient}
	cfg.HTTPClient = w
	s := &storedTable{T: t, client: client(t), name: tableName(t), wire: w}
	if err := dynamo.CreateTable(t.Context(), s.name, &dynamo.Options{AWS: cfg}); err != nil {
		t.Fatal(err)
	}
	repo, err := dynamo.Connect(t.Context(), s.name, &dynamo.Options{AWS: cfg, Timeout: unhurried, PurgeWait: -1})
	if err != nil {
		t.Fatal(err)
	}
	s.repo, s.ns = repo, repo.NamespaceID()
	return s
}

// event is a new one, by an author without a name.
func (s *storedTable) event(action, entity, resource string) limiter.AuditEvent {
	s.events++
	return limiter.AuditEvent{
		ID: fmt.Sprintf("01JP%022d", s.events), Action: action, Entity: entity, Resource: resource, At: dawn, Details: map[string]any{},
	}
}

func (s *storedTable) set(scope limiter.Scope, limits ...limiter.Limit) {
	s.Helper()
	s.ok(s.repo.SetConfig(s.Context(), limiter.Config{Scope: scope, Limits: limits}, s.event("limits_set", "x", "")))
}

func (s *storedTable) setMode(mode limiter.OnUnavailable) {
	s.Helper()
	s.ok(s.repo.SetConfig(s.Context(), limiter.Config{OnUnavailable: mode}, s.event("limits_set", "$SYSTEM", "")))
}

func (s *storedTable) deleteConfig(scope limiter.Scope) error {
	return s.repo.DeleteConfig(s.Context(), scope, s.event("limits_deleted", "x", ""))
}

func (s *storedTable) create(e limiter.Entity) {
	s.Helper()
	e.CreatedAt = dawn
	s.ok(s.repo.CreateEntity(s.Context(), e, s.event("entity_created", e.ID, "")))
}

func (s *storedTable) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *storedTable) equal(what string, got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// item is what is stored under a key, nil if there is nothing. In keys {ns}
// stands for the namespace.
func (s *storedTable) item(pk, sk string) map[string]types.AttributeValue {
	s.Helper()
	out, err := s.client.GetItem(s.Context(), &dynamodb.GetItemInput{
		TableName: &s.name, ConsistentRead: aws.Bool(true), Key: s.attributes("PK S " + pk + "\nSK S " + sk),
	})
	s.ok(err)
	return out.Item
}

// holds compares a stored item, byte for byte, with its attributes as text: a
// line each of name, type and value.
func (s *storedTable) holds(pk, sk, want string) {
	s.Helper()
	var lines []string
	for line := range strings.Lines("PK S " + pk + "\nSK S " + sk + "\n" + want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, strings.ReplaceAll(line, "{ns}", s.ns))
		}
	}
	slices.Sort(lines)
	s.equal(pk+" "+sk, attributeLines(s.item(pk, sk)), lines)
}

// lacks checks that there is no such item.
func (s *storedTable) lacks(pk, sk string) {
	s.Helper()
	if it := s.item(pk, sk); it != nil {
		s.Errorf("%s %s is stored: %s", pk, sk, attributeLines(it))
	}
}

// write stores an item as another program would.
func (s *storedTable) write(pk, sk, attributes string) {
	s.Helper()
	_, err := s.client.PutItem(context.Background(), &dynamodb.PutItemInput{
		TableName: &s.name, Item: s.attributes("PK S " + pk + "\nSK S " + sk + "\n" + attributes),
	})
	s.ok(err)
}

// drop deletes an item as another program would.
func (s *storedTable) drop(pk, sk string) {
	s.Helper()
	_, err := s.client.DeleteItem(context.Background(), &dynamodb.DeleteItemInput{
		TableName: &s.name, Key: s.attributes("PK S " + pk + "\nSK S " + sk),
	})
	s.ok(err)
}

// change gives one attribute of an item a number, as another program would.
func (s *storedTable) change(pk, sk, attribute, n string) {
	s.Helper()
	_, err := s.client.UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
		TableName: &s.name, Key: s.attributes("PK S " + pk + "\nSK S " + sk),
		UpdateExpression: aws.String("SET #a = :n"), ExpressionAttributeNames: map[string]string{"#a": attribute},
		ExpressionAttributeValues: map[string]types.AttributeValue{":n": &types.AttributeValueMemberN{Value: n}},
	})
	s.ok(err)
}

// attributes is text of lines as attributes: S, N, BOOL and NULL.
func (s *storedTable) attributes(text string) map[string]types.AttributeValue {
	s.Helper()
	it := map[string]types.AttributeValue{}
	for line := range strings.Lines(strings.ReplaceAll(text, "{ns}", s.ns)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		parts := strings.SplitN(line+" ", " ", 3)
		v := strings.TrimSpace(parts[2])
		switch parts[1] {
		case "S":
			it[parts[0]] = &types.AttributeValueMemberS{Value: v}
		case "N":
			it[parts[0]] = &types.AttributeValueMemberN{Value: v}
		case "BOOL":
			it[parts[0]] = &types.AttributeValueMemberBOOL{Value: v == "true"}
		case "NULL":
			it[parts[0]] = &types.AttributeValueMemberNULL{Value: true}
		default:
			s.Fatalf("unknown type in %q", line)
		}
	}
	return it
}

// attributeLines is attributes backwards, sorted.
func attributeLines(it map[string]types.AttributeValue) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(it)) {
		lines = append(lines, strings.TrimSpace(name+" "+attributeText(it[name])))
	}
	return lines
}

func attributeText(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return "S " + v.Value
	case *types.AttributeValueMemberN:
		return "N " + v.Value
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprint("BOOL ", v.Value)
	case *types.AttributeValueMemberNULL:
		return "NULL"
	case *types.AttributeValueMemberSS:
		return "SS " + strings.Join(slices.Sorted(slices.Values(v.Value)), ",")
	case *types.AttributeValueMemberM:
		return "M {" + strings.Join(attributeLines(v.Value), "; ") + "}"
	case *types.AttributeValueMemberL:
		var parts []string
		for _, e := range v.Value {
			parts = append(parts, attributeText(e))
		}
		return "L [" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprintf("%T", v)
}

// keys are the sort keys of a partition.
func (s *storedTable) keys(pk string) (all []string) {
	s.Helper()
	out, err := s.client.Query(s.Context(), &dynamodb.QueryInput{
		TableName: &s.name, KeyConditionExpression: aws.String("PK = :pk"), ConsistentRead: aws.Bool(true),
		ExpressionAttributeValues: s.attributes(":pk S " + pk),
	})
	s.ok(err)
	for _, it := range out.Items {
		all = append(all, it["SK"].(*types.AttributeValueMemberS).Value)
	}
	return all
}

// gathered is a sequence that must end without error.
func gathered[T any](t *testing.T, seq iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// wire is the connection to the engine, on which a test may listen, or cut in.
type wire struct {
	next    aws.HTTPClient
	tamper  atomic.Pointer[func(c *wireCall) (*http.Response, error)]
	pageCut atomic.Int64 // if set, the most items in a page of a query
}

// wireCall is one request.
type wireCall struct {
	op   string // such as GetItem
	body string
	send func() (*http.Response, error)
}

// Do sends a request, or does what the test wants instead.
func (w *wire) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	if n := w.pageCut.Load(); n > 0 && op == "Query" {
		body = bytes.Replace(body, []byte("{"), fmt.Appendf(nil, `{"Limit":%d,`, n), 1)
		req.ContentLength = int64(len(body))
	}
	call := &wireCall{op: op, body: string(body), send: func() (*http.Response, error) {
		again := req.Clone(req.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		return w.next.Do(again)
	}}
	if tamper := w.tamper.Load(); tamper != nil {
		return (*tamper)(call)
	}
	return call.send()
}

// cut makes all requests go through tamper from now on; nil ends that.
func (w *wire) cut(tamper func(c *wireCall) (*http.Response, error)) {
	if tamper == nil {
		w.tamper.Store(nil)
		return
	}
	w.tamper.Store(&tamper)
}

// before runs work once, before the first request that match accepts is sent.
func (w *wire) before(match func(c *wireCall) bool, work func()) {
	var done atomic.Bool
	w.cut(func(c *wireCall) (*http.Response, error) {
		if match(c) && done.CompareAndSwap(false, true) {
			work()
		}
		return c.send()
	})
}

// answer is a reply of the engine, made up.
func answer(t *testing.T, v any) (*http.Response, error) {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Error(err)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}
