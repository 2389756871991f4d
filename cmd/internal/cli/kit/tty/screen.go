package tty

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

const (
	hideCursor  = "\x1b[?25l"
	showCursor  = "\x1b[?25h"
	clearAll    = "\x1b[2J\x1b[H"
	clearToEnd  = "\x1b[J"
	cursorUpFmt = "\x1b[%dA\r"
)

// ClearLine clears the line to the right of the cursor.
const ClearLine = "\x1b[K"

// Screen redraws a few lines in place, below what the terminal shows already.
// It is not safe for concurrent use.
type Screen struct {
	out           io.Writer
	size          func() (width, height int)
	lines         int // of the current frame
	width, height int // when it was drawn
	hidden        bool
}

// NewScreen returns a screen on out, with a function that returns its size.
func NewScreen(out io.Writer, size func() (width, height int)) *Screen {
	return &Screen{out: out, size: size}
}

// OpenScreen returns a screen on out, or nil if out is not a terminal that can
// move its cursor.
func OpenScreen(out io.Writer) *Screen {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || !CanRedraw() {
		return nil
	}

	// Keys may put the terminal into raw mode, where "\n" alone begins no line.
	return NewScreen(Lines{out}, func() (width, height int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	})
}

// Size returns the current number of columns and lines.
func (s *Screen) Size() (width, height int) { return s.size() }

// Draw replaces the frame. It cuts lines at the width of the terminal, and drops
// lines that do not fit its height. The cursor stays hidden until Close.
func (s *Screen) Draw(frame []string) error {
	width, height := s.size()
	frame = frame[:min(len(frame), max(height-1, 0))]

	// A single write keeps the terminal from showing half a frame.
	var b strings.Builder
	b.WriteString(s.begin(width, height))

	for _, line := range frame {
		b.WriteString(Clip(line, width))
		// At the edge, ClearLine would clear the last character.
		if Width(line) < width {
			b.WriteString(ClearLine)
		}
		b.WriteString("\n")
	}

	b.WriteString(clearToEnd)
	s.lines, s.width, s.height = len(frame), width, height
	_, err := io.WriteString(s.out, b.String())
	return err
}

// begin returns the sequence that moves to the start of the frame. After a change
// of the size that place is unknown, since lines may have been wrapped, so the
// frame moves to the top.
func (s *Screen) begin(width, height int) string {
	start := s.home()
	if s.lines > 0 && (width != s.width || height != s.height) {
		start = clearAll
	}

	if !s.hidden {
		s.hidden = true
		start = hideCursor + start
	}
	return start
}

func (s *Screen) home() string {
	if s.lines == 0 {
		return ""
	}
	return fmt.Sprintf(cursorUpFmt, s.lines)
}

// Close removes the frame and shows the cursor again. Draw may be called after
// Close.
func (s *Screen) Close() error {
	if !s.hidden {
		return nil
	}

	end := s.home()
	if end != "" {
		end += clearToEnd
	}

	s.lines, s.hidden = 0, false
	_, err := io.WriteString(s.out, end+showCursor)
	return err
}

// usualColumns is the width of a terminal of unknown width.
const usualColumns = 80

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && f != nil && term.IsTerminal(int(f.Fd()))
}

// IsFile reports whether a stream is a file on disk.
func IsFile(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok || f == nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// CanRedraw reports whether a terminal can move its cursor.
func CanRedraw() bool { return os.Getenv("TERM") != "dumb" }

// Columns returns the width of a stream: that of its terminal, else COLUMNS, else
// 80.
func Columns(stream any) int {
	if f, ok := stream.(*os.File); ok && f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		return width
	}
	return usualColumns
}

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
