package dynamo_test

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// bareTable returns a table without a namespace.
func bareTable(t *testing.T) string {
	t.Helper()
	table := dynamotest.NewTable(t)
	id := dynamotest.Connect(t, table, nil).NamespaceID()
	deleteRecord(t, table, "#NAMESPACE#default")
	deleteRecord(t, table, "#NSID#"+id)
	return table
}

// tableOptions connects to the table without a namespace.
var tableOptions = dynamo.Options{Namespace: "_"}

func TestTheFirstNamespaceIsRegisteredThroughTheTable(t *testing.T) {
	t.Parallel()
	table := bareTable(t)
	if err := connectError(t, table, &dynamo.Options{
		AWS: dynamotest.Config(dynamotest.Endpoint(t)),
	}); !errors.Is(err, limiter.ErrNotFound) {
		t.Fatal(err)
	}
	before := tableItems(t, table)
	r := dynamotest.Connect(t, table, &tableOptions)
	must(t, r.Ping(t.Context()))
	if got := dynamotest.Collect(t, r.Namespaces(t.Context())); len(got) > 0 {
		t.Error(got)
	}
	if diff := cmp.Diff(before, tableItems(t, table)); diff != "" {
		t.Errorf("looking has changed the table: %s", diff)
	}
	lim, err := limiter.New(r, nil)
	must(t, err)
	spaces, err := lim.RegisterNamespaces(t.Context(), "default")
	must(t, err)
	if got := dynamotest.Connect(t, table, nil).NamespaceID(); got != spaces[0].ID {
		t.Errorf("namespace %s, want %s", got, spaces[0].ID)
	}
	view, err := lim.Namespace(t.Context(), "default")
	must(t, err)
	must(t, view.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10)))
	must(t, r.Close())
	if err := r.Ping(t.Context()); !errors.Is(err, limiter.ErrClosed) {
		t.Error(err)
	}
}

func TestANamespaceLivesAndEndsThroughTheTable(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	r := dynamotest.Connect(t, table, &tableOptions)
	before := tableItems(t, table)
	n, _, _ := registerOther(t, r)
	must(t, r.DeleteNamespace(t.Context(), deletedAt, "other"))
	_, err := r.RecoverNamespace(t.Context(), deletedAt, n.ID)
	must(t, err)
	must(t, r.DeleteNamespace(t.Context(), deletedAt, "other"))
	must(t, r.PurgeNamespace(t.Context(), n.ID))
	if diff := cmp.Diff(before, tableItems(t, table)); diff != "" {
		t.Error(diff)
	}
}

// dataCalls returns calls of the Repository methods that access the data of a
// namespace.
func dataCalls(r *dynamo.Repository, account *limiter.Account) map[string]func(context.Context) error {
	charge := limiter.Charge{
		Entity: "key-1", Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 1),
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)},
	}
	scope, ev := limiter.Scope{Resource: "gpt-4"}, limiter.AuditEvent{
		ID: "01", Action: "tried", Entity: "key-1", At: createdAt,
	}
	cfg := limiter.Config{Scope: scope, Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)}}
	return map[string]func(context.Context) error{
		"Consume": func(ctx context.Context) error { _, err := r.Consume(ctx, createdAt, charge); return err },
		"Peek":    func(ctx context.Context) error { _, err := r.Peek(ctx, createdAt, charge); return err },
		"Credit": func(ctx context.Context) error {
			return r.Credit(ctx, createdAt, limiter.Credit{Account: account, Amounts: limiter.Tokens("rpm", -1)})
		},
		"Buckets": func(ctx context.Context) error { return lastError(r.Buckets(ctx, createdAt, scope)) },
		"CreateEntity": func(ctx context.Context) error {
			return r.CreateEntity(ctx, limiter.Entity{ID: "key-2"}, ev)
		},
		"Entity":                func(ctx context.Context) error { _, err := r.Entity(ctx, "key-1"); return err },
		"Entities":              func(ctx context.Context) error { return lastError(r.Entities(ctx, "")) },
		"DeleteEntity":          func(ctx context.Context) error { return r.DeleteEntity(ctx, "key-1", ev) },
		"SetConfig":             func(ctx context.Context) error { return r.SetConfig(ctx, cfg, ev) },
		"Config":                func(ctx context.Context) error { _, err := r.Config(ctx, scope); return err },
		"DeleteConfig":          func(ctx context.Context) error { return r.DeleteConfig(ctx, scope, ev) },
		"ResourcesWithDefaults": func(ctx context.Context) error { _, err := r.ResourcesWithDefaults(ctx); return err },
		"ResourcesWithLimits":   func(ctx context.Context) error { _, err := r.ResourcesWithLimits(ctx); return err },
		"EntitiesWithLimits":    func(ctx context.Context) error { return lastError(r.EntitiesWithLimits(ctx, "")) },
		"SetSwitch": func(ctx context.Context) error {
			return r.SetSwitch(ctx, limiter.Switch{Scope: scope}, ev)
		},
		"DeleteSwitch": func(ctx context.Context) error { return r.DeleteSwitch(ctx, scope, ev) },
		"Switches":     func(ctx context.Context) error { return lastError(r.Switches(ctx)) },
		"Fill": func(ctx context.Context) error {
			_, err := r.Fill(ctx, createdAt, limiter.Fill{Entity: "key-1", Resource: "gpt-4"}, ev)
			return err
		},
		"AuditEvents": func(ctx context.Context) error { return lastError(r.AuditEvents(ctx, "key-1", "")) },
		"Usage": func(ctx context.Context) error {
			return lastError(r.Usage(ctx, limiter.UsageQuery{Resource: "gpt-4"}))
		},
		"Namespace": func(ctx context.Context) error { _, err := r.Namespace(ctx, "_"); return err },
	}
}

func lastError[T any](seq iter.Seq2[T, error]) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

// withoutData lists the other methods of Repository.
var withoutData = []string{
	"Close", "DeleteNamespace", "LastSwitch", "Namespaces", "OnUnavailable", "Ping", "PurgeNamespace",
	"RecoverNamespace", "RegisterNamespace",
}

// The records are the ones of a Python program that opened the namespace "_",
// and one that makes the reserved namespace itself look active.
func TestTheTableItselfHoldsNoData(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	storeItem(t, table, namespaceRecord("#NAMESPACE#_", "AAAAAAAAAAA", "_", createdText))
	storeItem(t, table, namespaceRecord("#NSID#AAAAAAAAAAA", "AAAAAAAAAAA", "_", createdText))
	storeItem(t, table, namespaceRecord("#NSID#_", "_", "_", createdText))
	charge := limiter.Charge{
		Entity: "key-1", Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 1),
		Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)},
	}
	out, err := dynamotest.Connect(t, table, nil).Consume(t.Context(), createdAt, charge)
	must(t, err)
	r := dynamotest.Connect(t, table, &tableOptions)
	if got := r.NamespaceID(); got != "_" {
		t.Errorf("namespace %s", got)
	}
	calls := dataCalls(r, out.Payers[0].Account)
	for m := range reflect.TypeFor[limiter.Repository]().Methods() {
		if calls[m.Name] == nil && !slices.Contains(withoutData, m.Name) {
			t.Errorf("%s is not tried", m.Name)
		}
	}
	before := tableItems(t, table)
	for name, call := range calls {
		err := call(t.Context())
		if !errors.Is(err, limiter.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkError(t, err, `"_"`, "reserved")
	}
	if mode := r.OnUnavailable(); mode != "" {
		t.Errorf("mode %q", mode)
	}
	if diff := cmp.Diff(before, tableItems(t, table)); diff != "" {
		t.Errorf("something was written:\n%s", diff)
	}
	if _, err := dynamotest.Connect(t, table, nil).Namespace(t.Context(), "_"); !errors.Is(err, limiter.ErrNotFound) {
		t.Errorf("from another namespace: %v", err)
	}
}

func TestTheTableItselfIsNotRegistered(t *testing.T) {
	t.Parallel()
	lim, err := limiter.New(dynamotest.Connect(t, dynamotest.NewTable(t), &tableOptions), nil)
	must(t, err)
	if _, err := lim.RegisterNamespaces(t.Context(), "_"); !isError[*limiter.InvalidError](err) {
		t.Error(err)
	}
	if err := lim.DeleteNamespace(t.Context(), "_"); !isError[*limiter.InvalidError](err) {
		t.Error(err)
	}
	_, err = lim.Acquire(t.Context(), limiter.Request{
		Entity: "key-1", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1), OnUnavailable: limiter.Allow,
	})
	if !errors.Is(err, limiter.ErrNotFound) { // no outage, which would be allowed
		t.Error(err)
	}
}

func TestConnectingToTheTableChecksTheTable(t *testing.T) {
	t.Parallel()
	opts := &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t)), Namespace: "_"}
	if err := connectError(t, dynamotest.TableName(t), opts); !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
	table := dynamotest.NewTable(t)
	storeItem(t, table, attributes{"PK": "S:_/SYSTEM#", "SK": "S:#VERSION", "schema_version": "S:0.9.0"})
	if err := connectError(t, table, opts); !isError[*limiter.VersionError](err) {
		t.Error(err)
	}
}
