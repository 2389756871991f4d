package calendar_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

// zonedUnits lists the units that may have a zone.
var zonedUnits = []calendar.Unit{calendar.Day, calendar.Week, calendar.Month, calendar.Year}

// zoneNames returns the names in a list of the IANA database, and those that this
// machine has besides.
func zoneNames(tb testing.TB) []string {
	tb.Helper()
	listed, err := os.ReadFile("testdata/zones.txt")
	if err != nil {
		tb.Fatal(err)
	}
	names := strings.Fields(string(listed))
	err = fs.WalkDir(os.DirFS("/usr/share/zoneinfo"), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		_, err = time.LoadLocation(name)
		if err == nil && 'A' <= name[0] && name[0] <= 'Z' {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func location(tb testing.TB, name string) *time.Location {
	tb.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		tb.Fatal(err)
	}
	return zone
}

// TestEveryZoneAgreesWithAScan compares every zone with a scan of its transitions,
// around each of them and at random instants.
func TestEveryZoneAgreesWithAScan(t *testing.T) {
	firsts := newAlmanac()
	seen := map[string]bool{}
	random := rand.New(rand.NewPCG(21, 1))
	for _, name := range zoneNames(t) {
		zone := location(t, name)
		all := stretches(zone)
		same := fmt.Sprint(all)
		if seen[same] {
			continue
		}
		seen[same] = true
		checkStretches(t, name, zone, all)
		for _, unit := range zonedUnits {
			checkWindow(t, name, unit, all, firsts.oracle(unit, all), random)
		}
		if t.Failed() {
			t.Fatalf("%s differs", name)
		}
	}
	if len(seen) < 250 {
		t.Errorf("%d zones differ from each other, want at least 250", len(seen))
	}
}

// checkStretches checks that a scan missed no transition, every three weeks.
func checkStretches(t *testing.T, name string, zone *time.Location, all []stretch) {
	t.Helper()
	i := 0
	for at := scanFrom; at < scanFor; at += 20*secondsPerDay + 3607 {
		for all[i].to <= at {
			i++
		}
		if _, offset := time.Unix(at, 0).In(zone).Zone(); int64(offset) != all[i].offset {
			t.Fatalf("%s: the scan missed a transition before %s", name, show(at*1000))
		}
	}
}

// byRule is when almost all clocks change by a yearly rule, or not at all.
var byRule = time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// checkWindow checks a window at the transitions of its zone, at instants in the
// days around them, and at random ones.
func checkWindow(t *testing.T, name string, unit calendar.Unit, all []stretch, want oracle, random *rand.Rand) {
	t.Helper()
	w := load(t, unit, name)
	check := func(a, b int64) {
		if since <= min(a, b) && max(a, b) < until {
			want.check(t, w, a, b)
		}
	}
	for i, s := range all {
		// Longer units meet the same clock as days do, and rules repeat.
		if i%4 != 0 && (unit != calendar.Day || s.from > byRule) {
			continue
		}
		at := s.from * 1000
		check(at-1, at)
		const days = 2 * secondsPerDay * 1000
		near := at - days + random.Int64N(2*days)
		next := want[min(want.upTo(near), len(want)-1)]
		check(near, next-1+random.Int64N(3))
	}
	for range 8 {
		check(since+random.Int64N(until-since), since+random.Int64N(until-since))
	}
	check(since, until-1)
	if t.Failed() {
		t.Fatalf("%s by %v differs", name, unit)
	}
}
