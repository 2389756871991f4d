package plot

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// hours returns hourly snapshots of one limit, from the start of a month.
func hours(tokens ...int64) (all []limiter.UsageSnapshot) {
	for hour, n := range tokens {
		all = append(all, at(limiter.Hourly, date(2026, 1, 1, hour), map[string]int64{"tpm": n}))
	}
	return all
}

// All values are ticks of the axis, so that each column can be read exactly.
func TestEveryColumnIsAtTheValueOfItsWindow(t *testing.T) {
	for _, tokens := range [][]int64{
		{0, 200, 1000, 1000, 400, 0, 600, 800, 1000, 200},
		{-400, 600, 0, -200, 400, 200, -400},
		{-1000, -200, -1000},
		{5, 3, 0, 1},
		{0, 0, 0},
		{1000, 1000, 1000},
		{-20, -20},
		{125, 25},
		{8_000_000_000_000_000, 0, 2_000_000_000_000_000},
		{-8_000_000_000_000_000, 2_000_000_000_000_000},
	} {
		for _, width := range []int{40, 80, 120, 200} {
			p := read(t, Usage(hours(tokens...), width, false), "tpm")
			repeat := p.columns() / len(tokens)
			if p.columns() != repeat*len(tokens) || repeat < 1 {
				t.Fatalf("%v at %d: %d columns", tokens, width, p.columns())
			}
			for column := range p.columns() {
				if got, want := p.value(t, column), tty.Number(tokens[column/repeat]); got != want {
					t.Errorf("%v at %d: column %d is at %q, want %q", tokens, width, column, got, want)
				}
			}
		}
	}
}

func TestChartFillsTheWidth(t *testing.T) {
	const margin = 5 // " 20 ┤"
	for n := 2; n <= 200; n++ {
		tokens := make([]int64, n)
		tokens[n/2] = 20
		for _, width := range []int{40, 80, 120, 200} {
			room := width - margin
			want := room / n * n
			if n > room {
				want = room
			}
			if got := read(t, Usage(hours(tokens...), width, false), "tpm").columns(); got != want {
				t.Errorf("%d windows at %d: %d columns, want %d", n, width, got, want)
			}
		}
	}
}

// A peak is drawn in the columns of its hour only.
func TestPeakIsAtItsHour(t *testing.T) {
	tokens := make([]int64, 24)
	tokens[15] = 100
	p := read(t, Usage(hours(tokens...), 80, false), "tpm")
	top := string(p.rows[0])
	const repeat = 3 // 74 columns for 24 hours
	if want := strings.Repeat(" ", 15*repeat) + "╭──╮"; p.labels[0] != "100" || top != want {
		t.Errorf("the top row is %s: %q, want 100: %q", p.labels[0], top, want)
	}
}

// Every other pair of the eight hours in a column has tokens.
func TestMergedColumnsAreMeans(t *testing.T) {
	const hoursOfColumn = 8
	const columns = 74
	tokens := make([]int64, columns*hoursOfColumn)
	for i := range tokens {
		if i%4 < 2 {
			tokens[i] = 40
		}
		if i/hoursOfColumn == 30 {
			tokens[i] *= 5
		}
	}
	text := Usage(hours(tokens...), 80, false)
	p := read(t, text, "tpm")
	if p.columns() != columns {
		t.Fatalf("%d columns, want %d", p.columns(), columns)
	}
	for column := range columns {
		want := "20"
		if column == 30 {
			want = "100"
		}
		if got := p.value(t, column); got != want {
			t.Errorf("column %d is at %q, want %q", column, got, want)
		}
	}
	for _, want := range []string{"each column is the mean of about 8 hours", "peak 200 at 01-11 00:00", "592 hours"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// Charts of one heading can be compared column by column.
func TestChartsOfAGroupAreAligned(t *testing.T) {
	all := hours(0, 100, 20, 0)
	for _, s := range all {
		s.Counters["rpm"] = s.Counters["tpm"] / 20
	}
	text := Usage(all, 80, false)
	rpm, tpm := read(t, text, "rpm"), read(t, text, "tpm")
	if rpm.ruler != tpm.ruler || rpm.times != tpm.times {
		t.Errorf("the rulers differ:\n%s", text)
	}
	for column := range tpm.columns() {
		want := map[string]string{"0": "0", "20": "1", "100": "5"}[tpm.value(t, column)]
		if got := rpm.value(t, column); got != want {
			t.Errorf("column %d is at %q, want %q", column, got, want)
		}
	}
}

func TestGapsAreZero(t *testing.T) {
	all := hours(100, 100, 100, 100, 100, 100)
	text := Usage([]limiter.UsageSnapshot{all[5], all[0], all[3]}, 80, false)
	p := read(t, text, "tpm")
	for window, want := range []string{"100", "0", "0", "100", "0", "100"} {
		if got := p.value(t, window*p.columns()/6); got != want {
			t.Errorf("window %d is at %s, want %s", window, got, want)
		}
	}
	if !strings.Contains(text, "6 hours · 3 without a snapshot") {
		t.Errorf("the gaps are not told:\n%s", text)
	}
}

func TestTimesAreBelowTheirWindows(t *testing.T) {
	for _, c := range []struct {
		window limiter.Window
		last   time.Time
		times  []string
		marks  []int // of 115 columns
	}{
		{limiter.Hourly, date(2025, 12, 30, 1), []string{"12-30 00:00", "12-30 01:00"}, []int{0, 57}},
		{
			limiter.Hourly, date(2025, 12, 30, 20),
			[]string{"12-30 00:00", "12-30 10:00", "12-30 20:00"},
			[]int{0, 50, 100},
		},
		{
			limiter.Hourly, date(2026, 1, 1, 0),
			[]string{"2025-12-30 00:00", "2025-12-31 00:00", "2026-01-01 00:00"},
			[]int{0, 48, 96},
		},
		{limiter.Daily, date(2026, 2, 2, 0), []string{"2025-12-30", "2026-01-16", "2026-02-02"}, []int{0, 51, 102}},
		{limiter.Monthly, date(2027, 2, 2, 0), []string{"2025-12", "2026-07", "2027-02"}, []int{0, 49, 98}},
	} {
		counters := map[string]int64{"tpm": 1}
		all := []limiter.UsageSnapshot{at(c.window, c.last, counters), at(c.window, date(2025, 12, 30, 0), counters)}
		p := read(t, Usage(all, 120, false), "tpm")
		if got := strings.Join(strings.Fields(p.times), " "); got != strings.Join(c.times, " ") {
			t.Errorf("%s to %v: %q, want %q", c.window, c.last, got, c.times)
		}
		for i, mark := range c.marks {
			if ruler := []rune(p.ruler); ruler[mark] != '┬' {
				t.Errorf("%s to %v: no mark at %d in %s", c.window, c.last, mark, p.ruler)
			}
			if begin := strings.Index(p.times, c.times[i]); mark < begin || mark >= begin+len(c.times[i]) {
				t.Errorf("%s to %v: %s is not below its mark:\n%s\n%s", c.window, c.last, c.times[i], p.ruler, p.times)
			}
		}
	}
}
