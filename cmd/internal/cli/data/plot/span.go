package plot

import (
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
)

// span is a range of windows from first to last. Windows have numbers, so that a
// span of thousands of years costs no more than one of an hour.
type span struct {
	window      limiter.Window
	first, last int64
}

const (
	hourSeconds = 60 * 60
	daySeconds  = 24 * hourSeconds
)

// windowAt returns the number of the window of t. Hours and days are counted from
// 1970, months from the year 0.
func windowAt(w limiter.Window, t time.Time) int64 {
	start, _ := w.Bounds(t)
	switch w {
	case limiter.Hourly:
		return start.Unix() / hourSeconds
	case limiter.Daily:
		return start.Unix() / daySeconds
	}
	return int64(start.Year())*12 + int64(start.Month()-time.January)
}

// start returns the first second of a window.
func (s span) start(window int64) time.Time {
	switch s.window {
	case limiter.Hourly:
		return time.Unix(window*hourSeconds, 0).UTC()
	case limiter.Daily:
		return time.Unix(window*daySeconds, 0).UTC()
	}
	return time.Date(0, time.January+time.Month(window), 1, 0, 0, 0, 0, time.UTC)
}

func (s span) windows() int64 { return s.last - s.first + 1 }

// label returns the start of a window. An hour has its year only if the span
// covers several years.
func (s span) label(window int64) string {
	start := s.start(window)
	switch s.window {
	case limiter.Hourly:
		if s.start(s.first).Year() == s.start(s.last).Year() {
			return start.Format("01-02 15:04")
		}
		return start.Format("2006-01-02 15:04")
	case limiter.Daily:
		return start.Format("2006-01-02")
	}
	return start.Format("2006-01")
}

// String returns the span from its first to its last minute, day or month.
func (s span) String() string {
	layout := map[limiter.Window]string{
		limiter.Hourly: "2006-01-02 15:04", limiter.Daily: "2006-01-02", limiter.Monthly: "2006-01",
	}[s.window]

	_, end := s.window.Bounds(s.start(s.last))
	from, to := s.start(s.first).Format(layout), end.Format(layout)
	if from == to {
		return from + " UTC"
	}
	return from + " to " + to + " UTC"
}

func (s span) unit() string {
	return map[limiter.Window]string{limiter.Hourly: "hour", limiter.Daily: "day", limiter.Monthly: "month"}[s.window]
}

// count formats a number of windows: 24 hours.
func (s span) count(n int64) string {
	if n == 1 {
		return "1 " + s.unit()
	}
	return tty.Number(n) + " " + s.unit() + "s"
}

// about formats a number of windows, with a digit after the point below 10: 1.5
// hours, 33 hours.
func (s span) about(n float64) string {
	digits := 0

	// 9.96 would be rounded to 10.0, with a digit too many.
	if n < 9.95 {
		digits = 1
	}

	text := strings.TrimSuffix(strconv.FormatFloat(n, 'f', digits, 64), ".0")
	return grouped(text) + " " + s.unit() + "s"
}
