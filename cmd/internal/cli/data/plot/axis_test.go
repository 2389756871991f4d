package plot

import (
	"math"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

func TestAxis(t *testing.T) {
	for _, c := range []struct {
		low, high   float64
		bottom, top string
		step        float64
	}{
		{0, 0, "0", "1", 1},
		{0, 0.3, "0", "1", 1},
		{-0.3, 0, "-1", "0", 1},
		{1, 5, "0", "5", 1},
		{0, 6, "0", "6", 2},
		{0, 100, "0", "100", 20},
		{0, 117_906, "0", "125,000", 25_000},
		{-2_600, 5_100, "-4,000", "6,000", 2_000},
		{-7, -5, "-8", "0", 2},
		{0, 9e15, "0", "10,000,000,000,000,000", 2e15},
		{math.MinInt64, math.MaxInt64, "-10,000,000,000,000,000,000", "10,000,000,000,000,000,000", 5e18},
	} {
		a := newAxis(c.low, c.high)
		if a.step != c.step || a.label(a.bottom) != c.bottom || a.label(a.top) != c.top || a.label(0) != "0" {
			t.Errorf("%v to %v: %s to %s by %v", c.low, c.high, a.label(a.bottom), a.label(a.top), a.step)
		}
		if a.height() < 8 || a.height() > 12 {
			t.Errorf("%v to %v: %d rows", c.low, c.high, a.height())
		}
	}
}

// A column may be a mean, whose label must not be wider than those of the values.
func TestLabelsOfMeansAreNotWider(t *testing.T) {
	for low := -1100.0; low <= 0; low += 13 {
		for high := 0.0; high <= 1100; high += 7 {
			widest := newAxis(low, high).width()
			for share := 0.0; share <= 1; share += 0.09 {
				for _, mean := range []axis{
					newAxis(low*share, high), newAxis(low, high*share), newAxis(low*share, high*share),
				} {
					if mean.width() > widest {
						t.Fatalf("%v to %v: means of %+v have wider labels", low, high, mean)
					}
				}
			}
		}
	}
}

// Windows have columns in order, and columns differ by at most one window.
func TestWindowsAreSpreadEvenly(t *testing.T) {
	const first = -37
	for room := minColumns; room <= 60; room += 7 {
		for n := int64(1); n <= 300; n++ {
			l := newLayout(span{limiter.Hourly, first, first + n - 1}, room)
			if l.columns > room || l.merged() != (n > int64(room)) {
				t.Fatalf("%d windows, room for %d: %d columns, merged %t", n, room, l.columns, l.merged())
			}
			got := make([]int64, l.columns)
			for window := l.first; window <= l.last; window++ {
				for i := range max(l.repeat, 1) {
					got[l.column(window)+i]++
				}
			}
			for column, windows := range got {
				if !l.merged() && windows != 1 {
					t.Fatalf("%d windows, room for %d: column %d shows %d", n, room, column, windows)
				}
				if l.merged() && (windows != l.size(column) || float64(windows) <= l.each()-1 ||
					float64(windows) >= l.each()+1) {
					t.Fatalf("%d windows, room for %d: column %d shows %d, its size is %d of about %v", n, room,
						column, windows, l.size(column), l.each())
				}
			}
		}
	}
}
