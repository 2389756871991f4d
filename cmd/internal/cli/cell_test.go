package cli

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

func TestCells(t *testing.T) {
	at := time.Date(2026, time.January, 31, 15, 4, 5, 0, time.FixedZone("", 3600))
	for _, c := range []struct {
		cell           kit.Cell
		display, plain string
	}{
		{kit.Text("Ada"), "Ada", "Ada"},
		{kit.Text(""), "-", ""},
		{kit.Text("プロ"), "プロ", "プロ"},
		{kit.Text("a\tb\nc\x1b[31m\\"), `a\tb\nc\x1b[31m\\`, `a\tb\nc\x1b[31m\\`},
		{kit.Text("left\u202eright\u200b"), `left\u202eright\u200b`, `left\u202eright\u200b`},
		{kit.Number(-1234567), "-1,234,567", "-1234567"},
		{kit.Tokens("tpm", 1_234_500), "1,234.5", "1234.5"},
		{kit.Tokens("tpm", -500), "-0.5", "-0.5"},
		{kit.Decimal(1234.5), "1,234.50", "1234.5"},
		{kit.Decimal(-0.25), "-0.25", "-0.25"},
		{kit.YesNo(true), "yes", "true"},
		{kit.YesNo(false), "no", "false"},
		{kit.Moment(at), "2026-01-31 14:04:05", "2026-01-31T14:04:05Z"},
		{kit.Moment(time.Time{}), "-", ""},
		{kit.Span(0), "-", "0"},
		{kit.Span(time.Millisecond), "0.1s", "0.001"},
		{kit.Span(9*time.Second + 40*time.Millisecond), "9.1s", "9.04"},
		{kit.Span(59*time.Second + 950*time.Millisecond), "60.0s", "59.95"},
		{kit.Span(time.Minute), "1m", "60"},
		{kit.Span(97 * time.Second), "1m37s", "97"},
		{kit.Span(time.Hour), "1h", "3600"},
		{kit.Span(2*time.Hour + time.Second), "2h1m", "7201"},
		{kit.Span(49 * time.Hour), "2d1h", "176400"},
		{kit.Span(math.MaxInt64), "106752d", "9223372036.854"},
	} {
		if c.cell.Display != c.display || c.cell.Plain != c.plain {
			t.Errorf("got %q and %q, want %q and %q", c.cell.Display, c.cell.Plain, c.display, c.plain)
		}
	}
}

// Names in messages come from stores to which other programs write.
func TestMessagesMoveNoCursor(t *testing.T) {
	var talk bytes.Buffer
	c := &kit.Console{Err: &talk, ErrStyle: true}
	c.Done("Recovered %s", "a\x1b[2Jb\nc")
	if want := "\x1b[32m✓\x1b[0m Recovered a\\x1b[2Jb\\nc\n"; talk.String() != want {
		t.Errorf("got %q, want %q", &talk, want)
	}
	if got, want := kit.Message(errors.New("namespace \x07 and\nmore")), `namespace \a and; more`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := counters(map[string]int64{"rpm\n": 1}, kit.Amount); got.Display != `rpm\n=1` || got.Plain != `rpm\n=1` {
		t.Errorf("got %q and %q", got.Display, got.Plain)
	}
}

// A damaged time is an error, not a panic.
func TestJSONOfADamagedTime(t *testing.T) {
	if text, err := kit.Encode(jsonview.NewEntity(limiter.Entity{ID: "key-1", CreatedAt: time.Unix(1e15, 0)})); err == nil {
		t.Errorf("got %s", text)
	}
}
