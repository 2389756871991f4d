package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"os"
)

// openReaders opens the connections that only read.
func (f *file) openReaders(ctx context.Context) error {
	const readers = 4
	var err error
	for _, mode := range f.readerModes() {
		if f.readers, err = sql.Open("sqlite", f.dsn(mode...)); err != nil {
			return err
		}
		f.readers.SetMaxOpenConns(readers)
		f.readers.SetMaxIdleConns(readers)
		if err = f.read(ctx, f.checkOpen); err == nil || !isCantOpen(err) {
			return err
		}
		_ = f.readers.Close()
	}
	return err
}

// readerModes are the ways to open the file for reading, to be tried in this
// order. A connection that may write takes log and shared memory away when it
// is the last one to close. One that may not leaves what it made, in the way of
// those who may write: so it joins a log that is there, or else reads the file
// as it lies.
func (f *file) readerModes() [][]string {
	joined, asItLies := []string{"mode=ro"}, []string{"mode=ro", "immutable=1"}
	if !f.opts.ReadOnly { // the writer closes after the readers
		return [][]string{joined}
	}
	var modes [][]string
	if f.mayWrite() && f.isOurs() {
		modes = append(modes, []string{"mode=rw", "_pragma=query_only(1)"})
	}
	log, err := os.Stat(f.path + "-wal")
	if err == nil {
		modes = append(modes, joined)
	}
	if err != nil || log.Size() == 0 { // else commits wait there, and the file alone is not what was stored
		modes = append(modes, asItLies)
	}
	return modes
}

// mayWrite tells whether this user may, as far as the file itself says.
func (f *file) mayWrite() bool {
	info, err := os.Stat(f.path)
	if err != nil || info.Mode().Perm()&0o222 == 0 { // which root has to respect, too
		return false
	}
	file, err := os.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return file.Close() == nil
}

// isOurs tells whether the header says so: closing the file of another program
// must not tidy it up.
func (f *file) isOurs() bool {
	const where = 68
	file, err := os.Open(f.path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	var id [4]byte
	_, err = file.ReadAt(id[:], where)
	return err == nil && binary.BigEndian.Uint32(id[:]) == applicationID
}
