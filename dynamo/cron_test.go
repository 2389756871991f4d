package dynamo

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// The stored forms are what Python's zae-limiter 0.17.0 wrote for the expressions
// in the comments.
func TestCalendarOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		stored, zone string
		want         limiter.Calendar
		text         string
	}{
		{"1m0", "", limiter.EveryHour, "0 * * * *"},
		{"1m0", "Asia/Kolkata", 0, "0 * * * *"},
		{"1m0h*/1", "", limiter.EveryHour, "0 * * * *"}, // 0 */1 * * *
		{"1m0h0", "", limiter.EveryDay, "0 0 * * *"},
		{"1m0h0D*/1", "Asia/Tokyo", limiter.EveryDay, "0 0 * * *"},
		{"1m0h0w1", "", limiter.EveryWeek, "0 0 * * 1"}, // 0 0 * * mon
		{"1m0h0w7", "", 0, "0 0 * * 7"},                 // 0 0 * * SUN
		{"1m0h0w1-5", "", 0, "0 0 * * 1-5"},
		{"1m00h00D01", "Europe/Berlin", limiter.EveryMonth, "0 0 1 * *"}, // 00 00 01 * *
		{"1m0h0D1M1", "", limiter.EveryYear, "0 0 1 1 *"},                // 0 0 1 JAN *
		{"1m0h0D1M1,7", "", 0, "0 0 1 1,7 *"},
		{"1m0h0D10", "", 0, "0 0 10 * *"},
		{"1m30h6D15M*/3", "", 0, "30 6 15 */3 *"},
		{"1", "", 0, "* * * * *"},
		{"1m0h0D1;m0h0D15", "", 0, "1m0h0D1;m0h0D15"},
		{"2m0h0D1", "", 0, "2m0h0D1"}, // a form to come
		{"1x0", "", 0, "1x0"},
		{"1mh0", "", 0, "1mh0"},
		{"", "", 0, ""},
		{"-", "", 0, "-"},
	} {
		if got := calendarOf(test.stored, test.zone); got != test.want {
			t.Errorf("%q in %q: %v, want %v", test.stored, test.zone, got, test.want)
		}
		if got := cronText(test.stored); got != test.text {
			t.Errorf("%q: %q, want %q", test.stored, got, test.text)
		}
	}
}
