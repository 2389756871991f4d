package plot

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Windows have consecutive numbers and match Bounds.
func TestWindowsFollowEachOther(t *testing.T) {
	for _, c := range []struct {
		window limiter.Window
		first  time.Time
		n      int64
	}{
		{limiter.Hourly, date(1969, 12, 30, 5), 24 * 400},
		{limiter.Hourly, date(2023, 12, 30, 5), 24 * 400},
		{limiter.Daily, date(1890, 12, 30, 5), 366 * 230},
		{limiter.Monthly, date(1, 1, 1, 0), 12 * 2100},
		{limiter.Monthly, date(9990, 1, 1, 0), 12 * 20},
	} {
		first := windowAt(c.window, c.first)
		s := span{c.window, first, first + c.n}
		next := c.first
		for i := range c.n {
			start, end := c.window.Bounds(next)
			if got := windowAt(c.window, end); got != first+i {
				t.Fatalf("%s: %v is in window %d, want %d", c.window, end, got, first+i)
			}
			if got := s.start(first + i); !got.Equal(start) {
				t.Fatalf("%s: window %d starts %v, want %v", c.window, first+i, got, start)
			}
			next = end.Add(time.Second)
		}
	}
}

func TestSpanHasItsUnit(t *testing.T) {
	for _, c := range []struct {
		window      limiter.Window
		first, last time.Time
		want        string
	}{
		{
			limiter.Hourly, date(2026, 1, 31, 15), date(2026, 1, 31, 15),
			"2026-01-31 15:00 to 2026-01-31 15:59 UTC, 1 hour",
		},
		{
			limiter.Hourly, date(2026, 1, 1, 0), date(2026, 3, 31, 23),
			"2026-01-01 00:00 to 2026-03-31 23:59 UTC, 2,160 hours",
		},
		{limiter.Daily, date(2026, 1, 31, 0), date(2026, 1, 31, 0), "2026-01-31 UTC, 1 day"},
		{limiter.Daily, date(2024, 2, 1, 0), date(2024, 3, 1, 0), "2024-02-01 to 2024-03-01 UTC, 30 days"},
		{limiter.Monthly, date(2025, 11, 30, 0), date(2026, 2, 28, 0), "2025-11 to 2026-02 UTC, 4 months"},
	} {
		s := span{c.window, windowAt(c.window, c.first), windowAt(c.window, c.last)}
		if got := s.String() + ", " + s.count(s.windows()); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestAbout(t *testing.T) {
	s := span{window: limiter.Daily}
	for n, want := range map[float64]string{
		1.04: "1 days", 1.52: "1.5 days", 3: "3 days", 9.94: "9.9 days", 9.96: "10 days", 32.7: "33 days",
		931_972.1: "931,972 days",
	} {
		if got := s.about(n); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
}
