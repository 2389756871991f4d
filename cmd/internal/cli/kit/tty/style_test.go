package tty

import "testing"

func TestStyle(t *testing.T) {
	if got, want := Style(true).Red("x")+Style(true).Bold(""), "\x1b[31mx\x1b[0m"; got != want {
		t.Errorf("coloured: %q, want %q", got, want)
	}
	if got := Style(false).Red("x"); got != "x" {
		t.Errorf("plain: %q", got)
	}
}

func TestStyleFromEnv(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for value, want := range map[string]Style{"": true, "1": false, "no": false} {
		t.Setenv("NO_COLOR", value)
		if got := StyleFromEnv(); got != want {
			t.Errorf("NO_COLOR=%q: %v, want %v", value, got, want)
		}
	}
}

func TestClipKeepsColoursWhole(t *testing.T) {
	line := "ab" + Style(true).Green("█▌") + "c"
	if got := Width(line); got != 5 {
		t.Errorf("width %d, want 5", got)
	}
	for width, want := range []string{
		"\x1b[32m\x1b[0m", "a\x1b[32m\x1b[0m", "ab\x1b[32m\x1b[0m", "ab\x1b[32m█\x1b[0m", "ab\x1b[32m█▌\x1b[0m",
		line, line,
	} {
		if got := Clip(line, width); got != want {
			t.Errorf("width %d: %q, want %q", width, got, want)
		}
	}
}
