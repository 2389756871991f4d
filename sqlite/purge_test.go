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

// fill inserts rows into every table of a namespace and returns their number: none
// into the first table, and step more into each following one. No row is old
// enough to be swept.
func fill(t *testing.T, path, id string, step int) (rows int) {
	t.Helper()
	const from = "FROM n, namespaces_v7 WHERE id = ?"
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i, insert := range []string{
		"INSERT INTO entities SELECT key, i, '', '', 0, '{}', 0, 0 " + from,
		"INSERT INTO configs SELECT key, i, '', '[]', '' " + from,
		"INSERT INTO buckets_v7 (ns, entity, resource, facts, parent, limits, level, tokens, at, idle, " +
			"expires, hour, used, events) " +
			"SELECT key, i, 'r', 0, '', '[]', 0, '[]', 0, 0, 0, 0, '[]', 0 " + from,
		"INSERT INTO usage (ns, entity, resource, window, start, counters, events, expires) SELECT key, i, " +
			"'r', 'hourly', 0, '{}', 0, 9e9 " + from,
		"INSERT INTO audit SELECT key, 'e', i, '', '', '', 0, '{}', 9e9 " + from,
		"INSERT INTO deleted_buckets SELECT key, i, 0, 9e9 " + from,
		"INSERT INTO switches SELECT key, i, '', '', 0 " + from,
		"INSERT INTO top_ups SELECT key, i, 'r', 'id', 9e15 " + from,
	} {
		n := step * i
		_, err := db.ExecContext(t.Context(),
			"WITH RECURSIVE n(i) AS (SELECT 1 WHERE ? > 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "+insert, n, n,
			id)
		if err != nil {
			t.Fatal(err)
		}
		rows += n
	}
	return rows
}

// deletedNamespace creates a deleted namespace. It returns its ID and number of
// rows.
func deletedNamespace(t *testing.T, repo *sqlite.Repository, path, name string, step int) (id string, rows int) {
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

func TestPurgeReportsItsProgress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	var reported []int
	repo := open(t, path, &sqlite.Options{Purged: func(items int) { reported = append(reported, items) }})
	id, rows := deletedNamespace(t, repo, path, "old", 300) // the last table has more rows than one transaction removes
	empty, err := repo.RegisterNamespace(t.Context(), time.Now(), "empty")
	if err != nil {
		t.Fatal(err)
	}
	view, err := repo.Namespace(t.Context(), "empty") // views report it, too
	if err != nil {
		t.Fatal(err)
	}
	if err := view.PurgeNamespace(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if len(reported) != 8 || !slices.IsSorted(reported) ||
		len(slices.Compact(slices.Clone(reported))) != len(reported) || reported[len(reported)-1] != rows {
		t.Errorf("reported %v, want rising numbers up to %d", reported, rows)
	}
	reported = nil
	if err := repo.DeleteNamespace(t.Context(), time.Now(), "empty"); err != nil {
		t.Fatal(err)
	}
	if err := repo.PurgeNamespace(t.Context(), empty.ID); err != nil {
		t.Fatal(err)
	}
	if len(reported) > 0 {
		t.Errorf("an empty namespace reported %v", reported)
	}
}

func TestPurgesReportOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	var inside, calls atomic.Int32
	repo := open(t, path, &sqlite.Options{Purged: func(int) {
		if inside.Add(1) > 1 {
			t.Error("concurrent calls")
		}
		calls.Add(1)
		for range 100 {
			runtime.Gosched() // gives another call a chance
		}
		inside.Add(-1)
	}})
	var ids []string
	for _, name := range []string{"a", "b", "c"} {
		id, _ := deletedNamespace(t, repo, path, name, 50)
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
