package plot

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

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
