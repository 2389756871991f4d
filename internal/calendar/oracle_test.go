package calendar_test

import (
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // every zone, also on machines without a database

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

const secondsPerDay = 86_400

// The oracle covers the years from since to until. Its scan begins before and ends
// after them, so that it knows the latest date at the first instant, and the next
// boundary after the last.
var (
	scanFrom = time.Date(1899, 12, 1, 0, 0, 0, 0, time.UTC).Unix()
	scanFor  = time.Date(2202, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
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

// dateOf returns the days since 1970 of a local time in seconds.
func dateOf(local int64) int64 {
	sinceMidnight := (local%secondsPerDay + secondsPerDay) % secondsPerDay
	return (local - sinceMidnight) / secondsPerDay
}

// almanac lists the first dates of units, in days since 1970.
type almanac map[calendar.Unit][]int64

// newAlmanac walks through the calendar date by date.
func newAlmanac() almanac {
	firsts := almanac{}
	day := time.Unix(scanFrom, 0).UTC()
	for ; day.Unix() < scanFor; day = day.AddDate(0, 0, 1) {
		date := dateOf(day.Unix())
		firsts[calendar.Day] = append(firsts[calendar.Day], date)
		if day.Weekday() == time.Monday {
			firsts[calendar.Week] = append(firsts[calendar.Week], date)
		}
		if day.Day() == 1 {
			firsts[calendar.Month] = append(firsts[calendar.Month], date)
		}
		if day.YearDay() == 1 {
			firsts[calendar.Year] = append(firsts[calendar.Year], date)
		}
	}
	return firsts
}

// oracle lists all boundaries of a unit in a zone in milliseconds.
type oracle []int64

// oracle scans all stretches for the first instants of units. Since dates that have
// begun are behind it, its place in the almanac is the running maximum of the local
// date.
func (a almanac) oracle(unit calendar.Unit, all []stretch) oracle {
	dates := a[unit]
	found := make(oracle, 0, len(dates))
	var boundary int64
	for _, s := range all {
		last := dateOf(s.to - 1 + s.offset)
		begun := 0
		for _, date := range dates {
			if date > last {
				break
			}
			begun++
			at := max(s.from, date*secondsPerDay-s.offset) * 1000
			if at != boundary {
				boundary = at
				found = append(found, at)
			}
		}
		dates = dates[begun:]
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
	forget(w, a)
	if got, want := w.Count(a, b), int64(j-i); got != want {
		t.Errorf("Count(%s, %s) = %d, want %d", show(a), show(b), got, want)
	}
	if got, want := w.End(a), o[i]; got != want {
		t.Errorf("End(%s) = %s, want %s", show(a), show(got), show(want))
	}
	if j > 1 { // The first is where the scan begins.
		forget(w, b)
		if got, want := w.Start(b), o[j-1]; got != want {
			t.Errorf("Start(%s) = %s, want %s", show(b), show(got), show(want))
		}
	}
	if got, want := w.After(a, int64(j-i+1)), o[j]; got != want {
		t.Errorf("After(%s, %d) = %s, want %s", show(a), j-i+1, show(got), show(want))
	}
}
