package tty

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/term"
)

// Keys reads the keys that are pressed on a terminal, without echo. Until restore
// is called, a line must start with "\r\n", as [Lines] writes it, and Ctrl-C is a
// key. The channel is nil if in is not a terminal. It is closed when in ends.
func Keys(in any) (keys <-chan byte, restore func()) {
	f, ok := in.(*os.File)
	if !ok || f == nil || !term.IsTerminal(int(f.Fd())) {
		return nil, func() {}
	}

	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, func() {}
	}

	pressed := make(chan byte)
	done := make(chan struct{})
	// A read from a terminal cannot be cancelled, so the goroutine ends with the
	// next key, or with the program.
	go func() {
		defer close(pressed)
		var key [1]byte
		for {
			if n, err := f.Read(key[:]); n == 0 || err != nil {
				return
			}
			// After restore, a key has no reader.
			select {
			case pressed <- key[0]:
			case <-done:
				return
			}
		}
	}()

	return pressed, func() {
		close(done)
		_ = term.Restore(int(f.Fd()), before)
	}
}

// Lines is a writer for a terminal whose keys are read.
type Lines struct{ io.Writer }

// Write replaces "\n" with "\r\n".
func (l Lines) Write(p []byte) (int, error) {
	if _, err := l.Writer.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(p), nil
}
