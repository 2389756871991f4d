package dynamo_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// crowded is a deleted namespace whose partitions take several batches, and how
// many items it has. Its resources are listed twice, as Python's provisioner
// may leave them.
func crowded(t *testing.T, table string, r *dynamo.Repository, name string) (id string, items int) {
	t.Helper()
	n, err := r.RegisterNamespace(t.Context(), bornAt, name)
	must(t, err)
	for i := range 70 {
		entity := fmt.Sprintf("%s/ENTITY#key-%d", n.ID, i%2)
		storeItem(t, table, attributes{
			"PK": "S:" + entity, "SK": fmt.Sprintf("S:#BUCKET#model-%d", i), "GSI4PK": "S:" + n.ID, "GSI4SK": "S:" + entity,
		})
	}
	for _, resource := range []string{"one", "two"} {
		storeItem(t, table, attributes{"PK": "S:" + n.ID + "/RESOURCE#" + resource, "SK": "S:#CONFIG"})
	}
	storeItem(t, table, attributes{"PK": "S:" + n.ID + "/SYSTEM#", "SK": "S:#RESOURCES", "resources": "SS:one,two"})
	storeItem(t, table, attributes{"PK": "S:" + n.ID + "/SYSTEM#", "SK": "S:#PROVISIONER", "managed_resources": "SS:one,two"})
	must(t, r.DeleteNamespace(t.Context(), goneAt, name))
	for k := range tableItems(t, table) {
		if strings.HasPrefix(k, n.ID+"/") {
			items++
		}
	}
	return n.ID, items
}

func TestAPurgeTellsHowManyItemsAreGone(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	var told []int
	r := dynamotest.Connect(t, table, &dynamo.Options{
		AWS:    dynamotest.Config(dynamotest.NewProxy(t, dynamotest.First(3, "BatchWriteItem", dynamotest.Unprocessed)).URL),
		Purged: func(items int) { told = append(told, items) },
	})
	id, items := crowded(t, table, r, "other")
	_, err := r.RegisterNamespace(t.Context(), bornAt, "third")
	must(t, err)
	view, err := r.Namespace(t.Context(), "third") // views tell it too
	must(t, err)
	must(t, view.PurgeNamespace(t.Context(), id))
	rising := slices.Compact(slices.Sorted(slices.Values(told)))
	if diff := cmp.Diff(rising, told); diff != "" || len(told) < 4 || told[len(told)-1] != items {
		t.Errorf("told %v, want numbers that rise to %d", told, items)
	}
	told = nil
	empty, _, _ := registered(t, r)
	must(t, r.DeleteNamespace(t.Context(), goneAt, "other"))
	must(t, r.PurgeNamespace(t.Context(), empty.ID))
	if len(told) > 0 {
		t.Errorf("of nothing it tells %v", told)
	}
}

func TestPurgesTellOneAtATime(t *testing.T) {
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
		id, _ := crowded(t, table, r, fmt.Sprint("tenant-", i))
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
