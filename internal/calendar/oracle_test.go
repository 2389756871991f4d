package calendar_test

import (
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // every zone, also on machines without a database

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

const secondsPerDay = 86_400

// The oracle covers these years. Its scan begins early enough to know the latest
// date at the first instant.
var (
	scanFrom = time.Date(1899, 12, 1, 0, 0, 0, 0, time.UTC).Unix()
	scanFor  = time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	since    = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	until    = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// stretch is a time in which the offset of a zone does not change.
type stretch struct{ from, to, offset int64 }

// stretches scans the transitions of a zone.
func stretches(zone *time.Location) []stretch {
	var found []stretch
	for at := scanFrom; at < scanFor; {
		local := time.Unix(at, 0).In(zone)
		_, offset := local.Zone()
		_, end := local.ZoneBounds()
		to := min(end.Unix(), scanFor)
		if end.IsZero() {
			to = scanFor
		}
		if to <= at { // ZoneBounds gives every year by rule 365 days.
			to = time.Date(local.UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		}
		if n := len(found); n > 0 && found[n-1].offset == int64(offset) {
			found[n-1].to = to
		} else {
			found = append(found, stretch{at, to, int64(offset)})
		}
		at = to
	}
	return found
}

// sunrise is an instant at which the latest date of a zone grows, in seconds and in
// days since 1970.
type sunrise struct{ at, date int64 }

// sunrises keeps the running maximum of the local date over all stretches.
func sunrises(all []stretch) []sunrise {
	latest := dateOf(all[0].from + all[0].offset)
	var found []sunrise
	for _, s := range all {
		for at := s.from; at < s.to; {
			date := dateOf(at + s.offset)
			if date > latest {
				latest = date
				found = append(found, sunrise{at, date})
			}
			at = (date+1)*secondsPerDay - s.offset
		}
	}
	return found
}

// dateOf returns the days since 1970 of a local time in seconds.
func dateOf(local int64) int64 {
	sinceMidnight := (local%secondsPerDay + secondsPerDay) % secondsPerDay
	return (local - sinceMidnight) / secondsPerDay
}

// almanac has a name for the unit of each date, such that two dates have the same
// name exactly if they lie in the same unit.
type almanac map[calendar.Unit][]int

// almanacFrom is the first date of an almanac.
var almanacFrom = scanFrom/secondsPerDay - 3

// newAlmanac walks through the calendar date by date.
func newAlmanac() almanac {
	names := almanac{}
	day := time.Unix(almanacFrom*secondsPerDay, 0).UTC()
	for ; day.Unix() < scanFor+3*secondsPerDay; day = day.AddDate(0, 0, 1) {
		isoYear, isoWeek := day.ISOWeek()
		names[calendar.Day] = append(names[calendar.Day], len(names[calendar.Day]))
		names[calendar.Week] = append(names[calendar.Week], isoYear*100+isoWeek)
		names[calendar.Month] = append(names[calendar.Month], day.Year()*100+int(day.Month()))
		names[calendar.Year] = append(names[calendar.Year], day.Year())
	}
	return names
}

// oracle lists all boundaries of a unit in a zone in milliseconds.
type oracle []int64

// oracle selects the sunrises in a new unit.
func (a almanac) oracle(unit calendar.Unit, days []sunrise) oracle {
	names := a[unit]
	found := make(oracle, 0, len(days))
	last := -1
	for _, d := range days {
		if name := names[d.date-almanacFrom]; name != last {
			found = append(found, d.at*1000)
			last = name
		}
	}
	return found
}

// upTo returns the number of boundaries up to ms.
func (o oracle) upTo(ms int64) int {
	i, found := slices.BinarySearch(o, ms)
	if found {
		i++
	}
	return i
}

// check compares a window with the oracle at two instants between since and until.
func (o oracle) check(t *testing.T, w *calendar.Window, a, b int64) {
	t.Helper()
	a, b = min(a, b), max(a, b)
	i, j := o.upTo(a), o.upTo(b)
	if got, want := w.End(a), o[i]; got != want {
		t.Errorf("End(%s) = %s, want %s", show(a), show(got), show(want))
	}
	if got, want := w.Start(b), o[j-1]; got != want && j > 1 {
		t.Errorf("Start(%s) = %s, want %s", show(b), show(got), show(want))
	}
	if got, want := w.Count(a, b), int64(j-i); got != want {
		t.Errorf("Count(%s, %s) = %d, want %d", show(a), show(b), got, want)
	}
	if got, want := w.After(a, int64(j-i+1)), o[j]; got != want {
		t.Errorf("After(%s, %d) = %s, want %s", show(a), j-i+1, show(got), show(want))
	}
}
