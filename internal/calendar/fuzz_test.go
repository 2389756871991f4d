package calendar_test

import (
	"sync"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// FuzzWindow checks the laws at any instants, and compares instants that the oracle
// knows with it.
func FuzzWindow(f *testing.F) {
	f.Add(uint16(0), uint8(0), int64(0), int64(1), int64(2))
	f.Add(uint16(500), uint8(3), since, until-1, extremes[0])
	f.Add(uint16(300), uint8(1), extremes[len(extremes)-1], until, extremes[0])
	names := zoneNames(f)
	firsts := sync.OnceValue(newAlmanac)
	f.Fuzz(func(t *testing.T, zone uint16, unit uint8, a, b, c int64) {
		name, by := names[int(zone)%len(names)], zonedUnits[int(unit)%len(zonedUnits)]
		w := load(t, by, name)
		checkLaws(t, w, a, b, c)
		if since <= min(a, b) && max(a, b) < until {
			firsts().oracle(by, stretches(location(t, name))).check(t, w, a, b)
		}
		hours := load(t, calendar.Hour, "")
		checkLaws(t, hours, a, b, c)
	})
}
