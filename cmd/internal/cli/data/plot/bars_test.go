package plot

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// A single window is drawn as bars, with one scale for all headings.
func TestOneWindowIsBars(t *testing.T) {
	at9 := func(entity string, counters map[string]int64) limiter.UsageSnapshot {
		s := at(limiter.Hourly, date(2026, 1, 1, 9), counters)
		s.Entity = entity
		return s
	}
	got := Usage([]limiter.UsageSnapshot{
		at9("a", map[string]int64{"rpm": 4, "tpm": 12_000}), at9("b", map[string]int64{"rpm": 8, "tpm": -6_000}),
		at9("c", map[string]int64{"rpm": 1}),
	}, 54, false)
	var bars []string
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, " ") {
			bars = append(bars, strings.TrimRight(line, "\n"))
		}
	}
	want := []string{
		" rpm       4  " + strings.Repeat("█", 20), " tpm  12,000  " + strings.Repeat("█", 40),
		" rpm       8  " + strings.Repeat("█", 40), " tpm  -6,000  " + strings.Repeat("█", 20),
		" rpm       1  " + strings.Repeat("█", 5),
	}
	if diff := cmp.Diff(want, bars); diff != "" {
		t.Errorf("%s\n%s", diff, got)
	}
	if coloured := Usage(
		[]limiter.UsageSnapshot{at9("a", map[string]int64{"tpm": math.MinInt64})}, 60, true,
	); !strings.Contains(coloured, "\x1b[31m█") {
		t.Errorf("a give-back is not red:\n%s", coloured)
	}
}
