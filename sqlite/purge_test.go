package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/sqlite"
)

// fill puts rows of every table into a namespace, none of which is old enough to
// be swept, and tells how many: none of the first, step more of each other.
func fill(t *testing.T, path, id string, step int) (rows int) {
	t.Helper()
	const space = "FROM n, namespaces WHERE id = ?"
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i, insert := range []string{
		"INSERT INTO entities SELECT key, i, '', '', 0, '{}', 0 " + space,
		"INSERT INTO configs SELECT key, i, '', '[]', '' " + space,
		"INSERT INTO buckets (ns, entity, resource, facts, parent, limits, level, tokens, at, idle, expires, hour, used, events) " +
			"SELECT key, i, 'r', 0, '', '[]', 0, '[]', 0, 0, 0, 0, '[]', 0 " + space,
		"INSERT INTO usage SELECT key, i, 'r', 'hourly', 0, '{}', 0, 9e9 " + space,
		"INSERT INTO audit SELECT key, 'e', i, '', '', '', 0, '{}', 9e9 " + space,
		"INSERT INTO deleted_buckets SELECT key, i, 0, 9e9 " + space,
	} {
		n := step * i
		_, err := db.ExecContext(t.Context(), "WITH RECURSIVE n(i) AS (SELECT 1 WHERE ? > 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "+insert, n, n, id)
		if err != nil {
			t.Fatal(err)
		}
		rows += n
	}
	return rows
}

// doomed is the ID of a namespace that was deleted, and how many rows it has.
func doomed(t *testing.T, repo *sqlite.Repository, path, name string, step int) (id string, rows int) {
	t.Helper()
	n, err := repo.RegisterNamespace(t.Context(), time.Now(), name)
	if err != nil {
		t.Fatal(err)
	}
	rows = fill(t, path, n.ID, step)
	if err := repo.DeleteNamespace(t.Context(), time.Now(), name); err != nil {
		t.Fatal(err)
	}
	return n.ID, rows
}

func TestPurgeTellsHowManyItemsAreGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	var told []int
	repo := open(t, path, &sqlite.Options{Purged: func(items int) { told = append(told, items) }})
	id, rows := doomed(t, repo, path, "doomed", 450) // in the end more than are removed at once
	empty, err := repo.RegisterNamespace(t.Context(), time.Now(), "empty")
	if err != nil {
		t.Fatal(err)
	}
	view, err := repo.Namespace(t.Context(), "empty") // views tell it too
	if err != nil {
		t.Fatal(err)
	}
	if err := view.PurgeNamespace(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if len(told) != 6 || !slices.IsSorted(told) || len(slices.Compact(slices.Clone(told))) != len(told) || told[len(told)-1] != rows {
		t.Errorf("told %v, want numbers that rise to %d", told, rows)
	}
	told = nil
	if err := repo.DeleteNamespace(t.Context(), time.Now(), "empty"); err != nil {
		t.Fatal(err)
	}
	if err := repo.PurgeNamespace(t.Context(), empty.ID); err != nil {
		t.Fatal(err)
	}
	if len(told) > 0 {
		t.Errorf("of nothing it tells %v", told)
	}
}

func TestPurgesTellOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	var inside, calls atomic.Int32
	repo := open(t, path, &sqlite.Options{Purged: func(int) {
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
	for _, name := range []string{"a", "b", "c"} {
		id, _ := doomed(t, repo, path, name, 50)
		ids = append(ids, id)
	}
	var group sync.WaitGroup
	for _, id := range ids {
		group.Go(func() {
			if err := repo.PurgeNamespace(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if calls.Load() < 6 {
		t.Errorf("%d calls", calls.Load())
	}
}
