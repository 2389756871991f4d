package tty

import (
	"strconv"
	"time"
)

// Wait formats a wait with its two largest units, rounded up.
func Wait(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.FormatFloat(float64((d+99*time.Millisecond)/(100*time.Millisecond))/10, 'f', 1, 64) + "s"
	case d < time.Hour:
		return twoUnits(d, time.Minute, "m", time.Second, "s")
	case d < 48*time.Hour:
		return twoUnits(d, time.Hour, "h", time.Minute, "m")
	}
	return twoUnits(d, 24*time.Hour, "d", time.Hour, "h")
}

func twoUnits(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	n := int64(d / small)
	if d%small > 0 {
		n++
	}
	per := int64(large / small)
	text := strconv.FormatInt(n/per, 10) + largeName
	if rest := n % per; rest > 0 {
		text += strconv.FormatInt(rest, 10) + smallName
	}
	return text
}
