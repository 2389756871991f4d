package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// walLog limits the size of the write-ahead log. SQLite copies the log into the
// file at a number of pages, and then overwrites it from the start, unless a
// reader still uses it. With overlapping readers the log would grow forever, so a
// log of twice that size is truncated. This waits for current readers; new ones
// need only the file.
type walLog struct {
	path      string
	pages     int64     // number of pages at which SQLite copies the log
	limited   time.Time // when pages was set
	writes    int       // number of writes since the last check
	checked   time.Time // when the size was last checked
	next      int64     // size at which the log is truncated
	truncated time.Time // when the last attempt was made
}

const (
	maxLogPages = 1000
	minLogPages = 16
	logPage     = 4096 + 24 // with the header of its frame

	checkLogAfter  = 10 * time.Millisecond // or writesPerCheck, whichever comes first
	writesPerCheck = 64
	truncateAgain  = 10 * time.Second // unless the log has grown by a quarter before
	raiseAfter     = time.Minute      // when pages is below its usual number

	// Bounds of the wait for current readers. A larger log waits longer.
	minTruncateWait = 50 * time.Millisecond
	maxTruncateWait = time.Second
)

// logPath returns the path of a file's log. SQLite resolves links first.
func logPath(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return path + "-wal"
}

func newWALLog(path string) walLog {
	l := walLog{path: logPath(path)}
	l.limit(maxLogPages)
	return l
}

// limit sets the number of pages, within bounds. The log may use a quarter of the
// free space at most, because copying it needs space, too.
func (l *walLog) limit(pages int64) {
	if free, known := freeSpace(filepath.Dir(l.path)); known {
		pages = min(pages, free/4/logPage)
	}

	l.pages, l.limited = min(max(pages, minLogPages), maxLogPages), time.Now()
	l.next = l.maxSize()
}

// maxSize returns the size at which the log is truncated.
func (l *walLog) maxSize() int64 { return 2 * l.pages * logPage }

func (l *walLog) pragma() string { return fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", l.pages) }

// limitLog sets the number of pages at which SQLite copies the log.
func (w *writer) limitLog(pages int64) {
	w.log.limit(pages)
	_ = w.tx(context.Background()).script(w.log.pragma())
}

// trimLog truncates the log if it is too large. It checks the size from time to
// time.
func (w *writer) trimLog(writes int, now time.Time) {
	l := &w.log

	// Each look is a system call, so not every write has one.
	if l.writes += writes; l.writes < writesPerCheck && now.Sub(l.checked) < checkLogAfter {
		return
	}
	l.writes, l.checked = 0, now

	// A full disk has lowered the number. It rises step by step, as far as
	// there is free space.
	if l.pages < maxLogPages && now.Sub(l.limited) >= raiseAfter {
		w.limitLog(2 * l.pages)
	}

	info, err := os.Stat(l.path)

	// The readers that prevented the last attempt may be there still. Another
	// one waits for ten seconds, or for a log that is a quarter larger.
	if err != nil || info.Size() <= l.maxSize() || info.Size() < l.next && now.Sub(l.truncated) < truncateAgain {
		return
	}

	l.truncated = now
	wait := minTruncateWait * time.Duration(info.Size()/l.maxSize())
	if l.next = info.Size() + info.Size()/4; w.truncateLog(min(wait, maxTruncateWait)) {
		l.next = l.maxSize()
	}
}

// copyLog copies the log into the file as far as readers allow. After a store was
// created, its tables then have their space in the file: a bucket can be written
// even if the disk is full later.
func (w *writer) copyLog(ctx context.Context) {
	// If this fails, a later checkpoint repeats it.
	_ = w.tx(ctx).script("PRAGMA wal_checkpoint(PASSIVE)")
}

// truncateLog copies the log into the file and truncates it. It returns false if a
// reader prevented it. Other processes cannot write meanwhile.
func (w *writer) truncateLog(wait time.Duration) bool {
	t := w.tx(context.Background())

	// Here SQLite's own timeout is on: the checkpoint waits for readers, which
	// no other call has to do.
	if t.script(fmt.Sprintf("PRAGMA busy_timeout = %d", wait.Milliseconds())) != nil {
		return false
	}

	var busy, pages, copied int
	err := t.row("PRAGMA wal_checkpoint(TRUNCATE)").scan(&busy, &pages, &copied)
	_ = t.script("PRAGMA busy_timeout = 0")
	return err == nil && busy == 0
}

// makeRoom truncates the log on a full disk and lowers its limit. It reports
// whether that freed any space.
func (w *writer) makeRoom() bool {
	info, err := os.Stat(w.log.path)
	if err != nil || !w.truncateLog(minTruncateWait) {
		return false
	}

	w.limitLog(min(w.log.pages, info.Size()/logPage) / 4)
	return info.Size() > 0
}
