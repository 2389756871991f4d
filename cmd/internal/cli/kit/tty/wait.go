package tty

import (
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// Wait formats a wait for a table, as figure.Wait does. Seconds always have a
// decimal, so that a column that is redrawn does not jump.
func Wait(d time.Duration) string {
	if d < time.Minute {
		return strconv.FormatFloat(float64((d+99*time.Millisecond)/(100*time.Millisecond))/10, 'f', 1, 64) + "s"
	}
	return figure.Wait(d)
}
