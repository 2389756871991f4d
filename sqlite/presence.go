package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// presence is whether the files that are open are still those at their paths.
// SQLite writes to a file that was removed without an error, and all of it is
// lost.
type presence struct {
	identity atomic.Pointer[identity] // nil until the file is open
	looked   atomic.Int64             // when, in nanoseconds since since
	verdict  atomic.Pointer[error]
}

const lookEvery = time.Second

// identity is what was opened, by path.
type identity struct {
	since time.Time
	files map[string]fs.FileInfo
}

// identify describes the file and, if it is written to, its log.
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

// lost is an outage if one of the files was removed or replaced. It looks at most
// once a second.
func (p *presence) lost(at time.Time) error {
	id := p.identity.Load()
	if id == nil {
		return nil
	}
	now, last := at.Sub(id.since), p.looked.Load()
	if now-time.Duration(last) >= lookEvery && p.looked.CompareAndSwap(last, int64(now)) {
		err := id.look()
		p.verdict.Store(&err)
		return err
	}
	if verdict := p.verdict.Load(); verdict != nil {
		return *verdict
	}
	return nil
}

func (id *identity) look() error {
	for path, opened := range id.files {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("sqlite: %s was removed while it was open (%w): put it back, or open the store anew", path, fs.ErrNotExist)
		case err == nil && !os.SameFile(opened, info):
			return fmt.Errorf("sqlite: %s was replaced by another file while it was open: open the store anew", path)
		}
	}
	return nil
}
