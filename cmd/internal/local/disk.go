package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// ErrDiskFull is wrapped by the errors of an engine that cannot write its data.
var ErrDiskFull = errors.New("the disk of the engine is full")

// Diagnose returns why an engine answers with errors, or nil if it finds no reason:
// a full disk, as its log shows or as the folder of its data does.
func (f *Folder) Diagnose(ctx context.Context, e *Engine) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()

	var log bytes.Buffer
	// Without a log, the folder decides.
	_ = e.Logs(ctx, &log, LogOptions{Lines: 10 * shownLines})
	full := mentionsFullDisk(log.String())
	// The data of a container are on the disk of its daemon, which the folder
	// does not show.
	if e.Process == nil {
		if full {
			return fmt.Errorf("%w; free some space for Docker", ErrDiskFull)
		}
		return nil
	}

	if full || f.isFull(e.Port) {
		return fmt.Errorf("%w; free some space, or set XDG_STATE_HOME to a folder elsewhere", ErrDiskFull)
	}
	return nil
}

// mentionsFullDisk reports whether a log has a message about a full disk, of the
// system or of SQLite.
func mentionsFullDisk(log string) bool {
	log = strings.ToLower(log)
	return strings.Contains(log, "no space left on device") || strings.Contains(log, "disk is full")
}

// isFull reports whether the folder of a port has no room for a small file.
func (f *Folder) isFull(port int) bool {
	const size = 64 << 10
	name := f.at(port, "room")
	err := f.write(name, make([]byte, size))
	// The answer is known, whether or not the file can be removed.
	_ = os.Remove(name)
	return errors.Is(err, syscall.ENOSPC)
}
