//go:build unix

package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const firstFD, lastFD = 3, 63

// largestPipe is how much a pipe can hold, unless a privileged process enlarged
// it.
const largestPipe = 1 << 20

// report is the pipe on which the child reports; the zero report is none.
type report struct {
	files   []*os.File // for the child, from descriptor 3 on; the last is the pipe
	pipe    *os.File   // our end of it
	line    func(string)
	reading sync.WaitGroup
	rest    int // bytes still to be read when time is up
}

func openReport(fd int, line func(string)) (*report, error) {
	if fd == 0 {
		return &report{}, nil
	}
	if fd < firstFD || fd > lastFD {
		return nil, fmt.Errorf("the descriptor to report on is %d, but has to be from %d to %d", fd, firstFD, lastFD)
	}
	pipe, end, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r := &report{pipe: pipe, line: line, rest: largestPipe}
	for below := firstFD; below < fd; below++ {
		r.files = append(r.files, inherited(below))
	}
	r.files = append(r.files, end)
	return r, nil
}

// inherited is a copy of a descriptor that a child would have if it were not
// told which ones to have, nil if it would not.
func inherited(fd int) *os.File {
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

// listen begins to read. The child has its files by now.
func (r *report) listen() {
	if r.pipe == nil {
		return
	}
	r.closeFiles()
	r.reading.Go(func() { readLines(r, r.line) })
}

// close waits for the last line, if there is a child that may write it.
func (r *report) close() {
	if r.pipe == nil {
		return
	}
	r.closeFiles()
	_ = r.pipe.SetReadDeadline(time.Now().Add(patience)) // a pipe can have one
	r.reading.Wait()
	_ = r.pipe.Close()
}

func (r *report) closeFiles() {
	for _, f := range r.files {
		_ = f.Close() // of nil it does nothing
	}
	r.files = nil
}

// Read waits until there is something or the time is up, and from then on takes
// only what is there: a deadline alone would lose what the child wrote while
// this process was slow. Nor does it take more than a pipe holds then, since
// somebody may write without end.
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
	failed := conn.Control(func(fd uintptr) { n, err = unix.Read(int(fd), p) })
	if err := errors.Join(failed, err); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
