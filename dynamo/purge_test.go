package dynamo_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// namespaceItems returns the keys of the items of a namespace.
func namespaceItems(t *testing.T, table, ns string) (left []string) {
	t.Helper()
	for k := range tableItems(t, table) {
		if strings.HasPrefix(k, ns+"/") {
			left = append(left, k)
		}
	}
	return left
}

// newDoomedNamespace creates a namespace with limits and returns it with a view
// of another process.
func newDoomedNamespace(t *testing.T, r, other *dynamo.Repository) (ns limiter.Namespace, view *dynamo.Repository) {
	t.Helper()
	ns, err := r.RegisterNamespace(t.Context(), createdAt, "doomed")
	must(t, err)
	inside, err := r.Namespace(t.Context(), "doomed")
	must(t, err)
	must(t, inside.SetConfig(t.Context(), limiter.Config{Limits: []limiter.Limit{limiter.PerMinute("rpm", 100)}},
		limiter.AuditEvent{ID: "01JP0000000000000000000001", Action: "limits_set", Entity: "$SYSTEM", At: start}))
	elsewhere, err := other.Namespace(t.Context(), "doomed")
	must(t, err)
	return ns, elsewhere.(*dynamo.Repository)
}

// A write may be in flight when the purge begins: its process had found the
// namespace active, and no condition rejects it.
func TestABucketThatWasOnItsWayDoesNotOutliveThePurge(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	sent, release := make(chan struct{}), make(chan struct{})
	slow := dynamotest.NewProxy(t, func(op string, _ []byte) dynamotest.Fault {
		if op == "PutItem" {
			close(sent)
			<-release
		}
		return dynamotest.Pass
	})
	sweeps := dynamotest.NewProxy(t, nil)
	r := dynamotest.Connect(t, table, &dynamo.Options{AWS: dynamotest.Config(sweeps.URL)})
	ns, view := newDoomedNamespace(t, r,
		dynamotest.Connect(t, table, &dynamo.Options{AWS: dynamotest.Config(slow.URL)}))

	admitted := make(chan error)
	go func() {
		_, err := view.Consume(t.Context(), start, limiter.Charge{
			Entity: "alice", Resource: "gpt-4", Amounts: limiter.Tokens("rpm", 1),
		})
		admitted <- err
	}()
	<-sent
	must(t, r.DeleteNamespace(t.Context(), deletedAt, "doomed"))
	// A sweep queries the system's partition twice, first and last.
	looks := 0
	afterSweep := dynamotest.Fault{Name: "afterSweep", Act: func(x *dynamotest.Exchange) {
		reply := x.Execute(x.Body)
		close(release)
		if err := <-admitted; err != nil {
			t.Errorf("the charge that was on its way: %v", err)
		}
		x.Answer(reply)
	}}
	sweeps.SetPlan(func(op string, body []byte) dynamotest.Fault {
		if op == "Query" && strings.Contains(string(body), ns.ID+"/SYSTEM#") {
			if looks++; looks == 2 {
				return afterSweep
			}
		}
		return dynamotest.Pass
	})
	must(t, r.PurgeNamespace(t.Context(), ns.ID))
	if sweeps.Count(afterSweep) != 1 {
		t.Fatal("the charge was never let go")
	}
	if left := namespaceItems(t, table, ns.ID); len(left) > 0 {
		t.Errorf("left after the purge: %v", left)
	}
}

// An aggregator that has counted for a namespace must not do so once another
// process has purged it.
func TestUsageDoesNotComeBackAfterAPurge(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	r := dynamotest.Connect(t, s.TableName, nil)
	ns, _ := newDoomedNamespace(t, r, r)
	u := s.Repo.UsageStore(0)
	late := s.shadowAddition(1, 3)
	late.Bucket.Namespace = ns.ID
	s.Must(u.AddUsage(t.Context(), late))
	if left := fmt.Sprint(namespaceItems(t, s.TableName, ns.ID)); !strings.Contains(left, "#SHADOW#") ||
		!strings.Contains(left, "#USAGE#") {
		t.Fatalf("counted: %s", left)
	}
	must(t, r.DeleteNamespace(t.Context(), deletedAt, "doomed"))
	must(t, r.PurgeNamespace(t.Context(), ns.ID))
	late = s.shadowAddition(2, 4)
	late.Bucket.Namespace = ns.ID
	s.Must(u.AddUsage(t.Context(), late))
	if left := namespaceItems(t, s.TableName, ns.ID); len(left) > 0 {
		t.Errorf("left after the purge: %v", left)
	}
}

func TestAPurgeWaitsForWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		opts dynamo.Options
		want time.Duration
	}{
		{dynamo.Options{}, 10 * time.Second},
		{dynamo.Options{Timeout: 30 * time.Second}, time.Minute},
		{dynamo.Options{Timeout: -1}, 10 * time.Second},
		{dynamo.Options{PurgeWait: 3 * time.Second}, 3 * time.Second},
		{dynamo.Options{PurgeWait: -1}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			q, r := dynamotest.ConnectQuietTable(t, &c.opts)
			q.Script(nil)
			if took, err := elapsed(func() error {
				return r.PurgeNamespace(t.Context(), "n1")
			}); err != nil || took != c.want {
				t.Errorf("%+v: %v after %v, want %v", c.opts, err, took, c.want)
			}
		})
	}
}

// newCrowdedNamespace creates and deletes a namespace whose partitions take
// several batches, and returns the number of its items. Its resources are listed
// twice, as Python's provisioner may leave them.
func newCrowdedNamespace(t *testing.T, table string, r *dynamo.Repository, name string) (id string, items int) {
	t.Helper()
	n, err := r.RegisterNamespace(t.Context(), createdAt, name)
	must(t, err)
	for i := range 70 {
		entity := fmt.Sprintf("%s/ENTITY#key-%d", n.ID, i%2)
		storeItem(t, table, attributes{
			"PK": "S:" + entity, "SK": fmt.Sprintf("S:#BUCKET#model-%d", i), "GSI4PK": "S:" + n.ID,
			"GSI4SK": "S:" + entity,
		})
	}
	for _, resource := range []string{"one", "two"} {
		storeItem(t, table, attributes{"PK": "S:" + n.ID + "/RESOURCE#" + resource, "SK": "S:#CONFIG"})
	}
	storeItem(t, table, attributes{"PK": "S:" + n.ID + "/SYSTEM#", "SK": "S:#RESOURCES", "resources": "SS:one,two"})
	storeItem(t, table, attributes{
		"PK": "S:" + n.ID + "/SYSTEM#", "SK": "S:#PROVISIONER", "managed_resources": "SS:one,two",
	})
	must(t, r.DeleteNamespace(t.Context(), deletedAt, name))
	for k := range tableItems(t, table) {
		if strings.HasPrefix(k, n.ID+"/") {
			items++
		}
	}
	return n.ID, items
}

func TestAPurgeReportsHowManyItemsAreGone(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	var told []int
	r := dynamotest.Connect(t, table, &dynamo.Options{
		AWS: dynamotest.Config(
			dynamotest.NewProxy(t, dynamotest.First(3, "BatchWriteItem", dynamotest.Unprocessed)).URL,
		),
		Purged: func(items int) { told = append(told, items) },
	})
	id, items := newCrowdedNamespace(t, table, r, "other")
	_, err := r.RegisterNamespace(t.Context(), createdAt, "third")
	must(t, err)
	view, err := r.Namespace(t.Context(), "third") // views report it too
	must(t, err)
	must(t, view.PurgeNamespace(t.Context(), id))
	rising := slices.Compact(slices.Sorted(slices.Values(told)))
	if diff := cmp.Diff(rising, told); diff != "" || len(told) < 4 || told[len(told)-1] != items {
		t.Errorf("told %v, want numbers that rise to %d", told, items)
	}
	told = nil
	empty, _, _ := registerOther(t, r)
	must(t, r.DeleteNamespace(t.Context(), deletedAt, "other"))
	must(t, r.PurgeNamespace(t.Context(), empty.ID))
	if len(told) > 0 {
		t.Errorf("of nothing it tells %v", told)
	}
}

func TestPurgesReportOneAtATime(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	var inside, calls atomic.Int32
	r := dynamotest.Connect(t, table, &dynamo.Options{Purged: func(int) {
		if inside.Add(1) > 1 {
			t.Error("called twice at once")
		}
		calls.Add(1)
		for range 100 {
			runtime.Gosched() // so that another would come in
		}
		inside.Add(-1)
	}})
	var ids []string
	for i := range 4 {
		id, _ := newCrowdedNamespace(t, table, r, fmt.Sprint("tenant-", i))
		ids = append(ids, id)
	}
	var group sync.WaitGroup
	for _, id := range ids {
		group.Go(func() {
			if err := r.PurgeNamespace(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if calls.Load() < 16 {
		t.Errorf("%d calls", calls.Load())
	}
}

// A change must not be stored in a namespace that another process has purged: no
// purge would find it.
func TestNothingIsStoredInAPurgedNamespace(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	ours, others := dynamotest.Connect(t, table, nil), dynamotest.Connect(t, table, nil)
	space, err := ours.RegisterNamespace(t.Context(), start, "tenant")
	must(t, err)
	view, err := ours.Namespace(t.Context(), "tenant")
	must(t, err)
	setDefaults(t, view, perMinute60)
	must(t, others.DeleteNamespace(t.Context(), start, "tenant"))
	must(t, others.PurgeNamespace(t.Context(), space.ID))
	before := len(dynamotest.Scan(t, table))
	cfg := limiter.Config{Scope: limiter.Scope{Resource: model}, Limits: []limiter.Limit{perMinute60}}
	errorOf := func(_ bool, err error) error { return err }
	for what, err := range map[string]error{
		"SetConfig":    view.SetConfig(t.Context(), cfg, auditEvent("limits_set")),
		"DeleteConfig": view.DeleteConfig(t.Context(), cfg.Scope, auditEvent("limits_deleted")),
		"CreateEntity": view.CreateEntity(t.Context(), limiter.Entity{ID: "alice", CreatedAt: start},
			auditEvent("entity_created")),
		"DeleteEntity": view.DeleteEntity(t.Context(), "alice", auditEvent("entity_deleted")),
		"SetSwitch": view.SetSwitch(t.Context(),
			limiter.Switch{Scope: limiter.Scope{Entity: "alice"}, Since: start}, auditEvent("disabled")),
		"DeleteSwitch": view.DeleteSwitch(t.Context(), limiter.Scope{Entity: "alice"}, auditEvent("enabled")),
		"Fill": errorOf(view.Fill(t.Context(), start, limiter.Fill{Entity: "alice", Resource: model},
			auditEvent("bucket_reset"))),
	} {
		if !errors.Is(err, limiter.ErrNotFound) {
			t.Errorf("%s: error %v, want ErrNotFound", what, err)
		}
	}
	if after := len(dynamotest.Scan(t, table)); after != before {
		t.Errorf("%d items are left, want %d", after, before)
	}
}
