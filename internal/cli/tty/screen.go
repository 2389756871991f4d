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

// ClearLine takes away what is right of the cursor.
const ClearLine = "\x1b[K"

// Screen redraws a few lines in place, below what the terminal shows already.
// It is not safe for concurrent use.
type Screen struct {
	out           io.Writer
	size          func() (width, height int)
	lines         int // of the frame that is shown
	width, height int // when it was drawn
	hidden        bool
}

// NewScreen is a screen on out, which is size large.
func NewScreen(out io.Writer, size func() (width, height int)) *Screen {
	return &Screen{out: out, size: size}
}

// OpenScreen is a screen on out if that is a terminal which can move its
// cursor, else nil.
func OpenScreen(out io.Writer) *Screen {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || !CanRedraw() {
		return nil
	}
	return NewScreen(Lines{out}, func() (width, height int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	})
}

// Size is the number of columns and lines of the terminal now.
func (s *Screen) Size() (width, height int) { return s.size() }

// Draw replaces the frame. Lines are cut at the width of the terminal, and those
// at the end for which it has no room are left out. The cursor stays hidden
// until Close.
func (s *Screen) Draw(frame []string) error {
	width, height := s.size()
	frame = frame[:min(len(frame), max(height-1, 0))]
	var b strings.Builder
	b.WriteString(s.begin(width, height))
	for _, line := range frame {
		b.WriteString(Clip(line, width))
		if Width(line) < width { // at the edge it would take the last character along
			b.WriteString(ClearLine)
		}
		b.WriteString("\n")
	}
	b.WriteString(clearToEnd)
	s.lines, s.width, s.height = len(frame), width, height
	_, err := io.WriteString(s.out, b.String())
	return err
}

// begin moves to where the frame starts. When the size changed, lines may have
// been wrapped, so that nobody knows where that is: then the frame moves to the
// top.
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

// Close takes the frame away and shows the cursor again. The screen may be drawn
// on afterwards.
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
