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

// withLog runs f in the goroutine of the writer, which owns the log.
func withLog(t *testing.T, r *Repository, f func(*tx, *walLog) error) {
	t.Helper()
	if err := r.write(t.Context(), time.Time{}, func(tx *tx) error { return f(tx, &r.writer.log) }); err != nil {
		t.Fatal(err)
	}
}

// setLogPages limits the log to a number of pages, regardless of the free space.
func setLogPages(t *testing.T, r *Repository, pages int64) {
	t.Helper()
	withLog(t, r, func(tx *tx, log *walLog) error {
		log.limit(pages)
		log.pages = pages
		log.next = log.maxSize()
		return tx.script(log.pragma())
	})
}

// readContinuously reads until stop is called. It begins each read before it ends
// the previous one, so that there is always a reader.
func readContinuously(t *testing.T, r *Repository) (stop func()) {
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
			for range 20 { // lets commits happen meanwhile
				var rows int
				if err := next.QueryRowContext(t.Context(), "SELECT count(*) FROM buckets_v7").Scan(&rows); err != nil {
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

// manyDaily returns a limiter with more tokens than a test takes.
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

func TestContinuousReadersDoNotGrowTheLog(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	lim := manyDaily(t, r)
	const pages, bound = 50, 2 * 50 * logPage
	setLogPages(t, r, pages)
	defer readContinuously(t, r)()
	largest := int64(0)
	const calls = 1500
	for range calls {
		if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
			t.Fatal(err)
		}
		largest = max(largest, logSize(t, r))
	}
	// Slow readers delay the truncation, so the log may exceed its bound. Without
	// truncation every call would add a page.
	if largest > calls*logPage/2 {
		t.Errorf("the log had %d bytes after %d calls, its bound is %d", largest, calls, bound)
	}
	t.Logf("at most %d bytes, the bound is %d", largest, bound)
}

// TestLongReaderOnlyDelaysTheLog checks that a long read does not block the writer,
// and that the log is truncated after it.
func TestLongReaderOnlyDelaysTheLog(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	lim := manyDaily(t, r)
	const pages, bound = 50, 2 * 50 * logPage
	setLogPages(t, r, pages)
	reader, err := r.readers.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM buckets_v7").Scan(&rows); err != nil {
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
		t.Fatalf("the log has %d bytes: the reader does not hold it", pinned)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	withLog(t, r, func(_ *tx, log *walLog) error {
		log.truncated = time.Time{} // as if time had passed
		return nil
	})
	take(2 * writesPerCheck)
	waitIdle(t, r)
	if size := logSize(t, r); size > bound {
		t.Errorf("the log still has %d bytes of %d", size, pinned)
	}
}

// TestLogLimitRecovers checks that the limit of the log rises again after the disk
// was full.
func TestLogLimitRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
		lim := manyDaily(t, r)
		var usual, inForce int64
		withLog(t, r, func(_ *tx, log *walLog) error {
			usual = log.pages
			return nil
		})
		setLogPages(t, r, 20)
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
