package tty

import (
	"strconv"
	"time"
)

// Bytes is a size for people: "812 B", "3.4 MB".
func Bytes(n int64) string {
	const step = 1024
	if n < step {
		return strconv.FormatInt(n, 10) + " B"
	}
	size, units := float64(n)/step, "KMGT"
	for size >= step && len(units) > 1 {
		size, units = size/step, units[1:]
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + " " + units[:1] + "B"
}

// Duration is a time for people who waited: "3 s", "2 min 5 s".
func Duration(d time.Duration) string {
	seconds := int64(d.Round(time.Second) / time.Second)
	if seconds < 60 {
		return strconv.FormatInt(seconds, 10) + " s"
	}
	return strconv.FormatInt(seconds/60, 10) + " min " + strconv.FormatInt(seconds%60, 10) + " s"
}
