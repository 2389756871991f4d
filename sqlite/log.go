package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// walLog keeps the write-ahead log beside the file small. SQLite copies the log
// into the file when it has so many pages, and then writes it from the start
// again, unless someone still reads from it: readers without a pause would let it
// grow for ever. A log of twice the pages is therefore emptied, which waits for
// the readers of the moment; those that come meanwhile need the file only.
type walLog struct {
	path    string
	pages   int64     // from which on SQLite copies the log
	limited time.Time // when that was set
	jobs    int       // since its size was looked at
	looked  time.Time // when that was
	next    int64     // size from which on it is emptied
	emptied time.Time // when that was tried
}

const (
	maxLogPages    = 1000
	fewestLogPages = 16
	logPage        = 4096 + 24 // with the header of its frame

	lookAtLogAfter = 10 * time.Millisecond // or
	jobsPerLook    = 64                    // whichever comes first
	emptyAgain     = 10 * time.Second      // unless it has grown by a quarter before
	raiseAfter     = time.Minute           // fewer pages than usual

	// How long to wait for the readers of the moment: longer, the larger the log.
	shortestWait = 50 * time.Millisecond
	longestWait  = time.Second
)

// logPath is the log of a file: SQLite puts it beside what a link points to.
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

// limit sets the pages, within bounds, to what takes a quarter of the free space
// at most: a full disk has no room to copy the log.
func (l *walLog) limit(pages int64) {
	if free, known := freeSpace(filepath.Dir(l.path)); known {
		pages = min(pages, free/4/logPage)
	}
	l.pages, l.limited = min(max(pages, fewestLogPages), maxLogPages), time.Now()
	l.next = l.most()
}

// most is the size that the log may have.
func (l *walLog) most() int64 { return 2 * l.pages * logPage }

func (l *walLog) pragma() string { return fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", l.pages) }

// limitLog has SQLite copy the log after so many pages.
func (w *writer) limitLog(pages int64) {
	w.log.limit(pages)
	_ = w.tx(context.Background()).script(w.log.pragma())
}

// trim empties the log if it is too large. It looks now and then, after so many
// jobs.
func (w *writer) trim(jobs int, now time.Time) {
	l := &w.log
	if l.jobs += jobs; l.jobs < jobsPerLook && now.Sub(l.looked) < lookAtLogAfter {
		return
	}
	l.jobs, l.looked = 0, now
	if l.pages < maxLogPages && now.Sub(l.limited) >= raiseAfter {
		w.limitLog(2 * l.pages)
	}
	info, err := os.Stat(l.path)
	if err != nil || info.Size() <= l.most() || info.Size() < l.next && now.Sub(l.emptied) < emptyAgain {
		return
	}
	l.emptied = now
	wait := shortestWait * time.Duration(info.Size()/l.most())
	if l.next = info.Size() + info.Size()/4; w.emptyLog(min(wait, longestWait)) {
		l.next = l.most()
	}
}

// copyLog brings what is in the log to the file, as far as readers let it. After
// a store was made, its tables have their place there: one bucket needs no more,
// even if the disk is full later.
func (w *writer) copyLog(ctx context.Context) {
	_ = w.tx(ctx).script("PRAGMA wal_checkpoint(PASSIVE)") // what fails now is done later
}

// emptyLog copies the log into the file and cuts it. It reports false if a reader
// did not let it. No one can write meanwhile.
func (w *writer) emptyLog(wait time.Duration) bool {
	t := w.tx(context.Background())
	if t.script(fmt.Sprintf("PRAGMA busy_timeout = %d", wait.Milliseconds())) != nil {
		return false
	}
	var busy, pages, copied int
	err := t.row("PRAGMA wal_checkpoint(TRUNCATE)").scan(&busy, &pages, &copied)
	_ = t.script("PRAGMA busy_timeout = 0")
	return err == nil && busy == 0
}

// makeRoom empties the log on a full disk, and lets it take less from now on. It
// reports whether that helped.
func (w *writer) makeRoom() bool {
	info, err := os.Stat(w.log.path)
	if err != nil || !w.emptyLog(shortestWait) {
		return false
	}
	w.limitLog(min(w.log.pages, info.Size()/logPage) / 4)
	return info.Size() > 0
}
