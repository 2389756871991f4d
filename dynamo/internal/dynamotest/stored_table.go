package dynamotest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Dawn is the time at which tests of stored items begin.
var Dawn = time.Date(2026, time.March, 14, 15, 9, 26, 0, time.UTC)

// StoredTable is a table with a repository on it and access to its items.
type StoredTable struct {
	*testing.T
	Repo      *dynamo.Repository
	Client    *dynamodb.Client
	TableName string
	NS        string
	Wire      *Wire
	events    int
}

// NewStoredTable creates a table with a stream and TTL and connects to it.
func NewStoredTable(t *testing.T) *StoredTable {
	t.Helper()
	cfg := Config(Endpoint(t))
	w := &Wire{next: cfg.HTTPClient}
	cfg.HTTPClient = w

	s := &StoredTable{T: t, Client: Client(t), TableName: TableName(t), Wire: w}
	if err := dynamo.CreateTable(t.Context(), s.TableName, &dynamo.Options{AWS: cfg}); err != nil {
		t.Fatal(err)
	}

	// No other process uses the table, so nothing waits for its late writes.
	repo, err := dynamo.Connect(t.Context(), s.TableName, &dynamo.Options{
		AWS: cfg, Timeout: LongTimeout, PurgeWait: -1, SwitchWait: -1,
	})
	if err != nil {
		t.Fatal(err)
	}

	s.Repo, s.NS = repo, repo.NamespaceID()
	return s
}

// OpenStoredTable connects to a table that exists.
func OpenStoredTable(t *testing.T, table string, opts *dynamo.Options) *StoredTable {
	t.Helper()

	var o dynamo.Options
	if opts != nil {
		o = *opts
	}

	cfg := Config(Endpoint(t))
	w := &Wire{next: cfg.HTTPClient}
	cfg.HTTPClient = w
	o.AWS = cfg

	repo := Connect(t, table, &o)
	return &StoredTable{T: t, Repo: repo, Client: Client(t), TableName: table, NS: repo.NamespaceID(), Wire: w}
}

// Event returns a new audit event without a principal.
func (s *StoredTable) Event(action, entity, resource string) limiter.AuditEvent {
	s.events++
	return limiter.AuditEvent{
		ID: fmt.Sprintf("01JP%022d", s.events), Action: action, Entity: entity, Resource: resource, At: Dawn,
		Details: map[string]any{},
	}
}

// SetLimits stores limits.
func (s *StoredTable) SetLimits(scope limiter.Scope, limits ...limiter.Limit) {
	s.Helper()
	s.Must(s.Repo.SetConfig(s.Context(), limiter.Config{Scope: scope, Limits: limits}, s.Event("limits_set", "x", "")))
}

// SetMode stores the behaviour in an outage.
func (s *StoredTable) SetMode(mode limiter.OnUnavailable) {
	s.Helper()
	s.Must(s.Repo.SetConfig(s.Context(), limiter.Config{OnUnavailable: mode}, s.Event("limits_set", "$SYSTEM", "")))
}

// DeleteConfig deletes limits.
func (s *StoredTable) DeleteConfig(scope limiter.Scope) error {
	return s.Repo.DeleteConfig(s.Context(), scope, s.Event("limits_deleted", "x", ""))
}

// CreateEntity stores an entity.
func (s *StoredTable) CreateEntity(e limiter.Entity) {
	s.Helper()
	e.CreatedAt = Dawn
	s.Must(s.Repo.CreateEntity(s.Context(), e, s.Event("entity_created", e.ID, "")))
}

// Must fails the test if err is not nil.
func (s *StoredTable) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Equal compares two values.
func (s *StoredTable) Equal(what string, got, want any) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Item returns an item, or nil if it does not exist. In keys {ns} stands for the
// namespace ID.
func (s *StoredTable) Item(pk, sk string) map[string]types.AttributeValue {
	s.Helper()
	out, err := s.Client.GetItem(s.Context(), &dynamodb.GetItemInput{
		TableName: &s.TableName, ConsistentRead: aws.Bool(true), Key: s.Attributes("PK S " + pk + "\nSK S " + sk),
	})
	s.Must(err)
	return out.Item
}

// CheckItem compares a stored item with its attributes as text: a line each of
// name, type and value.
func (s *StoredTable) CheckItem(pk, sk, want string) {
	s.Helper()
	it := s.Item(pk, sk)

	var lines []string
	for line := range strings.Lines("PK S " + pk + "\nSK S " + sk + "\n" + want) {
		if line = strings.TrimSpace(line); line == "_id" {
			// The identity is random, so the stored one is compared with
			// itself.
			line += " " + FormatAttribute(it["_id"])
		}
		if line != "" {
			lines = append(lines, strings.ReplaceAll(line, "{ns}", s.NS))
		}
	}

	slices.Sort(lines)
	s.Equal(pk+" "+sk, FormatItem(it), lines)
}

// CheckNoItem checks that an item does not exist.
func (s *StoredTable) CheckNoItem(pk, sk string) {
	s.Helper()
	if it := s.Item(pk, sk); it != nil {
		s.Errorf("%s %s is stored: %s", pk, sk, FormatItem(it))
	}
}

// PutItem stores an item as another program would.
func (s *StoredTable) PutItem(pk, sk, attributes string) {
	s.Helper()

	_, err := s.Client.PutItem(context.Background(), &dynamodb.PutItemInput{
		TableName: &s.TableName, Item: s.Attributes("PK S " + pk + "\nSK S " + sk + "\n" + attributes),
	})
	s.Must(err)
}

// DeleteItem deletes an item as another program would.
func (s *StoredTable) DeleteItem(pk, sk string) {
	s.Helper()
	_, err := s.Client.DeleteItem(context.Background(), &dynamodb.DeleteItemInput{
		TableName: &s.TableName, Key: s.Attributes("PK S " + pk + "\nSK S " + sk),
	})
	s.Must(err)
}

// SetNumber sets an attribute to a number as another program would.
func (s *StoredTable) SetNumber(pk, sk, attribute, n string) {
	s.Helper()
	_, err := s.Client.UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
		TableName: &s.TableName, Key: s.Attributes("PK S " + pk + "\nSK S " + sk),
		UpdateExpression: aws.String("SET #a = :n"), ExpressionAttributeNames: map[string]string{"#a": attribute},
		ExpressionAttributeValues: map[string]types.AttributeValue{":n": &types.AttributeValueMemberN{Value: n}},
	})
	s.Must(err)
}

// Attributes parses lines of name, type and value. The types are S, N, BOOL and
// NULL.
func (s *StoredTable) Attributes(text string) map[string]types.AttributeValue {
	s.Helper()
	it := map[string]types.AttributeValue{}
	for line := range strings.Lines(strings.ReplaceAll(text, "{ns}", s.NS)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}

		// NULL has no value after it.
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

// FormatItem formats an item as Attributes reads it, sorted by name.
func FormatItem(it map[string]types.AttributeValue) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(it)) {
		lines = append(lines, strings.TrimSpace(name+" "+FormatAttribute(it[name])))
	}
	return lines
}

// FormatAttribute returns the type and value of an attribute.
func FormatAttribute(v types.AttributeValue) string {
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
		return "M {" + strings.Join(FormatItem(v.Value), "; ") + "}"
	case *types.AttributeValueMemberL:
		var parts []string
		for _, e := range v.Value {
			parts = append(parts, FormatAttribute(e))
		}
		return "L [" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprintf("%T", v)
}

// SortKeys returns the sort keys of a partition.
func (s *StoredTable) SortKeys(pk string) (all []string) {
	s.Helper()
	out, err := s.Client.Query(s.Context(), &dynamodb.QueryInput{
		TableName: &s.TableName, KeyConditionExpression: aws.String("PK = :pk"), ConsistentRead: aws.Bool(true),
		ExpressionAttributeValues: s.Attributes(":pk S " + pk),
	})
	s.Must(err)

	for _, it := range out.Items {
		all = append(all, Text(it, "SK"))
	}
	return all
}

// Collect returns the values of a sequence. An error fails the test.
func Collect[T any](t *testing.T, seq iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// CheckCounts checks how many entities have limits, by resource.
func (s *StoredTable) CheckCounts(want string) {
	s.Helper()
	s.CheckItem("{ns}/SYSTEM#", "#ENTITY_CONFIG_RESOURCES", want+"\nGSI4PK S {ns}\nGSI4SK S {ns}/SYSTEM#")
}

// PutSnapshot stores a usage snapshot as the aggregator of Python does.
func (s *StoredTable) PutSnapshot(entity, resource, window, start, suffix, counters string) {
	s.Helper()
	s.PutItem("{ns}/ENTITY#"+entity, "#USAGE#"+resource+"#"+start+suffix, fmt.Sprintf(`
		entity_id S %s
		resource S %s
		window S %s
		window_start S %s
		ttl N 1781276966
		GSI2PK S {ns}/RESOURCE#%s
		GSI2SK S USAGE#%s#%s%s
		GSI4PK S {ns}
		GSI4SK S {ns}/ENTITY#%s
		%s`, entity, resource, window, start, resource, start, entity, suffix, entity, counters))
}
