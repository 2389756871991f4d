package calendar_test

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// TestBoundaries checks consecutive boundaries whose instants are known from the
// clocks of their places.
func TestBoundaries(t *testing.T) {
	for _, test := range []struct {
		name string
		unit calendar.Unit
		zone string
		want []string // each the end of the unit before
	}{
		{"an hour", calendar.Hour, "", []string{
			"2024-02-29T22:00:00Z", "2024-02-29T23:00:00Z", "2024-03-01T00:00:00Z",
		}},
		{"a leap day", calendar.Day, "UTC", []string{
			"2024-02-28T00:00:00Z", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z",
		}},
		{"no leap day in 2100", calendar.Day, "", []string{"2100-02-28T00:00:00Z", "2100-03-01T00:00:00Z"}},
		{"a month with a leap day", calendar.Month, "", []string{
			"2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z", "2024-04-01T00:00:00Z",
		}},
		{"months over new year", calendar.Month, "", []string{
			"1969-12-01T00:00:00Z", "1970-01-01T00:00:00Z", "1970-02-01T00:00:00Z",
		}},
		{"a week over new year", calendar.Week, "", []string{
			"2020-12-28T00:00:00Z", "2021-01-04T00:00:00Z", "2021-01-11T00:00:00Z",
		}},
		{"the week of 1970", calendar.Week, "", []string{
			"1969-12-22T00:00:00Z", "1969-12-29T00:00:00Z", "1970-01-05T00:00:00Z",
		}},
		{"years without a leap day", calendar.Year, "", []string{"1900-01-01T00:00:00Z", "1901-01-01T00:00:00Z"}},
		{"summer begins at midnight, which is missing", calendar.Day, "America/Sao_Paulo", []string{
			"2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z",
		}},
		{"summer ends at midnight, which waits", calendar.Day, "America/Sao_Paulo", []string{
			"2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z", "2018-02-19T03:00:00Z",
		}},
		{"a missing midnight in Beirut", calendar.Day, "Asia/Beirut", []string{
			"2024-03-29T22:00:00Z", "2024-03-30T22:00:00Z", "2024-03-31T21:00:00Z",
		}},
		{"a missing midnight in Cairo", calendar.Day, "Africa/Cairo", []string{
			"2023-04-26T22:00:00Z", "2023-04-27T22:00:00Z", "2023-04-28T21:00:00Z",
		}},
		{"a midnight that waits in Cairo", calendar.Day, "Africa/Cairo", []string{
			"2023-10-25T21:00:00Z", "2023-10-26T22:00:00Z", "2023-10-27T22:00:00Z",
		}},
		{"a missing midnight in Havana", calendar.Day, "America/Havana", []string{
			"2024-03-09T05:00:00Z", "2024-03-10T05:00:00Z", "2024-03-11T04:00:00Z",
		}},
		{"two midnights in Havana", calendar.Day, "America/Havana", []string{
			"2024-11-02T04:00:00Z", "2024-11-03T04:00:00Z", "2024-11-04T05:00:00Z",
		}},
		{"back over midnight in St John's", calendar.Day, "America/St_Johns", []string{
			"2010-11-06T02:30:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z",
		}},
		{"back into the month before", calendar.Month, "America/St_Johns", []string{
			"2009-10-01T02:30:00Z", "2009-11-01T02:30:00Z", "2009-12-01T03:30:00Z",
		}},
		{"forward after midnight in St John's", calendar.Day, "America/St_Johns", []string{
			"2010-03-13T03:30:00Z", "2010-03-14T03:30:00Z", "2010-03-15T02:30:00Z",
		}},
		{"a day less in Apia", calendar.Day, "Pacific/Apia", []string{
			"2011-12-28T10:00:00Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z",
		}},
		{"a week with a day less", calendar.Week, "Pacific/Apia", []string{
			"2011-12-26T10:00:00Z", "2012-01-01T10:00:00Z",
		}},
		{"a month with a day less", calendar.Month, "Pacific/Apia", []string{
			"2011-12-01T10:00:00Z", "2011-12-31T10:00:00Z", "2012-01-31T10:00:00Z",
		}},
		{"a date twice in Kwajalein", calendar.Day, "Pacific/Kwajalein", []string{
			"1969-09-28T13:00:00Z", "1969-09-29T13:00:00Z", "1969-10-01T12:00:00Z", "1969-10-02T12:00:00Z",
		}},
		{"a month that waits for a day", calendar.Month, "Pacific/Kwajalein", []string{
			"1969-08-31T13:00:00Z", "1969-10-01T12:00:00Z", "1969-11-01T12:00:00Z",
		}},
		{"a day less in Kwajalein", calendar.Day, "Pacific/Kwajalein", []string{
			"1993-08-19T12:00:00Z", "1993-08-20T12:00:00Z", "1993-08-21T12:00:00Z", "1993-08-22T12:00:00Z",
		}},
		{"a year that ends on 30 December", calendar.Year, "Pacific/Kiritimati", []string{
			"1994-01-01T10:00:00Z", "1994-12-31T10:00:00Z", "1995-12-31T10:00:00Z",
		}},
		{"two hours of summer in Troll", calendar.Day, "Antarctica/Troll", []string{
			"2024-03-31T00:00:00Z", "2024-03-31T22:00:00Z", "2024-04-01T22:00:00Z",
		}},
		{"half an hour of summer", calendar.Day, "Australia/Lord_Howe", []string{
			"2024-10-05T13:30:00Z", "2024-10-06T13:00:00Z", "2024-10-07T13:00:00Z",
		}},
		{"1900", calendar.Year, "America/New_York", []string{"1900-01-01T05:00:00Z", "1901-01-01T05:00:00Z"}},
		{"2200 in summer", calendar.Month, "Europe/Berlin", []string{"2200-03-31T22:00:00Z", "2200-04-30T22:00:00Z"}},
		{"2200 in the south", calendar.Year, "Australia/Sydney", []string{
			"2199-12-31T13:00:00Z", "2200-12-31T13:00:00Z",
		}},
		{"the end of a leap year by rule", calendar.Day, "Australia/Sydney", []string{
			"2096-12-29T13:00:00Z", "2096-12-30T13:00:00Z", "2096-12-31T13:00:00Z", "2097-01-01T13:00:00Z",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := load(t, test.unit, test.zone)
			first := instant(t, test.want[0])
			for i, text := range test.want[1:] {
				start, end := instant(t, test.want[i]), instant(t, text)
				for _, ms := range within(start, end) {
					forget(w, ms)
					if got := w.Start(ms); got != start {
						t.Errorf("Start(%s) = %s, want %s", show(ms), show(got), show(start))
					}
					if got := w.End(ms); got != end {
						t.Errorf("End(%s) = %s, want %s", show(ms), show(got), show(end))
					}
				}
				n := int64(i + 1)
				if got := w.Count(first, end); got != n {
					t.Errorf("Count(%s, %s) = %d, want %d", show(first), show(end), got, n)
				}
				if got := w.Count(first, end-1); got != n-1 {
					t.Errorf("Count(%s, %s) = %d, want %d", show(first), show(end-1), got, n-1)
				}
				if got := w.After(first, n); got != end {
					t.Errorf("After(%s, %d) = %s, want %s", show(first), n, show(got), show(end))
				}
			}
		})
	}
}

// within returns instants from start to end, close enough to meet clocks that show
// another date for an hour.
func within(start, end int64) []int64 {
	at := []int64{start, start + 1, end - 1}
	for i := range int64(100) {
		at = append(at, start+(end-start)/100*i)
	}
	return at
}

// forget makes a window compute its next answer for ms: the last one is for a year
// later.
func forget(w *calendar.Window, ms int64) { w.Start(ms + 400*secondsPerDay*1000) }

func load(tb testing.TB, unit calendar.Unit, zone string) *calendar.Window {
	tb.Helper()
	w, err := calendar.Load(unit, zone)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

func instant(tb testing.TB, text string) int64 {
	tb.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		tb.Fatal(err)
	}
	return at.UnixMilli()
}

func show(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }
