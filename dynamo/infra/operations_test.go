package infra_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
	"github.com/zeroae/zae-limiter-go/internal/golden"
)

// operation is a call of the library whose requests are recorded.
type operation struct {
	name string // starts with the name of the method
	may  string // the tiers that need it
	run  func(w *world)
}

// Tiers that need an operation.
const (
	acquiring     = "acq full ns-acq ns-full"
	reading       = "acq full read ns-acq ns-full ns-read"
	listing       = "full read ns-full ns-read"
	managing      = "full ns-full"
	administering = "full"
	applying      = " prov" // in addition to others
)

// operations returns an operation for each method of the port, and others that the
// programs of this module need.
func operations() []operation {
	return slices.Concat(bucketOperations(), entityOperations(), configOperations(), switchOperations(),
		namespaceOperations(), historyOperations(), tableOperations())
}

// silent lists the methods that send no request.
var silent = []string{"Close", "LastSwitch", "OnUnavailable"}

func TestOperationsCoverPort(t *testing.T) {
	for port := range reflect.TypeFor[limiter.Repository]().Methods() {
		name := port.Name
		tried := slices.ContainsFunc(operations(), func(o operation) bool {
			method, _, _ := strings.Cut(o.name, ":")
			return method == name
		})
		if tried == slices.Contains(silent, name) {
			t.Errorf("%s: has an operation: %t", name, tried)
		}
	}
}

const recordedCalls = "testdata/calls.txt"

// The recorded calls, which the policies are checked with, are up to date; -update
// records them again.
func TestCallsAreUpToDate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recorded := calls{}
	for _, o := range operations() {
		if recorded[o.name] = w.record(o); len(recorded[o.name]) == 0 {
			t.Errorf("%s sends no request", o.name)
		}
	}
	golden.Check(t, recordedCalls, recorded.String())
}

func bucketOperations() []operation {
	return []operation{
		{"Consume: first use", acquiring, func(w *world) { w.consume(w.repo, "first", noon) }},
		{"Consume: again", acquiring, func(w *world) {
			w.consume(w.others, "again", noon)
			w.consume(w.repo, "again", noon.Add(time.Minute))
			w.consume(w.repo, "again", noon.Add(2*time.Minute))
		}},
		{"Consume: refused", acquiring, func(w *world) {
			w.consume(w.repo, "refused", noon)
			if w.consume(w.repo, "refused", noon).Admitted {
				w.Error("not refused")
			}
		}},
		{"Consume: under limits that changed", acquiring, func(w *world) {
			w.consume(w.others, "changed", noon)
			w.set(limiter.Scope{Entity: "changed"}, limiter.PerMinute("rpm", 1000))
			w.consume(w.repo, "changed", noon)
		}},
		{"Consume: first use with a parent", acquiring, func(w *world) {
			w.create(limiter.Entity{ID: "child", Parent: "parent", Cascade: true})
			w.consume(w.repo, "child", noon)
		}},
		{"Consume: the parent refuses, the child gets it back", acquiring, func(w *world) {
			w.create(limiter.Entity{ID: "rich", Parent: "poor", Cascade: true})
			w.set(limiter.Scope{Entity: "rich"}, limiter.PerMinute("rpm", 1000))
			w.set(limiter.Scope{Entity: "poor"}, limiter.PerMinute("rpm", 130))
			w.consume(w.repo, "rich", noon)
			w.consume(w.others, "poor", noon)
			w.consume(w.repo, "rich", noon)
		}},
		{"Consume: another process has turned the entity off, and on again", acquiring, func(w *world) {
			off := limiter.Scope{Entity: "off"}
			w.consume(w.repo, "off", noon)
			w.ok(w.others.SetSwitch(w.Context(), limiter.Switch{Scope: off, Since: noon}, w.event()))
			if _, err := w.repo.Consume(w.Context(), noon, limiter.Charge{
				Entity: "off", Resource: gpt, Amounts: limiter.Tokens("rpm", 1),
			}); err == nil {
				w.Error("not refused")
			}
			w.ok(w.others.DeleteSwitch(w.Context(), off, w.event()))
			w.consume(w.repo, "off", noon.Add(time.Minute))
		}},
		{"Fill: reset", managing, func(w *world) {
			w.consume(w.others, "reset", noon)
			w.fill(limiter.Fill{Entity: "reset", Resource: gpt})
		}},
		{"Fill: top-up", managing, func(w *world) {
			w.consume(w.others, "topped-up", noon)
			w.fill(limiter.Fill{Entity: "topped-up", Resource: gpt, Amounts: limiter.Tokens("rpm", 1), ID: "a"})
		}},
		{"Fill: a bucket that does not exist", managing, func(w *world) {
			w.fill(limiter.Fill{Entity: "empty", Resource: gpt, Amounts: limiter.Tokens("rpm", 1), ID: "a"})
		}},
		{"Peek", reading, func(w *world) {
			_, err := w.repo.Peek(w.Context(), noon, limiter.Charge{Entity: "peeked", Resource: gpt})
			w.ok(err)
		}},
		{"Credit: less was used", acquiring, func(w *world) {
			w.credit("less", limiter.Credit{Amounts: limiter.Tokens("rpm", 1)})
		}},
		{"Credit: more was used", acquiring, func(w *world) {
			w.credit("more", limiter.Credit{Amounts: limiter.Tokens("rpm", -70)})
		}},
		{"Credit: rollback", acquiring, func(w *world) {
			w.credit("rolled-back", limiter.Credit{Amounts: limiter.Tokens("rpm", 60), Undo: true})
		}},
		{"Credit: the bucket has expired", acquiring, func(w *world) {
			out := w.consume(w.repo, "expired", noon)
			_, err := w.client().DeleteItem(w.Context(), &dynamodb.DeleteItemInput{
				TableName: &w.table,
				Key: map[string]types.AttributeValue{
					"PK": &types.AttributeValueMemberS{Value: w.NamespaceID + "/ENTITY#expired"},
					"SK": &types.AttributeValueMemberS{Value: "#BUCKET#" + gpt},
				},
			})
			w.ok(err)
			w.Take(w.T)
			w.ok(w.repo.Credit(w.Context(), noon.Add(24*time.Hour), limiter.Credit{
				Account: out.Payers[0].Account, Amounts: limiter.Tokens("rpm", -1),
			}))
		}},
		{"Buckets: of an entity and a resource", reading, func(w *world) {
			w.buckets(limiter.Scope{Entity: "first", Resource: gpt})
		}},
		{"Buckets: of an entity", reading, func(w *world) { w.buckets(limiter.Scope{Entity: "first"}) }},
		{"Buckets: of a resource", reading, func(w *world) { w.buckets(limiter.Scope{Resource: "rare"}) }},
		{"Buckets: of a resource with a lean index", reading, func(w *world) {
			w.useLeanTable()
			w.buckets(limiter.Scope{Resource: gpt})
		}},
		{"Buckets: all", listing, func(w *world) {
			w.useNamespace("buckets")
			w.buckets(limiter.Scope{})
		}},
		{"BucketPage", listing, func(w *world) {
			w.useNamespace("pages")
			_, err := w.repo.BucketPage(w.Context(), noon, limiter.BucketQuery{})
			w.ok(err)
		}},
		{"BucketsAt", reading, func(w *world) {
			_, err := w.repo.BucketsAt(w.Context(), noon, []limiter.Scope{
				{Entity: "first", Resource: gpt}, {Entity: "second", Resource: gpt},
			})
			w.ok(err)
		}},
	}
}

// credit credits a charge, and records only the credit.
func (w *world) credit(entity string, c limiter.Credit) {
	w.Helper()
	c.Account = w.consume(w.repo, entity, noon).Payers[0].Account
	w.Take(w.T)
	w.ok(w.repo.Credit(w.Context(), noon, c))
}

func (w *world) fill(f limiter.Fill) {
	w.Helper()
	_, err := w.repo.Fill(w.Context(), noon, f, w.event())
	w.ok(err)
}

func (w *world) buckets(of limiter.Scope) {
	w.Helper()
	drain(w, w.repo.Buckets(w.Context(), noon, of))
}

func entityOperations() []operation {
	return []operation{
		{"CreateEntity", managing, func(w *world) {
			w.ok(w.repo.CreateEntity(w.Context(), limiter.Entity{ID: "new", Parent: "parent"}, w.event()))
		}},
		{"Entity", reading, func(w *world) {
			_, err := w.repo.Entity(w.Context(), "child")
			w.ok(err)
		}},
		{"Entities: of a parent", listing, func(w *world) { drain(w, w.repo.Entities(w.Context(), "parent")) }},
		{"Entities: all", listing, func(w *world) {
			w.useNamespace("entities")
			drain(w, w.repo.Entities(w.Context(), ""))
		}},
		{"DeleteEntity", managing, func(w *world) {
			w.create(limiter.Entity{ID: "leaving"})
			w.set(limiter.Scope{Entity: "leaving"}, limiter.PerMinute("rpm", 1000))
			w.consume(w.others, "leaving", noon)
			w.ok(w.repo.DeleteEntity(w.Context(), "leaving", w.event()))
		}},
	}
}

// levels has the four scopes of limits.
var levels = map[string]limiter.Scope{
	"system": {}, "resource": {Resource: "dalle"}, "entity default": {Entity: "limited"},
	"entity": {Entity: "limited", Resource: gpt},
}

func configOperations() []operation {
	var all []operation
	for _, level := range []string{"system", "resource", "entity default", "entity"} {
		s := levels[level]
		cfg := limiter.Config{Scope: s, Limits: []limiter.Limit{limiter.PerMinute("rpm", 60)}}
		all = append(all, operation{"SetConfig: " + level, managing + applying, func(w *world) {
			w.consume(w.others, "limited", noon)
			w.ok(w.repo.SetConfig(w.Context(), cfg, w.event()))
			w.ok(w.repo.SetConfig(w.Context(), cfg, w.event()))
		}}, operation{"Config: " + level, reading + applying, func(w *world) {
			_, err := w.repo.Config(w.Context(), s)
			w.ok(err)
		}}, operation{"DeleteConfig: " + level, managing + applying, func(w *world) {
			w.ok(w.repo.DeleteConfig(w.Context(), s, w.event()))
			if level == "system" {
				w.set(limiter.Scope{}, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000))
			}
		}})
	}
	return append(all, []operation{
		{"SetConfig: mode", managing + applying, func(w *world) {
			w.ok(w.repo.SetConfig(w.Context(), limiter.Config{OnUnavailable: limiter.Allow}, w.event()))
		}},
		{"ResourcesWithDefaults", reading + applying, func(w *world) {
			_, err := w.repo.ResourcesWithDefaults(w.Context())
			w.ok(err)
		}},
		{"ResourcesWithLimits", reading + applying, func(w *world) {
			_, err := w.repo.ResourcesWithLimits(w.Context())
			w.ok(err)
		}},
		{"EntitiesWithLimits", listing, func(w *world) { drain(w, w.repo.EntitiesWithLimits(w.Context(), gpt)) }},
	}...)
}

func switchOperations() []operation {
	var all []operation
	for _, level := range []string{"system", "resource", "entity default", "entity"} {
		s := levels[level]
		all = append(all, operation{"SetSwitch: " + level, managing, func(w *world) {
			w.ok(w.repo.SetSwitch(w.Context(), limiter.Switch{Scope: s, Since: noon}, w.event()))
		}})
	}
	all = append(all, operation{"Switches", listing, func(w *world) { drain(w, w.repo.Switches(w.Context())) }})
	for _, level := range []string{"system", "resource", "entity default", "entity"} {
		s := levels[level]
		all = append(all, operation{"DeleteSwitch: " + level, managing, func(w *world) {
			w.ok(w.repo.DeleteSwitch(w.Context(), s, w.event()))
		}})
	}
	return all
}

func namespaceOperations() []operation {
	return []operation{
		{"Namespace", reading + applying, func(w *world) {
			_, err := w.repo.Namespace(w.Context(), "default")
			w.ok(err)
		}},
		{"Namespaces", reading + applying, func(w *world) { drain(w, w.repo.Namespaces(w.Context())) }},
		{"RegisterNamespace", administering, func(w *world) {
			_, err := w.repo.RegisterNamespace(w.Context(), noon, "registered")
			w.ok(err)
			_, err = w.repo.RegisterNamespace(w.Context(), noon, "registered")
			w.ok(err)
		}},
		{"DeleteNamespace", administering, func(w *world) {
			w.useNamespace("deleted")
			w.ok(w.repo.DeleteNamespace(w.Context(), noon, "deleted"))
		}},
		{"RecoverNamespace", administering, func(w *world) {
			w.useNamespace("recovered")
			w.ok(w.others.DeleteNamespace(w.Context(), noon, "recovered"))
			_, err := w.repo.RecoverNamespace(w.Context(), noon, w.NamespaceID)
			w.ok(err)
		}},
		{"PurgeNamespace", administering, func(w *world) {
			w.useNamespace("purged")
			w.ok(w.others.DeleteNamespace(w.Context(), noon, "purged"))
			w.ok(w.repo.PurgeNamespace(w.Context(), w.NamespaceID))
		}},
	}
}

// useNamespace switches the recorded repository to a new namespace with an entity,
// limits and a bucket.
func (w *world) useNamespace(name string) {
	w.Helper()
	ns, err := w.others.RegisterNamespace(w.Context(), noon, name)
	w.ok(err)
	view := w.connect(w.config(w.Next), name)
	w.ok(view.SetConfig(w.Context(), limiter.Config{Limits: []limiter.Limit{limiter.PerMinute("rpm", 100)}}, w.event()))
	w.ok(view.CreateEntity(w.Context(), limiter.Entity{ID: "inhabitant"}, w.event()))
	w.consume(view, "inhabitant", noon.Add(time.Second))
	w.NamespaceID = ns.ID
	w.repo = w.connect(w.config(&w.Recorder), name)
	w.Take(w.T)
}

// useLeanTable switches the recorded repository to a table whose index by resource
// holds keys only, with a bucket and a snapshot.
func (w *world) useLeanTable() {
	w.Helper()
	full := w.table
	defer func() { w.table = full }()
	w.table += "-lean"
	w.ok(dynamo.CreateTable(w.Context(), w.table, &dynamo.Options{AWS: w.config(w.Next), LeanIndex: true}))
	view := w.connect(w.config(w.Next), "")
	w.ok(view.SetConfig(w.Context(), limiter.Config{Limits: []limiter.Limit{limiter.PerMinute("rpm", 100)}}, w.event()))
	w.consume(view, "lean", noon)
	_, err := w.client().PutItem(w.Context(), &dynamodb.PutItemInput{
		TableName: &w.table,
		Item: map[string]types.AttributeValue{
			"PK":     textValue(view.NamespaceID() + "/ENTITY#lean"),
			"SK":     textValue("#USAGE#" + gpt + "#2026-05-04T12:00:00Z"),
			"GSI2PK": textValue(view.NamespaceID() + "/RESOURCE#" + gpt),
			"GSI2SK": textValue("USAGE#2026-05-04T12:00:00Z#lean"),
		},
	})
	w.ok(err)
	w.NamespaceID = view.NamespaceID()
	w.repo = w.connect(w.config(&w.Recorder), "")
	w.Take(w.T)
}

func historyOperations() []operation {
	return []operation{
		{"AuditEvents", reading, func(w *world) { drain(w, w.repo.AuditEvents(w.Context(), "world", "")) }},
		{"Usage: of an entity", reading, func(w *world) {
			drain(w, w.repo.Usage(w.Context(), limiter.UsageQuery{Entity: "first"}))
		}},
		{"Usage: of a resource", reading, func(w *world) {
			drain(w, w.repo.Usage(w.Context(), limiter.UsageQuery{Resource: gpt}))
		}},
		{"Usage: of a resource with a lean index", reading, func(w *world) {
			w.useLeanTable()
			drain(w, w.repo.Usage(w.Context(), limiter.UsageQuery{Resource: gpt}))
		}},
	}
}

// tableOperations returns operations on the whole table, and those besides the port.
func tableOperations() []operation {
	return slices.Concat([]operation{
		{"Connect", reading + applying, func(w *world) { w.connect(w.config(&w.Recorder), "") }},
		{"Connect: to the table itself", reading + applying + " aggr", func(w *world) {
			w.connect(w.config(&w.Recorder), "_")
		}},
		{"Ping", reading + applying, func(w *world) { w.ok(w.repo.Ping(w.Context())) }},
		{"Version", reading + applying, func(w *world) {
			_, err := w.repo.Version(w.Context())
			w.ok(err)
		}},
		{"Follow", administering, func(w *world) {
			w.ok(w.repo.Follow(w.Context(), &dynamo.FollowOptions{UntilEmpty: true},
				func(_ context.Context, records []dynamo.StreamRecord) (int, error) {
					return len(records), nil
				}))
		}},
		{"PendingMigrations", "acq full read", func(w *world) {
			_, err := dynamo.PendingMigrations(w.Context(), w.table, w.migration())
			w.ok(err)
		}},
		{"Migrate", administering, func(w *world) {
			_, err := w.client().PutItem(w.Context(), &dynamodb.PutItemInput{
				TableName: &w.table,
				Item: map[string]types.AttributeValue{
					"PK":        &types.AttributeValueMemberS{Value: "ENTITY#old"},
					"SK":        &types.AttributeValueMemberS{Value: "#META"},
					"entity_id": &types.AttributeValueMemberS{Value: "old"},
				},
			})
			w.ok(err)
			_, err = dynamo.Migrate(w.Context(), w.table, w.migration())
			w.ok(err)
		}},
		{"DescribeTable", "full read", func(w *world) { // by status
			_, err := dynamodb.NewFromConfig(*w.config(&w.Recorder)).DescribeTable(w.Context(),
				&dynamodb.DescribeTableInput{TableName: &w.table})
			w.ok(err)
		}},
	}, provisionOperations(), streamOperations())
}

func (w *world) migration() *dynamo.MigrateOptions {
	return &dynamo.MigrateOptions{Options: dynamo.Options{AWS: w.config(&w.Recorder)}, All: true, DeleteOriginals: true}
}

// calls holds recorded calls by operation.
type calls map[string][]fakeaws.Call

// String returns the text of testdata/calls.txt: each operation, followed by its
// distinct calls.
func (c calls) String() string {
	var b strings.Builder
	for _, o := range operations() {
		fmt.Fprintln(&b, o.name)
		var lines []string
		for _, call := range c[o.name] {
			lines = append(lines, "\t"+call.String())
		}
		slices.Sort(lines)
		for _, line := range slices.Compact(lines) {
			fmt.Fprintln(&b, line)
		}
	}
	return b.String()
}

// parseCalls parses the text that String returns.
func parseCalls(recorded string) calls {
	all := calls{}
	name := ""
	for line := range strings.Lines(recorded) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "\t"); ok {
			all[name] = append(all[name], fakeaws.ParseCall(rest))
		} else {
			name, all[line] = line, nil
		}
	}
	return all
}
