package kit

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
		cell           Cell
		display, plain string
	}{
		{Text("Ada"), "Ada", "Ada"},
		{Text(""), "-", ""},
		{Text("プロ"), "プロ", "プロ"},
		{Text("a\tb\nc\x1b[31m\\"), `a\tb\nc\x1b[31m\\`, `a\tb\nc\x1b[31m\\`},
		{Text("left\u202eright\u200b"), `left\u202eright\u200b`, `left\u202eright\u200b`},
		{Number(-1234567), "-1,234,567", "-1234567"},
		{Tokens("tpm", 1_234_500), "1,234.5", "1234.5"},
		{Tokens("tpm", -500), "-0.5", "-0.5"},
		{Decimal(1234.5), "1,234.50", "1234.5"},
		{Decimal(-0.25), "-0.25", "-0.25"},
		{YesNo(true), "yes", "true"},
		{YesNo(false), "no", "false"},
		{Moment(at), "2026-01-31 14:04:05", "2026-01-31T14:04:05Z"},
		{Moment(time.Time{}), "-", ""},
		{Span(0), "-", "0"},
		{Span(time.Millisecond), "0.1s", "0.001"},
		{Span(9*time.Second + 40*time.Millisecond), "9.1s", "9.04"},
		{Span(59*time.Second + 950*time.Millisecond), "1m", "59.95"},
		{Span(time.Minute), "1m", "60"},
		{Span(97 * time.Second), "1m37s", "97"},
		{Span(time.Hour), "1h", "3600"},
		{Span(2*time.Hour + time.Second), "2h1m", "7201"},
		{Span(49 * time.Hour), "2d1h", "176400"},
		{Span(math.MaxInt64), "106752d", "9223372036.854"},
	} {
		if c.cell.Display != c.display || c.cell.Plain != c.plain {
			t.Errorf("got %q and %q, want %q and %q", c.cell.Display, c.cell.Plain, c.display, c.plain)
		}
	}
}

// Names in messages come from stores to which other programs write.
func TestMessagesMoveNoCursor(t *testing.T) {
	var talk bytes.Buffer
	c := &Console{Err: &talk, ErrStyle: true}
	c.Done("Recovered %s", "a\x1b[2Jb\nc")
	if want := "\x1b[32m✓\x1b[0m Recovered a\\x1b[2Jb\\nc\n"; talk.String() != want {
		t.Errorf("got %q, want %q", &talk, want)
	}
	if got, want := Message(errors.New("namespace \x07 and\nmore")), `namespace \a and; more`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A damaged time is an error, not a panic.
func TestJSONOfADamagedTime(t *testing.T) {
	if text, err := encode(jsonview.NewEntity(limiter.Entity{ID: "key-1", CreatedAt: time.Unix(1e15, 0)})); err == nil {
		t.Errorf("got %s", text)
	}
}
