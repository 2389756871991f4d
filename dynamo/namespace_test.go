package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

var (
	createdAt = time.Date(2025, 3, 4, 5, 6, 7, 890, time.UTC)
	deletedAt = time.Date(2025, 4, 5, 6, 7, 8, 999, time.UTC)
)

const createdText, deletedText = "S:2025-03-04T05:06:07Z", "S:2025-04-05T06:07:08Z"

// registerOther registers the namespace other and returns it with its forward
// and reverse key.
func registerOther(t *testing.T, r *dynamo.Repository) (n limiter.Namespace, forward, reverse string) {
	t.Helper()
	n, err := r.RegisterNamespace(t.Context(), createdAt, "other")
	must(t, err)
	return n, "_/SYSTEM# #NAMESPACE#other", "_/SYSTEM# #NSID#" + n.ID
}

// findNamespace returns a namespace as Namespaces lists it.
func findNamespace(t *testing.T, r *dynamo.Repository, id string) limiter.Namespace {
	t.Helper()
	for n, err := range r.Namespaces(t.Context()) {
		must(t, err)
		if n.ID == id {
			return n
		}
	}
	t.Fatalf("%s is not listed", id)
	return limiter.Namespace{}
}

func TestNamespaceRecordsMatchPython(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	r := dynamotest.Connect(t, table, nil)
	n, forward, reverse := registerOther(t, r)
	active := tableItems(t, table)
	if diff := cmp.Diff(namespaceRecord("#NAMESPACE#other", n.ID, "other", createdText), active[forward]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(namespaceRecord("#NSID#"+n.ID, n.ID, "other", createdText), active[reverse]); diff != "" {
		t.Error(diff)
	}
	must(t, r.DeleteNamespace(t.Context(), deletedAt, "other"))
	want := maps.Clone(active)
	delete(want, forward)
	want[reverse] = maps.Clone(want[reverse])
	want[reverse]["status"], want[reverse]["deleted_at"] = "S:deleted", deletedText
	if diff := cmp.Diff(want, tableItems(t, table)); diff != "" {
		t.Error(diff)
	}
	_, err := r.RecoverNamespace(t.Context(), deletedAt, n.ID)
	must(t, err)
	if diff := cmp.Diff(active, tableItems(t, table)); diff != "" {
		t.Error(diff)
	}
}

func TestNamesThatOnlyPythonAcceptsAreListed(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	storeItem(t, table, namespaceRecord("#NAMESPACE#a/b #c", "AAAAAAAAAAA", "a/b #c", createdText))
	storeItem(t, table, namespaceRecord("#NSID#AAAAAAAAAAA", "AAAAAAAAAAA", "a/b #c", createdText))
	storeItem(t, table, attributes{
		"PK": "S:_/SYSTEM#", "SK": "S:#NSID#bare", "status": "S:deleted", "deleted_at": deletedText,
	})
	r := dynamotest.Connect(t, table, nil)
	want := limiter.Namespace{ID: "AAAAAAAAAAA", Name: "a/b #c", CreatedAt: createdAt.Truncate(time.Second)}
	if diff := cmp.Diff(want, findNamespace(t, r, "AAAAAAAAAAA")); diff != "" {
		t.Error(diff)
	}
	want = limiter.Namespace{ID: "bare", DeletedAt: deletedAt.Truncate(time.Second)}
	if diff := cmp.Diff(want, findNamespace(t, r, "bare")); diff != "" {
		t.Error(diff)
	}
	if _, err := r.RecoverNamespace(t.Context(), deletedAt, "bare"); !isError[*limiter.CorruptError](err) {
		t.Error(err)
	}
	must(t, r.PurgeNamespace(t.Context(), "bare"))
}

// halfDelete registers a namespace and deletes one of its records, as an
// interrupted delete by Python does.
func halfDelete(t *testing.T, table string, r *dynamo.Repository) limiter.Namespace {
	t.Helper()
	n, _, _ := registerOther(t, r)
	deleteRecord(t, table, "#NAMESPACE#other")
	return n
}

func TestADeleteThatStoppedHalfWayCountsAsDone(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	r := dynamotest.Connect(t, table, nil)
	n := halfDelete(t, table, r)
	if got := findNamespace(t, r, n.ID); got.DeletedAt.IsZero() || got.Purging {
		t.Errorf("listed as %+v", got)
	}
	got, err := r.RecoverNamespace(t.Context(), deletedAt, n.ID)
	must(t, err)
	if diff := cmp.Diff(n, got); diff != "" {
		t.Error(diff)
	}
	if err := r.PurgeNamespace(t.Context(), n.ID); !errors.Is(err, limiter.ErrConflict) {
		t.Error(err)
	}
	deleteRecord(t, table, "#NAMESPACE#other")
	must(t, r.PurgeNamespace(t.Context(), n.ID))
	if items := tableItems(t, table); len(items) != 3 {
		t.Error(items)
	}
}

func TestANameThatWasTakenAgainStaysWithItsNewOwner(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	r := dynamotest.Connect(t, table, nil)
	old := halfDelete(t, table, r)
	taker, _, _ := registerOther(t, r)
	if _, err := r.RecoverNamespace(t.Context(), deletedAt, old.ID); !errors.Is(err, limiter.ErrExists) {
		t.Error(err)
	}
	must(t, r.PurgeNamespace(t.Context(), old.ID))
	if diff := cmp.Diff(taker, findNamespace(t, r, taker.ID)); diff != "" {
		t.Error(diff)
	}
}

func TestARecoveryThatStoppedHalfWayCanGoEitherWay(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	r := dynamotest.Connect(t, table, nil)
	n, _, reverse := registerOther(t, r)
	must(t, r.DeleteNamespace(t.Context(), deletedAt, "other"))
	half := namespaceRecord("#NAMESPACE#other", n.ID, "other", createdText)
	storeItem(t, table, half)
	must(t, r.DeleteNamespace(t.Context(), deletedAt, "other"))
	if got := tableItems(t, table)[reverse]["status"]; got != "S:deleted" {
		t.Error(got)
	}
	storeItem(t, table, half)
	got, err := r.RecoverNamespace(t.Context(), deletedAt, n.ID)
	must(t, err)
	if diff := cmp.Diff(n, got); diff != "" {
		t.Error(diff)
	}
	if got := tableItems(t, table)[reverse]["status"]; got != "S:active" {
		t.Error(got)
	}
}

func TestANameRegisteredByManyAtOnceIsOneNamespace(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	var all sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		r := dynamotest.Connect(t, table, nil)
		all.Go(func() {
			n, err := r.RegisterNamespace(t.Context(), createdAt, "other")
			if err != nil {
				t.Error(err)
			}
			ids[i] = n.ID
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("%s and %s", id, ids[0])
		}
	}
	if items := tableItems(t, table); len(items) != 5 {
		t.Error(items)
	}
}

func TestRegisteringSurvivesLostReplies(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	p := dynamotest.NewProxy(t, dynamotest.First(1, "TransactWriteItems", dynamotest.DropReply))
	r := dynamotest.Connect(t, table, &dynamo.Options{AWS: dynamotest.Config(p.URL)})
	n, _, _ := registerOther(t, r)
	if p.Count(dynamotest.DropReply) != 1 {
		t.Error("no reply was lost")
	}
	if diff := cmp.Diff(n, findNamespace(t, r, n.ID)); diff != "" {
		t.Error(diff)
	}
}

// newDeletedNamespace creates and deletes a namespace with every kind of item,
// including those that Python's provisioner stores without an index.
func newDeletedNamespace(t *testing.T, table string, r *dynamo.Repository) string {
	t.Helper()
	n, _, _ := registerOther(t, r)
	for i := range 6 {
		entity := fmt.Sprintf("%s/ENTITY#key-%d", n.ID, i%3)
		storeItem(t, table, attributes{
			"PK": "S:" + entity, "SK": fmt.Sprintf("S:#BUCKET#model-%d", i), "rf": "N:1", "GSI4PK": "S:" + n.ID,
			"GSI4SK": "S:" + entity,
		})
	}
	for _, bare := range [][2]string{
		{"/ENTITY#key-1", "#CONFIG#gpt-4"},
		{"/ENTITY#only-managed", "#CONFIG#gpt-4"},
		{"/RESOURCE#only-managed", "#CONFIG"},
		{"/RESOURCE#listed", "#CONFIG"},
	} {
		storeItem(t, table, attributes{"PK": "S:" + n.ID + bare[0], "SK": "S:" + bare[1], "GSI4PK": "S:" + n.ID})
	}
	storeItem(t, table, attributes{
		"PK": "S:" + n.ID + "/SYSTEM#", "SK": "S:#PROVISIONER", "GSI4PK": "S:" + n.ID,
		"managed_resources": "L:[S only-managed]", "managed_entities": "M:{only-managed NULL}",
	})
	storeItem(t, table, attributes{"PK": "S:" + n.ID + "/SYSTEM#", "SK": "S:#RESOURCES", "resources": "SS:listed"})
	must(t, r.DeleteNamespace(t.Context(), deletedAt, "other"))
	return n.ID
}

// itemsOutside returns the items that do not belong to a namespace.
func itemsOutside(items map[string]attributes, id string) map[string]attributes {
	rest := map[string]attributes{}
	for k, it := range items {
		if !strings.HasPrefix(k, id+"/") && !strings.HasSuffix(k, " #NSID#"+id) {
			rest[k] = it
		}
	}
	return rest
}

func TestAPurgeTakesWhatIsNotIndexedAndNothingElse(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	r := dynamotest.Connect(t, table, &dynamo.Options{AWS: dynamotest.Config(
		dynamotest.NewProxy(t, dynamotest.First(3, "BatchWriteItem", dynamotest.Unprocessed)).URL,
	)})
	id := newDeletedNamespace(t, table, r)
	neighbour := id + "x/ENTITY#key-1"
	storeItem(t, table, attributes{
		"PK": "S:" + neighbour, "SK": "S:#META", "GSI4PK": "S:" + id + "x", "GSI4SK": "S:" + neighbour,
	})
	storeItem(t, table, attributes{"PK": "S:elsewhere", "SK": "S:#META", "GSI4PK": "S:" + id, "GSI4SK": "S:elsewhere"})
	want := itemsOutside(tableItems(t, table), id)
	must(t, r.PurgeNamespace(t.Context(), id))
	if diff := cmp.Diff(want, tableItems(t, table)); diff != "" {
		t.Error(diff)
	}
}

func TestAPurgeThatStoppedAnywhereIsFinishedByAnother(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	r := dynamotest.Connect(t, table, nil)
	p := dynamotest.NewProxy(t, nil)
	stopping := dynamotest.Connect(t, table, &dynamo.Options{AWS: withoutRetries(dynamotest.Config(p.URL))})
	want := tableItems(t, table)
	for n := 0; ; n++ {
		id := newDeletedNamespace(t, table, r)
		p.SetPlan(diesAfter(n, n%2 == 0))
		if err := stopping.PurgeNamespace(t.Context(), id); err == nil {
			if n < 12 {
				t.Errorf("a purge takes only %d requests", n)
			}
			break
		}
		if _, left := tableItems(t, table)["_/SYSTEM# #NSID#"+id]; left {
			if got := findNamespace(t, r, id); got.DeletedAt.IsZero() {
				t.Errorf("after %d requests it is listed as %+v", n, got)
			}
			must(t, r.PurgeNamespace(t.Context(), id))
		}
		if diff := cmp.Diff(want, tableItems(t, table)); diff != "" {
			t.Fatalf("after %d requests and another purge: %s", n, diff)
		}
	}
}

// diesAfter returns a plan that passes n requests. The next one is executed or
// not, and no later one is. None of them is answered.
func diesAfter(n int, carriedOut bool) dynamotest.Plan {
	var mu sync.Mutex
	return func(string, []byte) dynamotest.Fault {
		mu.Lock()
		defer mu.Unlock()
		n--
		switch {
		case n >= 0:
			return dynamotest.Pass
		case n == -1 && carriedOut:
			return dynamotest.DropReply
		}
		return dynamotest.ResetBefore
	}
}

func TestAPurgeThatHasBegunAllowsNoRecovery(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	r := dynamotest.Connect(t, table, nil)
	id := newDeletedNamespace(t, table, r)
	stopping := dynamotest.Connect(t, table, &dynamo.Options{AWS: withoutRetries(dynamotest.Config(
		dynamotest.NewProxy(t, dynamotest.First(1, "BatchWriteItem", dynamotest.Fail500)).URL,
	))})
	if err := stopping.PurgeNamespace(t.Context(), id); err == nil {
		t.Fatal("purged")
	}
	if got := findNamespace(t, r, id); !got.Purging || got.DeletedAt != deletedAt.Truncate(time.Second) {
		t.Errorf("listed as %+v", got)
	}
	if _, err := r.RecoverNamespace(t.Context(), deletedAt, id); !errors.Is(err, limiter.ErrConflict) {
		t.Error(err)
	}
}

func TestEitherAPurgeOrARecoveryWins(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	r, rival := dynamotest.Connect(t, table, nil), dynamotest.Connect(t, table, nil)
	for range 10 {
		n, _, reverse := registerOther(t, r)
		storeItem(t, table, attributes{"PK": "S:" + n.ID + "/SYSTEM#", "SK": "S:#CONFIG"})
		must(t, r.DeleteNamespace(t.Context(), deletedAt, "other"))
		var purge, recovery error
		var both sync.WaitGroup
		both.Go(func() { purge = r.PurgeNamespace(context.Background(), n.ID) })
		both.Go(func() { _, recovery = rival.RecoverNamespace(context.Background(), deletedAt, n.ID) })
		both.Wait()
		items := tableItems(t, table)
		_, data := items[n.ID+"/SYSTEM# #CONFIG"]
		if recovered := recovery == nil; recovered != data || recovered != (items[reverse]["status"] == "S:active") ||
			recovered != errors.Is(purge, limiter.ErrConflict) || !recovered && purge != nil {
			t.Fatalf("purge: %v, recovery: %v, left: %v", purge, recovery, items)
		}
		if recovery == nil {
			must(t, r.DeleteNamespace(t.Context(), deletedAt, "other"))
			must(t, r.PurgeNamespace(t.Context(), n.ID))
		}
	}
}
