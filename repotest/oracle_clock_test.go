package repotest

import (
	"testing"
	"time"
	_ "time/tzdata" // the test uses zones on every machine

	"github.com/zeroae/zae-limiter-go"
)

// TestAlmanacFindsWindows checks windows that are easy to get wrong: midnights that do
// not exist or exist twice, a date that was skipped, and days of 23 and 25 hours.
func TestAlmanacFindsWindows(t *testing.T) {
	const layout = "2006-01-02T15:04"
	for _, c := range []struct {
		every                limiter.Calendar
		zone, at, start, end string // in UTC
	}{
		{limiter.EveryHour, "", "2026-03-01T23:59", "2026-03-01T23:00", "2026-03-02T00:00"},
		{limiter.EveryDay, "", "2026-03-01T00:00", "2026-03-01T00:00", "2026-03-02T00:00"},
		{limiter.EveryDay, "Europe/Berlin", "2026-03-29T12:00", "2026-03-28T23:00", "2026-03-29T22:00"},
		{limiter.EveryDay, "Europe/Berlin", "2026-10-25T12:00", "2026-10-24T22:00", "2026-10-25T23:00"},
		{limiter.EveryDay, "America/Santiago", "2026-09-06T12:00", "2026-09-06T04:00", "2026-09-07T03:00"},
		{limiter.EveryDay, "America/Havana", "2026-11-01T04:30", "2026-11-01T04:00", "2026-11-02T05:00"},
		{limiter.EveryDay, "America/Havana", "2026-11-01T05:30", "2026-11-01T04:00", "2026-11-02T05:00"},
		{limiter.EveryDay, "Pacific/Apia", "2011-12-30T09:59", "2011-12-29T10:00", "2011-12-30T10:00"},
		{limiter.EveryDay, "Pacific/Apia", "2011-12-30T10:00", "2011-12-30T10:00", "2011-12-31T10:00"},
		{limiter.EveryWeek, "", "2026-03-01T12:00", "2026-02-23T00:00", "2026-03-02T00:00"},
		{limiter.EveryWeek, "Asia/Kolkata", "2026-03-01T18:30", "2026-03-01T18:30", "2026-03-08T18:30"},
		{limiter.EveryMonth, "Europe/Berlin", "2028-02-29T23:00", "2028-02-29T23:00", "2028-03-31T22:00"},
		{limiter.EveryYear, "", "2026-12-31T23:59", "2026-01-01T00:00", "2027-01-01T00:00"},
	} {
		at, err := time.Parse(layout, c.at)
		if err != nil {
			t.Fatal(err)
		}
		s := newAlmanac().spanAt(window{c.every, c.zone}, at.UnixMilli())
		start, end := time.UnixMilli(s.start).UTC().Format(layout), time.UnixMilli(s.end).UTC().Format(layout)
		if start != c.start || end != c.end {
			t.Errorf("%s in %q at %s: %s to %s, want %s to %s", c.every, c.zone, c.at, start, end, c.start, c.end)
		}
	}
}
