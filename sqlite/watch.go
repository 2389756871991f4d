package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// fileWatch checks that the open files are still at their paths. SQLite writes to
// a removed file without an error, and the data is lost.
type fileWatch struct {
	identity atomic.Pointer[identity] // nil until the file is open
	checked  atomic.Int64             // time of the last check, in nanoseconds since identity.since
	result   atomic.Pointer[error]    // of the last check
}

const checkEvery = time.Second

// identity holds the files that were opened, by path.
type identity struct {
	since time.Time
	files map[string]fs.FileInfo
}

// identify returns the identity of a file and, if log is set, of its log.
func identify(path string, log bool) *identity {
	id := &identity{since: time.Now(), files: map[string]fs.FileInfo{}}

	paths := []string{path}
	if log {
		paths = append(paths, logPath(path))
	}

	for _, p := range paths {
		if info, err := os.Stat(p); err == nil {
			id.files[p] = info
		}
	}
	return id
}

// checkPresent returns an error if one of the files was removed or replaced. It
// accesses the disk at most once a second.
func (p *fileWatch) checkPresent(at time.Time) error {
	id := p.identity.Load()
	if id == nil {
		return nil
	}

	now, last := at.Sub(id.since), p.checked.Load()

	// Of several calls at the same time, one looks at the disk.
	if now-time.Duration(last) >= checkEvery && p.checked.CompareAndSwap(last, int64(now)) {
		err := id.check()
		p.result.Store(&err)
		return err
	}

	if result := p.result.Load(); result != nil {
		return *result
	}
	return nil
}

// check compares the files at the paths with those that were opened.
func (id *identity) check() error {
	for path, opened := range id.files {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("sqlite: %s was removed while it was open: %w; restore it, or open the store again",
				path, fs.ErrNotExist)
		case err == nil && !os.SameFile(opened, info):
			return fmt.Errorf("sqlite: %s was replaced by another file while it was open; open the store again", path)
		}
	}
	return nil
}
