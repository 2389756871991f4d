package cli

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

func TestCells(t *testing.T) {
	at := time.Date(2026, time.January, 31, 15, 4, 5, 0, time.FixedZone("", 3600))
	for _, c := range []struct {
		cell           cell
		display, plain string
	}{
		{text("Ada"), "Ada", "Ada"},
		{text(""), "-", ""},
		{text("プロ"), "プロ", "プロ"},
		{text("a\tb\nc\x1b[31m\\"), `a\tb\nc\x1b[31m\\`, `a\tb\nc\x1b[31m\\`},
		{text("left\u202eright\u200b"), `left\u202eright\u200b`, `left\u202eright\u200b`},
		{number(-1234567), "-1,234,567", "-1234567"},
		{tokens("tpm", 1_234_500), "1,234.5", "1234.5"},
		{tokens("tpm", -500), "-0.5", "-0.5"},
		{decimal(1234.5), "1,234.50", "1234.5"},
		{decimal(-0.25), "-0.25", "-0.25"},
		{yesNo(true), "yes", "true"},
		{yesNo(false), "no", "false"},
		{moment(at), "2026-01-31 14:04:05", "2026-01-31T14:04:05Z"},
		{moment(time.Time{}), "-", ""},
		{span(0), "-", "0"},
		{span(time.Millisecond), "0.1s", "0.001"},
		{span(9*time.Second + 40*time.Millisecond), "9.1s", "9.04"},
		{span(59*time.Second + 950*time.Millisecond), "60.0s", "59.95"},
		{span(time.Minute), "1m", "60"},
		{span(97 * time.Second), "1m37s", "97"},
		{span(time.Hour), "1h", "3600"},
		{span(2*time.Hour + time.Second), "2h1m", "7201"},
		{span(49 * time.Hour), "2d1h", "176400"},
		{span(math.MaxInt64), "106752d", "9223372036.854"},
	} {
		if c.cell.display != c.display || c.cell.plain != c.plain {
			t.Errorf("got %q and %q, want %q and %q", c.cell.display, c.cell.plain, c.display, c.plain)
		}
	}
}

// Names in messages come from stores to which other programs write.
func TestMessagesMoveNoCursor(t *testing.T) {
	var talk bytes.Buffer
	c := &console{err: &talk, errStyle: true}
	c.done("Recovered %s", "a\x1b[2Jb\nc")
	if want := "\x1b[32m✓\x1b[0m Recovered a\\x1b[2Jb\\nc\n"; talk.String() != want {
		t.Errorf("got %q, want %q", &talk, want)
	}
	if got, want := errorText(errors.New("namespace \x07 and\nmore")), `namespace \a and; more`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := counters(map[string]int64{"rpm\n": 1}, amount); got.display != `rpm\n=1` || got.plain != `rpm\n=1` {
		t.Errorf("got %q and %q", got.display, got.plain)
	}
}

// A damaged time is an error, not a panic.
func TestJSONOfADamagedTime(t *testing.T) {
	if text, err := encode(jsonview.NewEntity(limiter.Entity{ID: "key-1", CreatedAt: time.Unix(1e15, 0)})); err == nil {
		t.Errorf("got %s", text)
	}
}
