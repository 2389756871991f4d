package tty

import (
	"bytes"
	"os"
	"testing"
)

func TestScreenRedrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	width, height := 10, 4
	s := NewScreen(&out, func() (int, int) { return width, height })
	step := func(name, want string, err error) {
		t.Helper()
		if got := out.String(); got != want || err != nil {
			t.Errorf("%s: %q, want %q; %v", name, got, want, err)
		}
		out.Reset()
	}
	step("close before anything", "", s.Close())
	step("first frame", "\x1b[?25lone\x1b[K\ntwo\x1b[K\n\x1b[J", s.Draw([]string{"one", "two"}))
	step("second frame", "\x1b[2A\rone\x1b[K\n\x1b[J", s.Draw([]string{"one"}))
	step("too large", "\x1b[1A\r0123456789\nb\x1b[K\nc\x1b[K\n\x1b[J", s.Draw([]string{"0123456789x", "b", "c", "d"}))
	width = 5
	step("another size", "\x1b[2J\x1b[Hone\x1b[K\n\x1b[J", s.Draw([]string{"one"}))
	step("close", "\x1b[1A\r\x1b[J\x1b[?25h", s.Close())
	step("close again", "", s.Close())
}

func TestOpenScreenWantsATerminal(t *testing.T) {
	if s := OpenScreen(&bytes.Buffer{}); s != nil {
		t.Error("a buffer is taken for a terminal")
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if s := OpenScreen(file); s != nil {
		t.Error("a file is taken for a terminal")
	}
}
