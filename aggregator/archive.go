package aggregator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// ErrChanged says that a file is no longer of the version that was read.
var ErrChanged = errors.New("the file has changed")

// Files is where an archive lies.
type Files interface {
	// Read is what a file holds, and its version. The error is fs.ErrNotExist if
	// there is none.
	Read(ctx context.Context, name string) (content []byte, version string, err error)
	// Write replaces a file, all of it or nothing. The error is ErrChanged if it is
	// not of that version; "" means that there must be none.
	Write(ctx context.Context, name, version string, content []byte) error
}

// Archived is what became of events.
type Archived struct {
	Events int // that the archive holds now
	Files  int // that were written
	// Failed is the index of the first event that has to be given again, with all
	// that come after it; -1 if there is none.
	Failed int
	Err    error // why, joined
}

// Archives tells whether events are kept anywhere.
func (a *Aggregator) Archives() bool { return a.opts.Archive != nil }

// Archive puts events into files of gzipped JSON lines, one for each hour, in
// the folder of its day. An event that a file holds is replaced, so however
// often and in whatever parts events are given, they are there once. Without
// Options.Archive it does nothing.
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
	r.each(len(names), func(i int) {
		indexes := byFile[names[i]]
		written, err := a.keep(ctx, names[i], events, indexes)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			result.Err = errors.Join(result.Err, fmt.Errorf("archive %s: %w", names[i], err))
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

// rounds is how often a file is tried that others write, too.
const rounds = 20

// keep puts some of the events into one file, and tells whether that had to be
// written.
func (a *Aggregator) keep(ctx context.Context, name string, events []Event, indexes []int) (bool, error) {
	part := 1
	for range rounds {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		file := partOf(name, part)
		content, version, err := a.opts.Archive.Read(ctx, file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		lines, err := parseLines(content)
		if err != nil { // not ours to repair, and nothing to wait for
			part++
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
		if !changed {
			return false, nil
		}
		if content, err = lines.gzip(); err != nil {
			return false, err
		}
		if err = a.opts.Archive.Write(ctx, file, version, content); !errors.Is(err, ErrChanged) {
			return err == nil, err
		}
	}
	return false, fmt.Errorf("%w %d times", ErrChanged, rounds)
}

// partOf names a file. The first that is whole is used.
func partOf(name string, part int) string {
	if part > 1 {
		name += fmt.Sprintf("-%d", part)
	}
	return name + ".jsonl.gz"
}
