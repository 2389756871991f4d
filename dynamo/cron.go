package dynamo

import (
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// Newer releases store a cron expression as the digit 1, then a letter and a value
// for each field that is not *: m minute, h hour, D day of the month, M month, w day
// of the week with Monday as 1. Semicolons separate several expressions.
const cronFields = "mhDMw"

// calendarOf returns the window that starts whenever a stored cron expression
// matches in a zone, or 0 if there is none. A window of an hour has no zone.
func calendarOf(stored, zone string) limiter.Calendar {
	fields, ok := splitCron(stored)
	if !ok {
		return 0
	}
	switch strings.Join(fields[:], " ") {
	case "0 * * * *":
		if zone == "" {
			return limiter.EveryHour
		}
	case "0 0 * * *":
		return limiter.EveryDay
	case "0 0 * * 1":
		return limiter.EveryWeek
	case "0 0 1 * *":
		return limiter.EveryMonth
	case "0 0 1 1 *":
		return limiter.EveryYear
	}
	return 0
}

// cronText returns a stored cron expression as people write it, or as it is stored
// if it is more than one.
func cronText(stored string) string {
	if fields, ok := splitCron(stored); ok {
		return strings.Join(fields[:], " ")
	}
	return stored
}

// splitCron returns the five fields of a stored cron expression. It fails for
// several expressions, and for a form that it does not know.
func splitCron(stored string) (fields [len(cronFields)]string, ok bool) {
	rest, ok := strings.CutPrefix(stored, "1")
	if !ok || strings.Contains(rest, ";") {
		return fields, false
	}

	for i := range fields {
		fields[i] = "*"
	}

	for rest != "" {
		field := strings.IndexByte(cronFields, rest[0])
		rest = rest[1:]
		end := strings.IndexFunc(rest, func(c rune) bool { return !strings.ContainsRune("0123456789*/,-", c) })
		if end < 0 {
			end = len(rest)
		}

		if field < 0 || end == 0 {
			return fields, false
		}
		fields[field], rest = cronValue(rest[:end]), rest[end:]
	}
	return fields, true
}

// cronValue returns the shortest form of a field.
func cronValue(s string) string {
	if s == "*/1" {
		return "*"
	}
	if short := strings.TrimLeft(s, "0"); strings.Trim(s, "0123456789") == "" {
		return s[len(s)-max(1, len(short)):]
	}
	return s
}
