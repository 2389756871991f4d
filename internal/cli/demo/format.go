package demo

import (
	"fmt"
	"strconv"
	"time"
)

// compact is a number in at most five characters: 950, 4.2k, -12k.
func compact(n int64) string {
	switch size := max(n, -n); {
	case size < 1000:
		return strconv.FormatInt(n, 10)
	case size < 10_000 && n%1000 != 0:
		return strconv.FormatFloat(float64(n/100)/10, 'f', 1, 64) + "k"
	}
	return strconv.FormatInt(n/1000, 10) + "k"
}

// seconds is a time with one digit after the point: 1.2s.
func seconds(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.2fs", d.Seconds())
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}
