package plot

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

func TestUsageOfNothingIsNothing(t *testing.T) {
	if got := Usage(nil, 80, true); got != "" {
		t.Errorf("%q", got)
	}
}

// Headings and limits are sorted, in whatever order the snapshots are.
func TestUsageIsSorted(t *testing.T) {
	var all []limiter.UsageSnapshot
	for _, entity := range []string{"b", "a"} {
		for _, resource := range []string{"r2", "r1"} {
			for _, window := range []limiter.Window{limiter.Monthly, limiter.Hourly, limiter.Daily} {
				s := at(window, date(2026, 1, 1, 0), map[string]int64{"y": 1, "x": 2})
				s.Entity, s.Resource = entity, resource
				all = append(all, s)
			}
		}
	}
	var want []string
	for _, name := range []string{"a  r1", "a  r2", "b  r1", "b  r2"} {
		for _, window := range []string{"hourly", "daily", "monthly"} {
			want = append(want, name+"  "+window, "x", "y")
		}
	}
	var got []string
	for line := range strings.Lines(Usage(all, 80, false)) {
		if limit, _, found := strings.Cut(line, "  "); found && strings.HasPrefix(line, " ") {
			got = append(got, strings.TrimSpace(limit))
		} else if strings.HasPrefix(line, "a ") || strings.HasPrefix(line, "b ") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUsageDoesNotDependOnTheOrder(t *testing.T) {
	all := append(mergedRange(), negativeValues()...)
	want := Usage(all, 80, true)
	slices.Reverse(all)
	if diff := cmp.Diff(want, Usage(all, 80, true)); diff != "" {
		t.Error(diff)
	}
}

// Snapshots that start inside a window are added to it.
func TestUsageAddsUpAWindow(t *testing.T) {
	all := hours(100, 40)
	late := all[1]
	late.Start = late.Start.Add(30 * time.Minute)
	late.Counters = map[string]int64{"tpm": 20}
	text := Usage(append(all, late), 80, false)
	for _, want := range []string{"tpm  total 160  peak 100 at 01-01 00:00", "UTC · 2 hours\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	p := read(t, text, "tpm")
	if got := p.value(t, p.columns()-1); got != "60" {
		t.Errorf("the last column is at %s, want 60", got)
	}
}

func TestUsageWithNothingToDraw(t *testing.T) {
	none := at(limiter.Daily, date(2026, 1, 31, 0), nil)
	want := "key-abc  gpt-4  daily\nnothing to draw: no limit was used\n2026-01-31 UTC · 1 day\n"
	if got := Usage([]limiter.UsageSnapshot{none}, 80, false); got != want {
		t.Errorf("no counters: %q, want %q", got, want)
	}
	weekly := at("weekly", date(2026, 1, 31, 0), map[string]int64{"tpm": 1})
	want = "key-abc  gpt-4  weekly\nnothing to draw: a window is \"hourly\", \"daily\" or \"monthly\"\n"
	if got := Usage([]limiter.UsageSnapshot{weekly}, 80, false); got != want {
		t.Errorf("a window that is not known: %q, want %q", got, want)
	}
}

// The peak covers all windows, and a window without a snapshot counts as 0.
func TestPeak(t *testing.T) {
	all := hours(-5, -3, -4)
	for _, c := range []struct {
		snapshots []limiter.UsageSnapshot
		want      string
	}{
		{all, " tpm  total -12  peak -3 at 01-01 01:00\n"},
		{[]limiter.UsageSnapshot{all[0], all[2]}, " tpm  total -9  peak 0\n"},
		{hours(0, 0), " tpm  total 0  peak 0\n"},
		{hours(3, 8, 8), " tpm  total 19  peak 8 at 01-01 01:00\n"},
		{
			hours(math.MaxInt64, 1),
			" tpm  total 9,223,372,036,854,775,807\n peak 9,223,372,036,854,775,807 at 01-01 00:00\n",
		},
	} {
		text := Usage(c.snapshots, 80, false)
		if !strings.Contains(text, c.want) {
			t.Errorf("%q is not in:\n%s", c.want, text)
		}
	}
}

func TestLongNamesAreCut(t *testing.T) {
	s := hours(1)
	s[0].Entity = strings.Repeat("e", 256)
	for width, want := range map[int]string{
		80: strings.Repeat("e", 64) + "…  gpt-4  hourly",
		40: strings.Repeat("e", 24) + "…  gpt-4  hourly",
	} {
		if got, _, _ := strings.Cut(Usage(s, width, false), "\n"); got != want {
			t.Errorf("%d: %q, want %q", width, got, want)
		}
	}
	s[0].Resource = strings.Repeat("r", 64)
	want := strings.Repeat("e", 29) + "…  " + strings.Repeat("r", 39) + "…  hourly"
	if got, _, _ := strings.Cut(Usage(s, 80, false), "\n"); got != want || tty.Width(got) != 80 {
		t.Errorf("%q, want %q", got, want)
	}
}

// Control characters of a damaged name do not reach the terminal.
func TestNamesArePrintable(t *testing.T) {
	s := hours(1)
	s[0].Entity, s[0].Resource = "a\x1b[31m\nb", "r\xff\u202e"
	s[0].Counters["\x9b世"] = 1
	text := Usage(s, 80, false)
	if !strings.HasPrefix(text, "a?[31m?b  r??  hourly\n") || !strings.Contains(text, "\n ??   1  █") {
		t.Errorf("%q", text)
	}
}

// A snapshot of the year 9999 makes a long axis, but takes no more memory.
func TestDamagedTimeCostsNothing(t *testing.T) {
	s := append(hours(5_000_000_000, 3), at(limiter.Hourly, date(9999, 12, 31, 23), map[string]int64{"tpm": 7}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text := Usage(s, 80, false)
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 10<<20 {
		t.Errorf("it takes %d bytes", bytes)
	}
	for _, want := range []string{
		"69,898,632 hours", "69,898,629 without a snapshot", "each column is the mean of about 1,0",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

func TestColour(t *testing.T) {
	plain, colour := Usage(negativeValues(), 80, false), Usage(negativeValues(), 80, true)
	if strings.Contains(plain, "\x1b") {
		t.Error("escapes in plain text")
	}
	for _, want := range []string{
		"\x1b[1mkey-abc  gpt-4  hourly\x1b[0m\n", "\x1b[2m  6,000 ┤\x1b[0m\n", "\x1b[32m ", "\x1b[31m ",
	} {
		if !strings.Contains(colour, want) {
			t.Errorf("%q is not in:\n%q", want, colour)
		}
	}
	if diff := cmp.Diff(plain, uncoloured(colour)); diff != "" {
		t.Errorf("colour changes more than the colour:\n%s", diff)
	}
}

func uncoloured(text string) string {
	for _, code := range []string{"0", "1", "2", "31", "32"} {
		text = strings.ReplaceAll(text, "\x1b["+code+"m", "")
	}
	return text
}
