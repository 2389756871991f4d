package demo

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/internal/golden"
)

// picture returns a frame with all kinds of content.
func picture() frame {
	f := frame{
		Store: "sqlite (temporary file)", Seed: 4711, Elapsed: 7234 * time.Millisecond, Duration: 15 * time.Second,
		Totals: totals{Calls: 168, Admitted: 95, Refused: 57, GaveUp: 10, Waiting: 6, Working: 4, RolledBack: 12},
	}
	for i, at := range buckets() {
		n := int64(i)
		f.Rows = append(f.Rows, row{
			Entity: at.Entity, Model: at.Resource, Key: at.Entity != "shop" && at.Entity != "lab",
			Gauges: []gauge{
				{limiter.PerMinute(rpm, 60).WithBurst(12), 12 - n},
				{limiter.PerMinute(tpm, 30_000).WithBurst(9_000), 9_000 - 951*n},
				{monthly(12), 120_000 - 13_579*n},
			},
			Admitted: 40 - i, Refused: 3 * i,
		})
	}
	f.Rows[2].Retry, f.Rows[2].RetryLimit = 11_940*time.Millisecond, tpm
	f.Rows[5].Retry, f.Rows[5].RetryLimit = 14*24*time.Hour, spend
	f.Rows[7].Retry, f.Rows[7].RetryLimit = 30*time.Millisecond, rpm
	f.Events = []event{
		{412 * time.Millisecond, "failed", "web", large, "its 316 tokens are rolled back"},
		{2100 * time.Millisecond, "waited", "batch", large, "admitted after 2.1s"},
		{4800 * time.Millisecond, "refused", "search", small, "wait 12.9s: tpm needs 1,644, owes 2,308"},
		{4900 * time.Millisecond, "refused", "bot", large, "wait 14d: spend needs $0.0066, has $0.0012 of $0.03"},
		{5100 * time.Millisecond, "gave up", "batch", large, "would wait 12.9s: lab tpm needs 1,644, owes 2,308"},
		{12_100 * time.Millisecond, "debt", "search", large, "5,119 tokens, not 594: search owes 2,700 for 12.9s"},
	}
	return f
}

func TestTableGolden(t *testing.T) {
	for _, size := range [][2]int{{80, 23}, {100, 39}, {120, 39}} {
		for name, style := range map[string]tty.Style{"plain": false, "colour": true} {
			lines := render(picture(), size[0], size[1], style)
			golden.Check(t, "testdata/"+fmt.Sprintf("table-%d-%s.txt", size[0], name), strings.Join(lines, "\n")+"\n")
		}
	}
}

// The longest texts fit into the narrowest table.
func TestTextsNeedNoCutting(t *testing.T) {
	texts := append(legend[:], picture().Totals.String())
	for _, e := range picture().Events {
		texts = append(texts, e.line(false))
	}
	for _, text := range texts {
		if n := tty.Width(text) + 1; n > minWidth {
			t.Errorf("%d columns: %s", n, text)
		}
	}
}

func TestTableFitsEverywhere(t *testing.T) {
	for width := range 160 {
		for height := range 45 {
			lines := render(picture(), width, height, true)
			if len(lines) > height {
				t.Fatalf("%d lines at %dx%d", len(lines), width, height)
			}
			for _, line := range lines {
				if n := tty.Width(line); n > width {
					t.Fatalf("%d columns at %dx%d: %q", n, width, height, line)
				}
			}
		}
	}
}

// An 80 by 24 terminal shows every bucket.
func TestTableShowsEveryBucketOnASmallTerminal(t *testing.T) {
	text := strings.Join(render(picture(), 80, 23, false), "\n")
	if got, want := strings.Count(text, large)+strings.Count(text, small), len(buckets()); got < want {
		t.Errorf("%d buckets of %d", got, want)
	}
	for _, k := range keys() {
		if !strings.Contains(text, "  "+k.id) || !strings.Contains(text, k.project) {
			t.Errorf("%s of %s is missing", k.id, k.project)
		}
	}
}

func TestTableKeepsTheLatestEvents(t *testing.T) {
	var out bytes.Buffer
	d := newDisplay(options{Screen: tty.NewScreen(&out, func() (int, int) { return 100, 40 })})
	f := picture()
	for i := range 20 {
		out.Reset()
		f.Events = []event{{What: "waited", Key: "batch", Model: large, Text: fmt.Sprintf("event %d.", i)}}
		if err := d.show(f); err != nil {
			t.Fatal(err)
		}
	}
	if s := out.String(); !strings.Contains(s, "event 19.") || !strings.Contains(s, "event 8.") ||
		strings.Contains(s, "event 7.") {
		t.Errorf("not the last %d events:\n%s", maxEvents, s)
	}
	out.Reset()
	if err := d.close(); err != nil || !strings.Contains(out.String(), "\x1b[?25h") {
		t.Errorf("the cursor stays hidden: %q, %v", &out, err)
	}
}
