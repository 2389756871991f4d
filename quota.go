package limiter

import (
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/calendar"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// Calendar is the length of a quota's window. The zero Calendar is none.
type Calendar uint8

// The windows of quotas. An hour is in UTC; the others are in UTC or in the zone
// of the limit.
const (
	EveryHour  = Calendar(calendar.Hour)
	EveryDay   = Calendar(calendar.Day)
	EveryWeek  = Calendar(calendar.Week) // ISO weeks, which begin on Monday
	EveryMonth = Calendar(calendar.Month)
	EveryYear  = Calendar(calendar.Year)
)

var calendarNames = [...]string{"", "hour", "day", "week", "month", "year"}

// String returns "hour", "day", "week", "month" or "year", and "" for none.
func (c Calendar) String() string {
	if int(c) < len(calendarNames) {
		return calendarNames[c]
	}
	return fmt.Sprintf("Calendar(%d)", uint8(c))
}

// ParseCalendar returns the Calendar with a name. It returns an *[InvalidError] if
// there is none.
func ParseCalendar(name string) (Calendar, error) {
	for i, known := range calendarNames[1:] {
		if known == name {
			return Calendar(i + 1), nil
		}
	}
	return 0, invalid("window", name, "must be "+windowNames)
}

const windowNames = "hour, day, week, month or year"

// Quota returns a limit of n tokens in every calendar window. It starts full, gains
// nothing inside a window, and n tokens at each boundary, up to n. Debt is carried
// over: the next window pays it. The windows are in UTC; [Limit.In] chooses a zone.
func Quota(name string, n int64, every Calendar) Limit {
	return Limit{Name: name, Capacity: n, Window: every}
}

// In returns a quota whose windows begin at midnight in an IANA zone, such as
// "Europe/Berlin". Where midnight does not exist, the window begins with the first
// instant of the new date. "UTC" is the same as "".
func (l Limit) In(zone string) Limit {
	// Both spellings mean the same, and stores find a change of limits by
	// comparing them.
	if zone == "UTC" {
		zone = ""
	}
	l.Zone = zone
	return l
}

// IsQuota reports whether l is a quota, and not a rate.
func (l Limit) IsQuota() bool { return l.Window != 0 }

// IsMoney reports whether l counts money, in millionths of a dollar: its name is
// spend, or begins with spend and one of "_", "." and "-", such as spend_daily.
// Texts show its amounts in dollars. Stores and charges treat it like any other.
func (l Limit) IsMoney() bool { return figure.IsMoney(l.Name) }

// Shadow returns l as a shadow limit: it is judged, counted and reported, and it
// never refuses. A charge that it does not cover leaves its balance alone, so that
// its numbers are the same as if it were enforced.
func (l Limit) Shadow() Limit {
	l.IsShadow = true
	return l
}

// Enforced returns l as a limit that refuses.
func (l Limit) Enforced() Limit {
	l.IsShadow = false
	return l
}

// window returns the calendar of a quota, or nil for a rate.
func (l Limit) window() *calendar.Window {
	if l.Window == 0 {
		return nil
	}
	w, _ := calendar.Load(calendar.Unit(l.Window), l.Zone)
	return w
}

// validateWindow checks the fields of a quota.
func (l Limit) validateWindow() error {
	switch {
	case l.Window > EveryYear:
		return invalid("window", l.Window.String(), "must be "+windowNames)
	case l.Refill != 0 || l.Period != 0:
		return invalid("window", l.Window.String(),
			"must not have a refill or a burst; a quota gains its whole capacity at the start of each window")
	case l.Zone == "":
		return nil
	case l.Zone == "UTC":
		return invalid("zone", l.Zone, `must be "" for UTC; call In`)
	case l.Window == EveryHour:
		return invalid("zone", l.Zone, "must be empty for an hour, which is in UTC")
	}

	if _, err := calendar.Load(calendar.Unit(l.Window), l.Zone); err != nil {
		if right := spellZone(l.Zone); right != "" {
			return invalid("zone", l.Zone, fmt.Sprintf("must be spelled %q", right))
		}
		return unknown("zone", l.Zone, `is not known here; give an IANA name such as "Europe/Berlin", `+
			"and import time/tzdata where the system has no zone data")
	}
	return nil
}

// spellZone returns the name of a zone in the usual letters, or "" if there is no
// such zone.
func spellZone(zone string) string {
	// The rule below would make Utc of it.
	if upper := strings.ToUpper(zone); upper == "UTC" {
		return upper
	}

	words := []byte(strings.ToLower(zone))
	// The database spells almost all names in this way, such as
	// America/New_York.
	for i := range words {
		if i == 0 || strings.IndexByte("/_-", words[i-1]) >= 0 {
			words[i] = strings.ToUpper(string(words[i]))[0]
		}
	}

	if _, err := calendar.Load(calendar.Day, string(words)); err != nil || string(words) == zone {
		return ""
	}
	return string(words)
}

// parseQuota parses CAPACITY@WINDOW and an optional zone. It returns the reason if
// they have no valid form.
func parseQuota(name, text, zone string) (limit Limit, why string) {
	count, window, _ := strings.Cut(text, "@")
	n, why := parseTokens(name, "capacity", count)
	if why != "" {
		return limit, why
	}

	every, err := ParseCalendar(window)
	if err != nil {
		return limit, fmt.Sprintf("its window %q is not %s", truncate(window), windowNames)
	}
	return Quota(name, n, every).In(zone), ""
}

// rate converts l to the units of package bucket.
func (l Limit) rate() bucket.Rate {
	r := bucket.RateOf(l.Capacity, l.Refill, l.Period)
	r.Window = l.window()
	return r
}
