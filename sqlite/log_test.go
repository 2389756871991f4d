package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// withLog runs f where the log is changed.
func withLog(t *testing.T, r *Repository, f func(*tx, *walLog) error) {
	t.Helper()
	if err := r.write(t.Context(), time.Time{}, func(tx *tx) error { return f(tx, &r.writer.log) }); err != nil {
		t.Fatal(err)
	}
}

// relimit gives the log another number of pages, whatever the disk has.
func relimit(t *testing.T, r *Repository, pages int64) {
	t.Helper()
	withLog(t, r, func(tx *tx, log *walLog) error {
		log.limit(pages)
		log.pages = pages
		log.next = log.most()
		return tx.script(log.pragma())
	})
}

// readOn reads until it is told to stop, and begins to read again before it ends
// the read before: there is no moment without a reader.
func readOn(t *testing.T, r *Repository) (stop func()) {
	t.Helper()
	stopped := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		end := func() {}
		defer func() { end() }()
		for {
			select {
			case <-stopped:
				return
			default:
			}
			next, err := r.readers.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 { // commits go by
				var rows int
				if err := next.QueryRowContext(t.Context(), "SELECT count(*) FROM buckets").Scan(&rows); err != nil {
					t.Error(err)
				}
			}
			end()
			end = func() { _ = next.Rollback() }
		}
	})
	return func() {
		close(stopped)
		group.Wait()
	}
}

// manyDaily is a limiter with more tokens than a test can take.
func manyDaily(t *testing.T, r *Repository) *limiter.RateLimiter {
	t.Helper()
	lim := limiterOn(t, r)
	if err := lim.SetSystemDefaults(t.Context(), limiter.Custom("rpm", 1_000_000, 1, 24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	return lim
}

func logSize(t *testing.T, r *Repository) int64 {
	t.Helper()
	info, err := os.Stat(r.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestReadersWithoutAPauseDoNotGrowTheLog(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	lim := manyDaily(t, r)
	const pages, bound = 50, 2 * 50 * logPage
	relimit(t, r, pages)
	defer readOn(t, r)()
	most := int64(0)
	const calls = 1500
	for range calls {
		if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
			t.Fatal(err)
		}
		most = max(most, logSize(t, r))
	}
	// Slow readers delay it, so the bound is not that of the log alone; without it
	// every call leaves a page there.
	if most > calls*logPage/2 {
		t.Errorf("the log had %d bytes after %d calls, and its bound is %d", most, calls, bound)
	}
	t.Logf("at most %d bytes, its bound is %d", most, bound)
}

// A reader that stays lets the log grow, but does not stop the writer; when it
// is gone the log is small again.
func TestReaderThatStaysOnlyDelays(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	lim := manyDaily(t, r)
	const pages, bound = 50, 2 * 50 * logPage
	relimit(t, r, pages)
	reader, err := r.readers.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM buckets").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	take := func(n int) {
		t.Helper()
		for range n {
			if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
				t.Fatal(err)
			}
		}
	}
	take(500)
	pinned := logSize(t, r)
	if pinned < bound {
		t.Fatalf("the log has %d bytes: the reader does not keep it", pinned)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	withLog(t, r, func(_ *tx, log *walLog) error {
		log.emptied = time.Time{} // as if time had passed
		return nil
	})
	take(2 * jobsPerLook)
	rest(t, r)
	if size := logSize(t, r); size > bound {
		t.Errorf("the log still has %d bytes of %d", size, pinned)
	}
}

// Fewer pages, from a time when the disk was full, are not for ever.
func TestLogGetsItsPagesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
		lim := manyDaily(t, r)
		var usual, inForce int64
		withLog(t, r, func(_ *tx, log *walLog) error {
			usual = log.pages
			return nil
		})
		relimit(t, r, 20)
		for range 10 {
			time.Sleep(raiseAfter)
			if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
				t.Fatal(err)
			}
			withLog(t, r, func(tx *tx, _ *walLog) error { return tx.row("PRAGMA wal_autocheckpoint").scan(&inForce) })
		}
		if inForce != usual {
			t.Errorf("%d pages, want %d", inForce, usual)
		}
	})
}
