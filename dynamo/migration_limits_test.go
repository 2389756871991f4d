package dynamo_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// oldLimit is a limit as it was stored before 0.8.0.
func oldLimit(name, burst, refill, seconds string) attributes {
	return attributes{
		"limit_name": "S:" + name, "burst": "N:" + burst, "capacity": "N:" + refill, "refill_amount": "N:" + refill, "refill_period_seconds": "N:" + seconds,
	}
}

// oldLimits are limits of all levels in the old form, and what they become.
func oldLimits() (before, after map[string]attributes) {
	ofEntity := func(resource string) attributes {
		return attributes{"entity_id": "S:key-1", "resource": "S:" + resource}
	}
	system := attributes{"GSI4PK": "S:default", "GSI4SK": "S:default/SYSTEM#"}
	before = map[string]attributes{
		"_/SYSTEM# #VERSION":                        versionRecordOf("0.7.0"),
		"default/SYSTEM# #CONFIG":                   {"on_unavailable": "S:allow", "audit_retention_days": "N:30"},
		"default/SYSTEM# #LIMIT#rpm":                oldLimit("rpm", "100", "50", "60"),
		"default/SYSTEM# #LIMIT#tpm":                oldLimit("tpm", "15000", "10000", "60"),
		"default/SYSTEM# #LIMIT#odd":                {"something": "S:else"},
		"default/RESOURCE#a/b #LIMIT#rpm":           with(oldLimit("rpm", "7", "7", "1"), attributes{"resource": "S:a/b"}),
		"default/RESOURCE#set #CONFIG":              {"resource": "S:set", "l_new_cp": "N:1", "l_new_ra": "N:1", "l_new_rp": "N:1"},
		"default/RESOURCE#set #LIMIT#old":           with(oldLimit("old", "9", "9", "9"), attributes{"resource": "S:set"}),
		"default/ENTITY#key-1 #META":                {"entity_id": "S:key-1"},
		"default/ENTITY#key-1 #LIMIT#gpt-4#rpm":     with(oldLimit("rpm", "10", "10", "60"), ofEntity("gpt-4")),
		"default/ENTITY#key-1 #LIMIT#gpt-4#t.p-m":   with(oldLimit("t.p-m", "30", "20", "60"), ofEntity("gpt-4")),
		"default/ENTITY#key-1 #LIMIT#_default_#rpm": with(oldLimit("rpm", "5", "5", "60"), ofEntity("_default_")),
		"elsewhere/SYSTEM# #LIMIT#rpm":              oldLimit("rpm", "1", "1", "1"),
	}
	config := func(resource string, limits attributes) attributes {
		return with(limits, attributes{
			"entity_id": "S:key-1", "resource": "S:" + resource, "config_version": "N:1",
			"GSI3PK": "S:default/ENTITY_CONFIG#" + resource, "GSI3SK": "S:key-1", "GSI4PK": "S:default", "GSI4SK": "S:default/ENTITY#key-1",
		})
	}
	after = map[string]attributes{
		"_/SYSTEM# #VERSION": raised(before["_/SYSTEM# #VERSION"]),
		"default/SYSTEM# #CONFIG": with(system, attributes{
			"on_unavailable": "S:allow", "audit_retention_days": "N:30", "config_version": "N:1",
			"l_rpm_cp": "N:100", "l_rpm_ra": "N:50", "l_rpm_rp": "N:60", "l_tpm_cp": "N:15000", "l_tpm_ra": "N:10000", "l_tpm_rp": "N:60",
		}),
		"default/SYSTEM# #RESOURCES":               with(system, attributes{"resources": "SS:a/b"}),
		"default/SYSTEM# #ENTITY_CONFIG_RESOURCES": with(system, attributes{"gpt-4": "N:1", "_default_": "N:1"}),
		"default/RESOURCE#a/b #CONFIG": {
			"resource": "S:a/b", "config_version": "N:1", "l_rpm_cp": "N:7", "l_rpm_ra": "N:7", "l_rpm_rp": "N:1",
			"GSI4PK": "S:default", "GSI4SK": "S:default/RESOURCE#a/b",
		},
		"default/ENTITY#key-1 #CONFIG#gpt-4": config("gpt-4", attributes{
			"l_rpm_cp": "N:10", "l_rpm_ra": "N:10", "l_rpm_rp": "N:60", "l_t.p-m_cp": "N:30", "l_t.p-m_ra": "N:20", "l_t.p-m_rp": "N:60",
		}),
		"default/ENTITY#key-1 #CONFIG#_default_": config("_default_", attributes{"l_rpm_cp": "N:5", "l_rpm_ra": "N:5", "l_rpm_rp": "N:60"}),
	}
	for _, same := range []string{"default/SYSTEM# #LIMIT#odd", "default/RESOURCE#set #CONFIG", "default/ENTITY#key-1 #META", "elsewhere/SYSTEM# #LIMIT#rpm"} {
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
	o.holds(after)
	o.migrate(o.options())
	o.holds(after)
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
	newOldTable(t).survives(before, after, dynamo.MigrateOptions{})
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
	o.holds(after)
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
	if !ok || stopped.Version != "0.8.0" || len(stopped.Applied) != 0 || len(applied) != 0 || !isError[*limiter.CorruptError](err) {
		t.Errorf("%v, %v", applied, err)
	}
	says(t, err, "0.8.0", "default/SYSTEM# #LIMIT#rpm")
	o.holds(bad)
}
