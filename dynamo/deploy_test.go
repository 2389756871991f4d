package dynamo_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

var deployedAt = time.Date(2026, 3, 4, 5, 6, 7, 890, time.UTC)

func TestADeploymentIsRecorded(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	r := dynamotest.Connect(t, o.name, &tableOptions)
	index := attributes{"GSI4PK": "S:_", "GSI4SK": "S:_/SYSTEM#"}
	deployed := attributes{
		"lambda_version": "NULL", "updated_by": "S:cli:1.2.3", "updated_at": "S:2026-03-04T05:06:07Z",
	}
	for name, c := range map[string]struct{ before, after map[string]attributes }{
		"a new table": {
			nil,
			map[string]attributes{"_/SYSTEM# #VERSION": with(with(index, deployed), attributes{
				"schema_version": "S:0.8.0", "client_min_version": "S:0.0.0",
			})},
		},
		"Python's, with its function": {
			map[string]attributes{"_/SYSTEM# #VERSION": with(versionRecordOf("0.8.0"), attributes{"more": "S:kept"})},
			map[string]attributes{"_/SYSTEM# #VERSION": with(with(versionRecordOf("0.8.0"), deployed),
				attributes{"more": "S:kept"})},
		},
		"of an older schema, which only a migration raises": {
			map[string]attributes{"_/SYSTEM# #VERSION": versionRecordOf("0.7.0")},
			map[string]attributes{"_/SYSTEM# #VERSION": with(versionRecordOf("0.7.0"), deployed)},
		},
		"without a schema": {
			map[string]attributes{"_/SYSTEM# #VERSION": {"client_min_version": "S:0.0.0"}},
			nil,
		},
		"without namespaces": {
			map[string]attributes{"SYSTEM# #VERSION": versionRecordOf("0.7.0")},
			map[string]attributes{"SYSTEM# #VERSION": versionRecordOf("0.7.0")},
		},
	} {
		o.load(c.before)
		err := r.RecordDeployment(t.Context(), deployedAt, "cli:1.2.3")
		if c.after == nil {
			if !isError[*limiter.VersionError](err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		must(t, err)
		stored := tableItems(t, o.name)
		for _, it := range stored {
			delete(it, "PK")
			delete(it, "SK")
		}
		if diff := cmp.Diff(c.after, stored); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestADeploymentIsRecordedBesideOthers(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	o.load(map[string]attributes{"_/SYSTEM# #VERSION": versionRecordOf("0.7.0")})
	meanwhile := false
	p := dynamotest.NewProxy(t, func(op string, _ []byte) dynamotest.Fault {
		if op == "UpdateItem" && !meanwhile {
			meanwhile = true
			storeItem(t, o.name, with(versionRecordOf("0.8.0"), attributes{"PK": "S:_/SYSTEM#", "SK": "S:#VERSION"}))
		}
		return dynamotest.Pass
	})
	r := dynamotest.Connect(t, o.name, &dynamo.Options{Namespace: "_", AWS: dynamotest.Config(p.URL)})
	must(t, r.RecordDeployment(t.Context(), deployedAt, "cli:1.2.3"))
	got, err := r.Version(t.Context())
	must(t, err)
	want := dynamo.Version{
		Schema: "0.8.0", ClientMin: "0.5.0", UpdatedBy: "cli:1.2.3",
		UpdatedAt: deployedAt.Truncate(time.Second),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestADeploymentOnANewerTableIsRefused(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	r := dynamotest.Connect(t, o.name, &tableOptions)
	for _, k := range []string{"_/SYSTEM# #VERSION", "SYSTEM# #VERSION"} {
		before := map[string]attributes{k: versionRecordOf("0.9.0")}
		o.load(before)
		if err := r.RecordDeployment(t.Context(), deployedAt, "cli:1.2.3"); !isError[*limiter.VersionError](err) {
			t.Errorf("%s: %v", k, err)
		}
		o.check(before)
	}
}

func TestAuditRetentionIsOfOneNamespace(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	r := dynamotest.Connect(t, table, nil)
	other, err := r.RegisterNamespace(t.Context(), deployedAt, "team-a")
	must(t, err)
	lim, err := limiter.New(r, nil)
	must(t, err)
	must(t, lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 10)))
	must(t, r.SetAuditRetention(t.Context(), deployedAt, 7))
	must(t, r.SetAuditRetention(t.Context(), deployedAt, 30))
	must(t, lim.SetSystemDefaults(t.Context(), limiter.PerMinute("rpm", 20)))
	items := tableItems(t, table)
	system := items[r.NamespaceID()+"/SYSTEM# #CONFIG"]
	if system["audit_retention_days"] != "N:30" || system["l_rpm_cp"] != "N:20" ||
		system["GSI4PK"] != "S:"+r.NamespaceID() {
		t.Error(system)
	}
	if it, ok := items[other.ID+"/SYSTEM# #CONFIG"]; ok {
		t.Error(it)
	}
	for event, err := range lim.AuditEvents(t.Context(), "$SYSTEM", "") {
		must(t, err)
		it := items[r.NamespaceID()+"/AUDIT#$SYSTEM #AUDIT#"+event.ID]
		if want := fmt.Sprintf("N:%d", event.At.AddDate(0, 0, 30).Unix()); it["ttl"] != want {
			t.Errorf("ttl %s, want %s", it["ttl"], want)
		}
		break // the newest
	}
}

func TestAuditRetentionNeedsDaysAndANamespace(t *testing.T) {
	t.Parallel()
	r := dynamotest.Connect(t, dynamotest.NewTable(t), nil)
	for _, days := range []int{0, -1} {
		if err := r.SetAuditRetention(t.Context(), deployedAt, days); !isError[*limiter.InvalidError](err) {
			t.Errorf("%d days: %v", days, err)
		}
	}
	must(t, r.DeleteNamespace(t.Context(), deployedAt, "default"))
	if err := r.SetAuditRetention(t.Context(), deployedAt, 7); !errors.Is(err, limiter.ErrNotFound) {
		t.Error(err)
	}
}

func TestNamesComeFromTheEnvironment(t *testing.T) {
	t.Setenv("ZAEL_STACK", "")
	t.Setenv("ZAEL_NAMESPACE", "")
	if table, space := dynamo.TableName(""), dynamo.NamespaceName(""); table != "zae-limiter" || space != "default" {
		t.Error(table, space)
	}
	t.Setenv("ZAEL_STACK", "my-app")
	t.Setenv("ZAEL_NAMESPACE", "team-a")
	if table, space := dynamo.TableName(""), dynamo.NamespaceName(""); table != "my-app" || space != "team-a" {
		t.Error(table, space)
	}
	if table, space := dynamo.TableName("x"), dynamo.NamespaceName("y"); table != "x" || space != "y" {
		t.Error(table, space)
	}
}

// Python stores NULL for an unknown author, never an empty string.
func TestADeploymentByAnUnknownAuthorIsNull(t *testing.T) {
	t.Parallel()
	o := newOldTable(t)
	r := dynamotest.Connect(t, o.name, &tableOptions)
	for name, before := range map[string]map[string]attributes{
		"a new table":   nil,
		"with a record": {"_/SYSTEM# #VERSION": versionRecordOf("0.8.0")},
	} {
		o.load(before)
		must(t, r.RecordDeployment(t.Context(), deployedAt, ""))
		if by := tableItems(t, o.name)["_/SYSTEM# #VERSION"]["updated_by"]; by != "NULL" {
			t.Errorf("%s: updated_by is %v, want NULL", name, by)
		}
	}
}

func TestVersionIsTheStoredRecord(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	full := attributes{
		"schema_version": "S:0.8.0", "client_min_version": "S:0.1.0", "lambda_version": "S:0.10.2",
		"updated_by": "S:cli:0.10.2", "updated_at": "S:2026-02-03T04:05:06Z",
	}
	part := attributes{
		"schema_version": "S:0.8.0", "lambda_version": "NULL", "updated_by": "NULL", "updated_at": "S:once",
	}
	r := dynamotest.Connect(t, table, nil)
	for _, c := range []struct {
		stored attributes
		want   dynamo.Version
	}{
		{full, dynamo.Version{
			Schema: "0.8.0", ClientMin: "0.1.0", Lambda: "0.10.2", UpdatedBy: "cli:0.10.2",
			UpdatedAt: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
		}},
		{part, dynamo.Version{Schema: "0.8.0"}},
		{nil, dynamo.Version{}},
	} {
		record := attributes{"PK": "S:_/SYSTEM#", "SK": "S:#VERSION"}
		maps.Copy(record, c.stored)
		storeItem(t, table, record)
		got, err := r.Version(t.Context())
		must(t, err)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	}
	deleteRecord(t, table, "#VERSION")
	_, err := r.Version(t.Context())
	if !errors.Is(err, limiter.ErrNotFound) {
		t.Fatal(err)
	}
	checkError(t, err, table)
}

func TestVersionOfANewTable(t *testing.T) {
	t.Parallel()
	r := dynamotest.Connect(t, dynamotest.NewTable(t), &tableOptions) // every namespace has it
	got, err := r.Version(t.Context())
	must(t, err)
	if got.UpdatedAt.IsZero() {
		t.Error("UpdatedAt is zero")
	}
	got.UpdatedAt = time.Time{}
	if diff := cmp.Diff(
		dynamo.Version{Schema: "0.8.0", ClientMin: "0.0.0", UpdatedBy: "client:0.10.0"}, got,
	); diff != "" {
		t.Error(diff)
	}
	must(t, r.Close())
	if _, err := r.Version(t.Context()); !errors.Is(err, limiter.ErrClosed) {
		t.Error(err)
	}
}
