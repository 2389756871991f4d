package listen

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// maxFile is the most that a watched file may hold.
const maxFile = 4 << 20

// recheck is how often a watched file is read.
const recheck = time.Second

// Files holds a value that is parsed from files, and parsed again when their
// content changes. All methods are safe for concurrent use.
type Files[T any] struct {
	paths   []string
	parse   func(content ...[]byte) (T, error)
	changed func(error)
	// next is when to read again, in nanoseconds.
	next atomic.Int64
	// reading guards content and failure, which is the last one reported.
	reading sync.Mutex
	content [][]byte
	failure string
	value   atomic.Pointer[T]
}

// WatchFiles reads the files and parses their content, in the order of paths.
// When the content changes later, it calls changed with nil after a new value
// took effect, or with the reason why the old value stays. Until ctx ends it
// looks for changes every second, so that an idle server reports a mistake too.
// The caller may pass a nil changed.
func WatchFiles[T any](
	ctx context.Context, parse func(content ...[]byte) (T, error), changed func(error), paths ...string,
) (*Files[T], error) {
	if changed == nil {
		changed = func(error) {}
	}

	f := &Files[T]{paths: paths, parse: parse, changed: changed}
	content, err := f.read()
	if err != nil {
		return nil, err
	}

	value, err := parse(content...)
	if err != nil {
		return nil, err
	}

	f.content = content
	f.value.Store(&value)
	f.next.Store(time.Now().Add(recheck).UnixNano())
	go f.follow(ctx)
	return f, nil
}

// follow reads the files every second until ctx ends.
func (f *Files[T]) follow(ctx context.Context) {
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.Get()
		}
	}
}

// Get returns the value of the files as they were at most a second ago.
func (f *Files[T]) Get() T {
	// One caller reads, and the others take the last value rather than wait.
	if now := time.Now(); now.UnixNano() >= f.next.Load() && f.reading.TryLock() {
		f.next.Store(now.Add(recheck).UnixNano())
		f.refresh()
		f.reading.Unlock()
	}
	return *f.value.Load()
}

func (f *Files[T]) refresh() {
	content, err := f.read()
	if err != nil {
		f.report(err)
		return
	}

	same := true
	for i := range content {
		same = same && bytes.Equal(content[i], f.content[i])
	}
	// The file is as it was, so that a new mistake is reported even if it is
	// the same as the last one.
	if same {
		f.failure = ""
		return
	}

	value, err := f.parse(content...)
	if err != nil {
		f.report(err)
		return
	}

	f.content, f.failure = content, ""
	f.value.Store(&value)
	f.changed(nil)
}

// report passes an error on, once for each text.
func (f *Files[T]) report(err error) {
	if err.Error() != f.failure {
		f.failure = err.Error()
		f.changed(err)
	}
}

func (f *Files[T]) read() ([][]byte, error) {
	all := make([][]byte, len(f.paths))
	for i, path := range f.paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		// Reading a pipe would wait for its writer, and a device may have no
		// end.
		if !info.Mode().IsRegular() || info.Size() > maxFile {
			return nil, fmt.Errorf("%s: must be a file of at most %d bytes", path, maxFile)
		}

		if all[i], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return all, nil
}
