package aggregator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// ErrChanged is returned by [Files] for a file that has changed since it was read.
var ErrChanged = errors.New("the file has changed")

// Files stores the files of an archive.
type Files interface {
	// Read returns the content of a file and its version. The error matches
	// fs.ErrNotExist if there is none.
	Read(ctx context.Context, name string) (content []byte, version string, err error)
	// Write replaces a file atomically. The error matches ErrChanged if the file
	// does not have the given version. The version "" means that the file must
	// not exist.
	Write(ctx context.Context, name, version string, content []byte) error
}

// Archived is the result of [Aggregator.Archive].
type Archived struct {
	Events int // number of events that are in the archive
	Files  int // number of files written
	// Failed is the index of the first event to archive again, with all that
	// follow it. It is -1 if there is none.
	Failed int
	Err    error // all errors, joined
}

// Archives reports whether Options.Archive is set.
func (a *Aggregator) Archives() bool { return a.opts.Archive != nil }

// Archive writes events to files of gzipped JSON lines, one file for each hour, in
// a folder for each day. An event replaces itself, so the archive holds it once
// however often it is given. Without Options.Archive it does nothing.
func (a *Aggregator) Archive(ctx context.Context, events []Event) Archived {
	result := Archived{Failed: -1}
	if !a.Archives() {
		return result
	}

	byFile := map[string][]int{}
	var names []string
	for i := range events {
		name := events[i].file()
		if byFile[name] == nil {
			names = append(names, name)
		}
		byFile[name] = append(byFile[name], i)
	}

	r := &run{Aggregator: a, ctx: ctx}
	r.parallel(len(names), func(i int) {
		indexes := byFile[names[i]]
		written, err := a.archiveFile(ctx, names[i], events, indexes)

		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			result.Err = errors.Join(result.Err, fmt.Errorf("archive %s: %w", names[i], err))
			// The caller delivers the first failed event again, and all after
			// it.
			if result.Failed < 0 || indexes[0] < result.Failed {
				result.Failed = indexes[0]
			}
			return
		}

		result.Events += len(indexes)
		if written {
			result.Files++
		}
	})
	return result
}

// maxAttempts is the number of attempts to write a file that others write, too.
const maxAttempts = 20

// archiveFile adds the events with the given indexes to one file. It reports
// whether it wrote the file.
func (a *Aggregator) archiveFile(ctx context.Context, name string, events []Event, indexes []int) (bool, error) {
	part, last := 1, ErrChanged
	for range maxAttempts {
		if err := ctx.Err(); err != nil {
			return false, err
		}

		file := partOf(name, part)
		content, version, err := a.opts.Archive.Read(ctx, file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}

		lines, err := parseLines(content)
		if err != nil {
			// A damaged file stays for an operator to repair, and the events go
			// to the next part.
			part, last = part+1, err
			continue
		}

		changed := false
		for _, i := range indexes {
			added, err := lines.put(&events[i])
			if err != nil {
				return false, err
			}
			changed = changed || added
		}

		// After a replay, the file holds every event already.
		if !changed {
			return false, nil
		}

		if content, err = lines.gzip(); err != nil {
			return false, err
		}
		// If another writer was faster, the next attempt reads what it wrote.
		if err = a.opts.Archive.Write(ctx, file, version, content); !errors.Is(err, ErrChanged) {
			return err == nil, err
		}
		last = err
	}
	return false, fmt.Errorf("%s: %d attempts failed, the last with: %w", name, maxAttempts, last)
}

// partOf returns the name of a part of a file. Only a damaged file has a second
// part.
func partOf(name string, part int) string {
	if part > 1 {
		name += fmt.Sprintf("-%d", part)
	}
	return name + ".jsonl.gz"
}
