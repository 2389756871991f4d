package tty

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTableFits(t *testing.T) {
	columns := []Column{
		{Title: "NAME"},
		{Title: "PARENT"},
		{Title: "N", Right: true, Whole: true},
		{Title: "SPARE", Spare: true},
	}
	rows := [][]string{
		{"a-rather-long-name", "short", Style(true).Red("12"), "more"},
		{"プロジェクト-1", "another-long-name", "3,456", ""},
	}
	for width, want := range map[int][]string{
		60: {
			"NAME                PARENT                 N  SPARE",
			"a-rather-long-name  short                 \x1b[31m12\x1b[0m  more",
			"プロジェクト-1      another-long-name  3,456",
		},
		44: {
			"NAME                PARENT                 N",
			"a-rather-long-name  short                 \x1b[31m12\x1b[0m",
			"プロジェクト-1      another-long-name  3,456",
		},
	} {
		got := Table(columns, rows, width, false)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", width, diff)
		}
	}
	for width := range 80 {
		for _, line := range Table(columns, rows, width, true) {
			if Width(line) > width {
				t.Errorf("width %d: %d columns: %q", width, Width(line), line)
			}
			if strings.Contains(line, "3,4") && !strings.Contains(line, "3,456") {
				t.Errorf("width %d: a number is cut: %q", width, line)
			}
		}
	}
	if len(rows[0]) != 4 || len(columns) != 4 {
		t.Error("the arguments were changed")
	}
}

// TestTableWidensAgain checks that texts are cut only as far as the columns that
// remain need, and that a column to keep is dropped last.
func TestTableWidensAgain(t *testing.T) {
	columns := []Column{
		{Title: "ENTITY"},
		{Title: "RESOURCE"},
		{Title: "N", Right: true, Whole: true},
		{Title: "MODE", Whole: true, Keep: true},
		{Title: "WINDOW END", Whole: true},
	}
	rows := [][]string{{"key-abcdef", "completions", "1,000", "shadow", "2026-01-31 15:00:00"}}
	for width, want := range map[int]string{
		59: "key-abcdef  completions  1,000  shadow  2026-01-31 15:00:00",
		58: "key-abcdef  completio…  1,000  shadow  2026-01-31 15:00:00",
		49: "key-abcdef  completions  1,000  shadow",
		37: "key-abcdef  completio…  1,000  shadow",
		28: "key-abcd…  completi…  shadow",
		15: "key-ab…  shadow",
	} {
		got := Table(columns, rows, width, false)[1]
		if got != want {
			t.Errorf("width %d:\n%s, want\n%s", width, got, want)
		}
	}
}

// TestTableShowsWhatFitsInTheEnd checks that a narrow column returns after a wide one
// before it was dropped.
func TestTableShowsWhatFitsInTheEnd(t *testing.T) {
	columns := []Column{
		{Title: "ENTITY"},
		{Title: "REFILL", Right: true, Whole: true, Spare: true},
		{Title: "SOURCE", Spare: true},
		{Title: "WINDOW END", Whole: true, Spare: true},
	}
	rows := [][]string{{"key-abcdef", "50,000,000@month", "system", "2026-01-31 15:00:00"}}
	for width, want := range map[int]string{
		57: "key-abcdef  50,000,000@month  system  2026-01-31 15:00:00",
		36: "key-abcdef  50,000,000@month  system",
		28: "key-abcdef  50,000,000@month",
		27: "key-abcdef  system",
		17: "key-abcdef",
	} {
		if got := Table(columns, rows, width, false)[1]; got != want {
			t.Errorf("width %d:\n%s, want\n%s", width, got, want)
		}
	}
}

func TestEllipsis(t *testing.T) {
	for width, want := range []string{"", "…", "a…", "ab…", "abcd", "abcd"} {
		if got := Ellipsis("abcd", width); got != want {
			t.Errorf("%d: %q, want %q", width, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	text := "one two three\n  an indented line that is long\n" + strings.Repeat("x", 25)
	want := "one two\nthree\n  an\n  indented\n  line that\n  is long\nxxxxxxxxxxxx\nxxxxxxxxxxxx\nx"
	if diff := cmp.Diff(want, Wrap(text, 12)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Wrap("", 12); got != "" {
		t.Errorf("nothing: %q", got)
	}
	red := Style(true).Red("coloured")
	if got, want := Wrap("a "+red+" word", 12), "a "+red+"\nword"; got != want {
		t.Errorf("colours: %q, want %q", got, want)
	}
	for width := range 12 { // Wrap ends and loses nothing at any width
		got := Wrap("    プロ "+red, width)
		if plain := strings.NewReplacer("\n", "", " ", "").Replace(got); plain != "プロ"+red {
			t.Errorf("width %d: %q", width, got)
		}
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		available, capacity int64
		want                string
	}{
		{8, 8, "····"},
		{7, 8, "▌···"},
		{3, 8, "██▌·"},
		{0, 8, "████"},
		{9, 8, "····"}, // the capacity was lowered
		{-1, 8, "▒▒▒▒"},
		{-80, 8, "▒▒▒▒"},
	} {
		if got := Bar(c.available, c.capacity, 4, false); got != c.want {
			t.Errorf("Bar(%d, %d) = %s, want %s", c.available, c.capacity, got, c.want)
		}
	}
}
