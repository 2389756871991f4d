//go:build unix

package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const firstFD, lastFD = 3, 63

// maxPipe is the maximum size of a pipe, unless a privileged process enlarged it.
const maxPipe = 1 << 20

// report is the pipe on which the child reports. The zero value has no pipe.
type report struct {
	// The child inherits files from descriptor 3 on. The last is the pipe.
	files   []*os.File
	pipe    *os.File // the end to read
	line    func(string)
	reading sync.WaitGroup
	// rest is the most that may be read after the deadline, in bytes.
	rest int
}

func openReport(fd int, line func(string)) (*report, error) {
	if fd == 0 {
		return &report{}, nil
	}
	if fd < firstFD || fd > lastFD {
		return nil, fmt.Errorf("invalid report descriptor %d: must be from %d to %d", fd, firstFD, lastFD)
	}

	pipe, end, err := os.Pipe()
	if err != nil {
		return nil, err
	}

	r := &report{pipe: pipe, line: line, rest: maxPipe}

	// The place of a file in ExtraFiles is its descriptor in the child, so the
	// lower ones come first.
	for below := firstFD; below < fd; below++ {
		r.files = append(r.files, copyInherited(below))
	}

	r.files = append(r.files, end)
	return r, nil
}

// copyInherited returns a copy of a descriptor that a child would inherit, or nil
// if it would not. exec.Cmd passes only the descriptors listed in ExtraFiles.
func copyInherited(fd int) *os.File {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return nil
	}

	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(dup), "inherited")
}

// listen starts to read. The child has its own copies of the files by now.
func (r *report) listen() {
	if r.pipe == nil {
		return
	}
	r.closeFiles()
	r.reading.Go(func() { readLines(r, r.line) })
}

// close waits for the last line and closes the pipe.
func (r *report) close() {
	if r.pipe == nil {
		return
	}

	r.closeFiles()
	// Pipes support deadlines, so this does not fail.
	_ = r.pipe.SetReadDeadline(time.Now().Add(drainTimeout))
	r.reading.Wait()
	_ = r.pipe.Close()
}

func (r *report) closeFiles() {
	for _, f := range r.files {
		// Close does nothing for the nil file of a gap.
		_ = f.Close()
	}
	r.files = nil
}

// Read reads from the pipe. After the deadline it reads only what the pipe holds,
// since a deadline alone would lose what the child wrote while this process was
// slow. It then reads no more than the size of a pipe, since a process may write
// without end.
func (r *report) Read(p []byte) (int, error) {
	n, err := r.pipe.Read(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) || r.rest <= 0 {
		return n, err
	}

	n, err = r.readNow(p)
	r.rest -= n
	return n, err
}

func (r *report) readNow(p []byte) (n int, err error) {
	conn, err := r.pipe.SyscallConn()
	if err != nil {
		return 0, err
	}

	// conn.Read fails after the deadline, but conn.Control does not. A pipe of
	// package os does not block, so the read of an empty one fails at once.
	failed := conn.Control(func(fd uintptr) { n, err = unix.Read(int(fd), p) })
	if err := errors.Join(failed, err); err != nil {
		return 0, err
	}

	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// readLines calls line for each line of r, cut at MaxLine. An unfinished line
// counts only at the end of r: after any other error its rest is missing.
func readLines(r io.Reader, line func(string)) {
	in := bufio.NewReaderSize(r, MaxLine)
	for {
		piece, err := in.ReadSlice('\n')
		text := strings.TrimSuffix(string(piece), "\n")
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}

		if err == nil || errors.Is(err, io.EOF) && text != "" {
			line(text)
		}
		if err != nil {
			return
		}
	}
}
