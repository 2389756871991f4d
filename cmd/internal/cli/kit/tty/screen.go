package tty

import (
	"fmt"
	"io"
	"os"
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
