package dynamo_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// oldLimit returns a limit as stored before 0.8.0.
func oldLimit(name, burst, refill, seconds string) attributes {
	return attributes{
		"limit_name": "S:" + name, "burst": "N:" + burst, "capacity": "N:" + refill, "refill_amount": "N:" + refill,
		"refill_period_seconds": "N:" + seconds,
	}
}

// oldLimits returns limits of all levels in the old form, and the items after
// the migration.
func oldLimits() (before, after map[string]attributes) {
	ofEntity := func(resource string) attributes {
		return attributes{"entity_id": "S:key-1", "resource": "S:" + resource}
	}
	system := attributes{"GSI4PK": "S:default", "GSI4SK": "S:default/SYSTEM#"}
	before = map[string]attributes{
		"_/SYSTEM# #VERSION":         versionRecordOf("0.7.0"),
		"default/SYSTEM# #CONFIG":    {"on_unavailable": "S:allow", "audit_retention_days": "N:30"},
		"default/SYSTEM# #LIMIT#rpm": oldLimit("rpm", "100", "50", "60"),
		"default/SYSTEM# #LIMIT#tpm": oldLimit("tpm", "15000", "10000", "60"),
		"default/SYSTEM# #LIMIT#odd": {"something": "S:else"},
		"default/RESOURCE#a/b #LIMIT#rpm": with(oldLimit("rpm", "7", "7", "1"),
			attributes{"resource": "S:a/b"}),
		"default/RESOURCE#set #CONFIG": {
			"resource": "S:set", "l_new_cp": "N:1", "l_new_ra": "N:1", "l_new_rp": "N:1",
		},
		"default/RESOURCE#set #LIMIT#old": with(oldLimit("old", "9", "9", "9"),
			attributes{"resource": "S:set"}),
		"default/ENTITY#key-1 #META":                {"entity_id": "S:key-1"},
		"default/ENTITY#key-1 #LIMIT#gpt-4#rpm":     with(oldLimit("rpm", "10", "10", "60"), ofEntity("gpt-4")),
		"default/ENTITY#key-1 #LIMIT#gpt-4#t.p-m":   with(oldLimit("t.p-m", "30", "20", "60"), ofEntity("gpt-4")),
		"default/ENTITY#key-1 #LIMIT#_default_#rpm": with(oldLimit("rpm", "5", "5", "60"), ofEntity("_default_")),
		"elsewhere/SYSTEM# #LIMIT#rpm":              oldLimit("rpm", "1", "1", "1"),
	}
	config := func(resource string, limits attributes) attributes {
		return with(limits, attributes{
			"entity_id": "S:key-1", "resource": "S:" + resource, "config_version": "N:1",
			"GSI3PK": "S:default/ENTITY_CONFIG#" + resource, "GSI3SK": "S:key-1", "GSI4PK": "S:default",
			"GSI4SK": "S:default/ENTITY#key-1",
		})
	}
	after = map[string]attributes{
		"_/SYSTEM# #VERSION": migrated(before["_/SYSTEM# #VERSION"]),
		"default/SYSTEM# #CONFIG": with(system, attributes{
			"on_unavailable": "S:allow", "audit_retention_days": "N:30", "config_version": "N:1",
			"l_rpm_cp": "N:100", "l_rpm_ra": "N:50", "l_rpm_rp": "N:60", "l_tpm_cp": "N:15000",
			"l_tpm_ra": "N:10000", "l_tpm_rp": "N:60",
		}),
		"default/SYSTEM# #RESOURCES":               with(system, attributes{"resources": "SS:a/b"}),
		"default/SYSTEM# #ENTITY_CONFIG_RESOURCES": with(system, attributes{"gpt-4": "N:1", "_default_": "N:1"}),
		"default/RESOURCE#a/b #CONFIG": {
			"resource": "S:a/b", "config_version": "N:1", "l_rpm_cp": "N:7", "l_rpm_ra": "N:7", "l_rpm_rp": "N:1",
			"GSI4PK": "S:default", "GSI4SK": "S:default/RESOURCE#a/b",
		},
		"default/ENTITY#key-1 #CONFIG#gpt-4": config("gpt-4", attributes{
			"l_rpm_cp": "N:10", "l_rpm_ra": "N:10", "l_rpm_rp": "N:60", "l_t.p-m_cp": "N:30", "l_t.p-m_ra": "N:20",
			"l_t.p-m_rp": "N:60",
		}),
		"default/ENTITY#key-1 #CONFIG#_default_": config("_default_", attributes{
			"l_rpm_cp": "N:5", "l_rpm_ra": "N:5", "l_rpm_rp": "N:60",
		}),
	}
	for _, same := range []string{
		"default/SYSTEM# #LIMIT#odd", "default/RESOURCE#set #CONFIG", "default/ENTITY#key-1 #META",
		"elsewhere/SYSTEM# #LIMIT#rpm",
	} {
		after[same] = before[same]
	}
	return before, after
}

func TestOldLimitsBecomeConfigs(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	before, after := oldLimits()
	o.load(before)
	o.migrate(o.options(), "0.8.0")
	o.check(after)
	o.migrate(o.options())
	o.check(after)
	all := o.options()
	all.All = true
	o.migrate(all, "0.8.0", "0.10.0")
	again := o.items()
	delete(again, "_/SYSTEM# #NAMESPACE#default")
	delete(again, "_/SYSTEM# #NSID#{ns}")
	if diff := cmp.Diff(after, again); diff != "" {
		t.Error(diff)
	}
}

func TestOldLimitsSurviveAMigrationKilledAnywhere(t *testing.T) {
	t.Parallel()
	before, after := oldLimits()
	newOldTable(t).checkSurvivesKills(before, after, dynamo.MigrateOptions{})
}

func TestOldLimitsInUnprocessedBatchesAreDeletedToo(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	before, after := oldLimits()
	o.load(before)
	opts := o.options()
	p := dynamotest.NewProxy(t, dynamotest.First(2, "BatchWriteItem", dynamotest.Unprocessed))
	opts.Options.AWS = dynamotest.Config(p.URL)
	o.migrate(opts, "0.8.0")
	if p.Count(dynamotest.Unprocessed) != 2 {
		t.Error("no batch was cut")
	}
	o.check(after)
}

func TestAnOldLimitThatCannotBeStopsTheMigration(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	bad := map[string]attributes{
		"_/SYSTEM# #VERSION":         versionRecordOf("0.7.0"),
		"default/SYSTEM# #LIMIT#rpm": oldLimit("rpm", "100", "0", "60"),
	}
	o.load(bad)
	applied, err := dynamo.Migrate(t.Context(), o.name, o.options())
	stopped, ok := errors.AsType[*dynamo.MigrationError](err)
	if !ok || stopped.Version != "0.8.0" || len(stopped.Applied) != 0 || len(applied) != 0 ||
		!isError[*limiter.CorruptError](err) {
		t.Errorf("%v, %v", applied, err)
	}
	checkError(t, err, "0.8.0", "default/SYSTEM# #LIMIT#rpm")
	o.check(bad)
}

// oldKeys returns a table from before 0.8.0 without namespaces, and the items
// after the migration.
func oldKeys() (before, after map[string]attributes) {
	own := func(pk string) attributes { return attributes{"GSI4PK": "S:{ns}", "GSI4SK": "S:{ns}/" + pk} }
	before = map[string]attributes{
		"SYSTEM# #VERSION":                 with(versionRecordOf("0.7.0"), attributes{"updated_by": "NULL"}),
		"SYSTEM# #LIMIT#rpm":               oldLimit("rpm", "100", "50", "60"),
		"SYSTEM# #RESOURCES":               {"resources": "SS:a/b,forgotten"},
		"SYSTEM# #ENTITY_CONFIG_RESOURCES": {"gpt-4": "N:7"},
		"RESOURCE#a/b #CONFIG":             {"resource": "S:a/b", "l_rpm_cp": "N:7"},
		"ENTITY#key-1 #META": {
			"entity_id": "S:key-1", "parent_id": "S:p", "GSI1PK": "S:PARENT#p", "GSI1SK": "S:CHILD#key-1",
		},
		"ENTITY#key-1 #CONFIG#gpt-4": {
			"entity_id": "S:key-1", "resource": "S:gpt-4", "l_rpm_cp": "N:1", "GSI3PK": "S:ENTITY_CONFIG#gpt-4",
			"GSI3SK": "S:key-1",
		},
		"ENTITY#key-2 #CONFIG#gpt-4": {"entity_id": "S:key-2", "resource": "S:gpt-4", "l_rpm_cp": "N:1"},
		"ENTITY#key-1 #BUCKET#a/b": {
			"b_rpm_tk": "N:-1500", "rf": "N:1700000000000", "ttl": "N:9900000000", "GSI2PK": "S:RESOURCE#a/b",
			"GSI2SK": "S:BUCKET#key-1",
		},
		"AUDIT#$SYSTEM #AUDIT#01": {"action": "S:limits_set", "details": "M:{limits NULL}", "principal": "NULL"},
		"nothing of ours":         {"like": "S:a/b"},
	}
	after = map[string]attributes{
		"_/SYSTEM# #VERSION": with(before["SYSTEM# #VERSION"],
			attributes{"schema_version": "S:0.8.0"}),
		"_/SYSTEM# #NAMESPACE#default": newNamespaceRecord(),
		"_/SYSTEM# #NSID#{ns}":         newNamespaceRecord(),
		"{ns}/SYSTEM# #CONFIG": with(own("SYSTEM#"), attributes{
			"config_version": "N:1", "l_rpm_cp": "N:100", "l_rpm_ra": "N:50", "l_rpm_rp": "N:60",
		}),
		"{ns}/SYSTEM# #RESOURCES":               with(own("SYSTEM#"), attributes{"resources": "SS:a/b"}),
		"{ns}/SYSTEM# #ENTITY_CONFIG_RESOURCES": with(own("SYSTEM#"), attributes{"gpt-4": "N:2"}),
		"nothing of ours":                       before["nothing of ours"],
	}
	prefixed := map[string]attributes{
		"ENTITY#key-1 #META":         {"GSI1PK": "S:{ns}/PARENT#p"},
		"ENTITY#key-1 #CONFIG#gpt-4": {"GSI3PK": "S:{ns}/ENTITY_CONFIG#gpt-4"},
		"ENTITY#key-2 #CONFIG#gpt-4": {"GSI3PK": "S:{ns}/ENTITY_CONFIG#gpt-4", "GSI3SK": "S:key-2"},
		"ENTITY#key-1 #BUCKET#a/b":   {"GSI2PK": "S:{ns}/RESOURCE#a/b"},
		"RESOURCE#a/b #CONFIG":       {},
		"AUDIT#$SYSTEM #AUDIT#01":    {},
	}
	for k, more := range prefixed {
		pk, _, _ := strings.Cut(k, " ")
		after["{ns}/"+k] = with(with(before[k], own(pk)), more)
	}
	maps.Copy(after, before)
	after["SYSTEM# #VERSION"] = with(before["SYSTEM# #VERSION"], attributes{"moved_to": "S:{ns}"})
	return before, after
}

func newNamespaceRecord() attributes {
	it := namespaceRecord("", "{ns}", "default", "S:now")
	delete(it, "PK")
	delete(it, "SK")
	return it
}

// withoutOriginals returns the items that are left after the originals are
// deleted.
func withoutOriginals(after, originals map[string]attributes) map[string]attributes {
	rest := maps.Clone(after)
	for k := range originals {
		if k != "nothing of ours" {
			delete(rest, k)
		}
	}
	return rest
}

func TestItemsWithoutANamespaceMoveToTheDefaultOne(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	before, after := oldKeys()
	o.load(before)
	pending, err := dynamo.PendingMigrations(t.Context(), o.name, o.options())
	if err != nil || len(pending) != 2 || pending[1].Description == "" {
		t.Error(pending, err)
	}
	o.migrate(o.options(), "0.8.0", "0.10.0")
	o.check(after)
	o.migrate(o.options())
	o.check(after)
	opts := o.options()
	opts.DeleteOriginals = true
	o.migrate(opts, "0.10.0")
	o.check(withoutOriginals(after, before))
	o.migrate(opts)
	dynamotest.Connect(t, o.name, nil)
}

func TestMovedItemsSurviveAMigrationKilledAnywhere(t *testing.T) {
	t.Parallel()
	before, after := oldKeys()
	newOldTable(t).checkSurvivesKills(before, withoutOriginals(after, before),
		dynamo.MigrateOptions{DeleteOriginals: true})
}

func TestWhatNewerClientsStoredIsNotOverwritten(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	before, after := oldKeys()
	const id = "AAAAAAAAAAA"
	inPlace := map[string]attributes{
		"_/SYSTEM# #VERSION":                     versionRecordOf("0.8.0"),
		"_/SYSTEM# #NAMESPACE#default":           namespaceRecord("", id, "default", longAgo),
		"_/SYSTEM# #NSID#" + id:                  namespaceRecord("", id, "default", longAgo),
		id + "/ENTITY#key-1 #BUCKET#a/b":         {"b_rpm_tk": "N:5", "rf": "N:1800000000000"},
		id + "/SYSTEM# #ENTITY_CONFIG_RESOURCES": {"gpt-4": "N:1"},
	}
	o.load(merged(before, inPlace))
	o.migrate(o.options(), "0.10.0")
	got := o.items()
	for k, it := range inPlace {
		k = strings.ReplaceAll(k, id, "{ns}")
		if strings.Contains(k, "#ENTITY_CONFIG") {
			it = attributes{"gpt-4": "N:3", "GSI4PK": "S:{ns}", "GSI4SK": "S:{ns}/SYSTEM#"}
		}
		it = maps.Clone(it)
		delete(it, "PK")
		delete(it, "SK")
		if it["namespace_id"] != "" {
			it["namespace_id"] = "S:{ns}"
		}
		after[k] = it
	}
	if diff := cmp.Diff(after, got); diff != "" {
		t.Error(diff)
	}
}

// merged returns the items of a and b; b takes precedence.
func merged(a, b map[string]attributes) map[string]attributes {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

func TestOriginalsWithoutACopyStay(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	before, after := oldKeys()
	o.load(before)
	o.migrate(o.options(), "0.8.0", "0.10.0")
	late := attributes{"entity_id": "S:late"}
	o.load(merged(o.dump(), map[string]attributes{
		"ENTITY#late #META":           late,
		"ENTITY#late #BUCKET#expired": {"ttl": "N:1"},
	}))
	var last dynamo.Progress
	opts := o.options()
	opts.DeleteOriginals = true
	opts.Progress = func(p dynamo.Progress) { last = p }
	o.migrate(opts, "0.10.0")
	if last.Kept != 1 || !last.Done || last.Version != "0.10.0" || last.Items == 0 {
		t.Errorf("%+v", last)
	}
	want := withoutOriginals(after, before)
	want["ENTITY#late #META"], want["SYSTEM# #VERSION"] = late, after["SYSTEM# #VERSION"]
	o.check(want)
}

// dump returns the stored items in the form of load.
func (o *oldTable) dump() map[string]attributes {
	o.Helper()
	items := tableItems(o.T, o.name)
	for _, it := range items {
		delete(it, "PK")
		delete(it, "SK")
	}
	return items
}
