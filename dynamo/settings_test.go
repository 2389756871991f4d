package dynamo_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// recordedTable returns a table with all recorded items of a release.
func recordedTable(t *testing.T, version string) (table string, opts *dynamo.Options) {
	t.Helper()
	table, opts = dynamotest.NewTable(t), &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}
	putRecorded(t, table, recorded(t, version, activeID(t, dynamotest.Connect(t, table, opts), "default"))...)
	return table, opts
}

// plainLevels returns the levels that the record of every release has.
func plainLevels() []limiter.Config {
	return []limiter.Config{
		{Limits: []limiter.Limit{limiter.PerMinute("rpm", 60)}, OnUnavailable: limiter.Block},
		{Scope: limiter.Scope{Resource: "gpt-3"}, Limits: []limiter.Limit{limiter.Custom("odd", 7, 3, 90*time.Second)}},
		{
			Scope:  limiter.Scope{Resource: "gpt-4"},
			Limits: []limiter.Limit{limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 10_000).WithBurst(15_000)},
		},
		{
			Scope:  limiter.Scope{Entity: "key-1", Resource: "gpt-4"},
			Limits: []limiter.Limit{limiter.PerHour("rph", 500)},
		},
		{Scope: limiter.Scope{Entity: "project"}, Limits: []limiter.Limit{limiter.PerDay("tpd", 1_000_000)}},
	}
}

func plainEntities() []limiter.Entity {
	return []limiter.Entity{
		{ID: "project", Name: "The project", Metadata: map[string]string{"team": "search", "cost centre": "4711"}},
		{ID: "key-1", Name: "Key 1", Parent: "project", Cascade: true},
		{ID: "key-2", Name: "key-2", Parent: "project"},
	}
}

func TestReadSettingsOfPython0101(t *testing.T) {
	t.Parallel()
	table, opts := recordedTable(t, "0.10.1")
	err := connectError(t, table, opts)
	checkError(t, err, "schema 0.9.0", "exactly 0.10.0", "dynamo.ReadSettings("+table+" us-east-1 http")

	got, err := dynamo.ReadSettings(t.Context(), table, opts)
	must(t, err)
	want := &dynamo.Settings{Namespace: "default", Schema: "0.9.0", Levels: plainLevels(), Entities: plainEntities()}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(limiter.Entity{}, "CreatedAt")); diff != "" {
		t.Error(diff)
	}

	tenant := *opts
	tenant.Namespace = "tenant-b"
	got, err = dynamo.ReadSettings(t.Context(), table, &tenant)
	must(t, err)
	want = &dynamo.Settings{Namespace: "tenant-b", Schema: "0.9.0", Levels: []limiter.Config{
		{Scope: limiter.Scope{Resource: "gpt-4"}, Limits: []limiter.Limit{limiter.PerMinute("rpm", 5)}},
	}}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestReadSettingsOfPython0170(t *testing.T) {
	t.Parallel()
	table, opts := recordedTable(t, "0.17.0")
	checkError(t, connectError(t, table, opts), "schema 0.10.0", "exactly 0.10.0")

	got, err := dynamo.ReadSettings(t.Context(), table, opts)
	must(t, err)
	one := func(resource string, limits ...limiter.Limit) limiter.Config {
		return limiter.Config{Scope: limiter.Scope{Resource: resource}, Limits: limits}
	}
	plain := plainLevels()
	want := &dynamo.Settings{
		Namespace: "default", Schema: "0.10.0",
		Levels: []limiter.Config{
			plain[0],
			one("cascading", limiter.PerMinute("rpm", 1)), one("free", limiter.PerMinute("rpm", 1)),
			plain[1], plain[2],
			one("off", limiter.PerMinute("rpm", 1)),
			one("quotas", limiter.Quota("daily", 100, limiter.EveryDay), limiter.Quota("hourly", 10, limiter.EveryHour),
				limiter.Quota("monthly", 1000, limiter.EveryMonth), limiter.Quota("weekly", 500, limiter.EveryWeek),
				limiter.Quota("yearly", 5000, limiter.EveryYear)),
			one("soft", limiter.PerMinute("rpm", 30).Shadow(), limiter.PerMinute("tpm", 300)),
			one("timed", limiter.PerMinute("rpm", 40)),
			one("zoned", limiter.Quota("monthly", 1000, limiter.EveryMonth).In("Europe/Berlin")),
			plain[3], plain[4],
		},
		Disabled: []limiter.Scope{{Resource: "off"}, {Entity: "key-1", Resource: "gpt-3"}, {Entity: "key-2"}},
		LeftOut: []string{
			"resource cascading: decides about cascading; here the record of an entity decides",
			`resource free: has the switch "bypass", which admits every call; no switch here does`,
			`resource quotas: limit fiscal starts anew by cron "30 6 15 */3 *" in zone UTC, which is not the start of an hour, day, week, month or year; the limit is left out`,
			"resource quotas: limit rolling starts anew 18000 seconds after its first use; the limit is left out",
			"resource timed: limit rpm changes by a schedule; its numbers outside of the schedule are exported",
			"entity key-2 and resource gpt-3: decides about cascading; here the record of an entity decides",
			`entity loner and resource gpt-4: has the switch "bypass", which admits every call; no switch here does`,
			"entity project and resource off: is enabled in spite of switches above it; a switch here has no " +
				"exceptions",
		},
	}
	entities := plainEntities()
	want.Entities = []limiter.Entity{
		entities[0], entities[1],
		{ID: "grandchild", Name: "grandchild", Parent: "key-1", Cascade: true},
		entities[2],
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(limiter.Entity{}, "CreatedAt")); diff != "" {
		t.Error(diff)
	}
}

// What this package stores reads as it was stored.
func TestReadSettingsOfThisPackage(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	opts := &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}
	repo := dynamotest.Connect(t, table, opts)
	limits := []limiter.Limit{
		limiter.Quota("m", 5, limiter.EveryMonth).In("Asia/Tokyo").Shadow(), limiter.PerMinute("rpm", 7),
	}
	setDefaults(t, repo, limits...)
	must(t, repo.CreateEntity(t.Context(), limiter.Entity{ID: "e", Name: "E"}, auditEvent("entity_created")))

	got, err := dynamo.ReadSettings(t.Context(), table, opts)
	must(t, err)
	if len(got.Levels) != 1 || len(got.LeftOut) > 0 || len(got.Entities) != 1 || got.Schema != dynamo.SchemaVersion {
		t.Fatalf("%+v", got)
	}
	if diff := cmp.Diff(limits, got.Levels[0].Limits); diff != "" {
		t.Error(diff)
	}

	storeItem(t, table, attributes{"PK": "S:_/SYSTEM#", "SK": "S:#VERSION", "schema_version": "S:0.11.0"})
	if _, err := dynamo.ReadSettings(t.Context(), table, opts); !isError[*limiter.VersionError](err) {
		t.Error(err)
	}
}

func TestReadSettingsNamesUnknownAttributes(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	opts := &dynamo.Options{AWS: dynamotest.Config(dynamotest.Endpoint(t))}
	id := activeID(t, dynamotest.Connect(t, table, opts), "default")
	storeItem(t, table, attributes{
		"PK": "S:" + id + "/RESOURCE#x", "SK": "S:#CONFIG", "GSI4PK": "S:" + id, "GSI4SK": "S:" + id + "/RESOURCE#x",
		"l_a_cp": "N:1", "l_a_ra": "N:1", "l_a_rp": "N:60", "l_a_odd": "N:3", "tier": "S:gold",
	})
	got, err := dynamo.ReadSettings(t.Context(), table, opts)
	must(t, err)
	want := []string{
		"resource x: attribute l_a_odd is unknown; it is left out",
		"resource x: attribute tier is unknown; it is left out",
	}
	if diff := cmp.Diff(want, got.LeftOut); diff != "" {
		t.Error(diff)
	}
}
