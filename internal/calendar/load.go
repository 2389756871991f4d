package calendar

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// ErrUnknownZone reports the name of a zone that this machine cannot load. The
// program may lack the database of zones, which the package time/tzdata embeds.
var ErrUnknownZone = errors.New("cannot be loaded")

// utc holds the windows of UTC by unit, and zoned the others by key. Windows are
// made once and shared, so that calls share their last bounds too. There are as
// many as the database has zones, times the units.
var (
	utc = [...]*Window{
		Hour: build(Hour, time.UTC), Day: build(Day, time.UTC), Week: build(Week, time.UTC),
		Month: build(Month, time.UTC), Year: build(Year, time.UTC),
	}
	zoned sync.Map
)

type key struct {
	unit Unit
	zone string
}

// Load returns the window of a unit in a zone, which is a name of the IANA database
// such as "Europe/Berlin". Both "" and "UTC" name UTC. It returns the same window
// for the same arguments. A zone that cannot be loaded is an ErrUnknownZone. Hours
// have no zone but UTC.
func Load(unit Unit, zone string) (*Window, error) {
	if unit < Hour || unit > Year {
		return nil, fmt.Errorf("unit %d: unknown; hour, day, week, month and year are known", unit)
	}

	if zone == "" || zone == "UTC" {
		return utc[unit], nil
	}

	if w, ok := zoned.Load(key{unit, zone}); ok {
		return w.(*Window), nil //nolint:errcheck // the map holds windows only
	}

	if unit == Hour {
		return nil, fmt.Errorf("zone %q: an hour has no zone; use UTC, or a day or a longer unit", zone)
	}

	if !isName(zone) {
		return nil, fmt.Errorf("zone %q: %w: it must be a name of the IANA database, such as Europe/Berlin", zone,
			ErrUnknownZone)
	}

	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("zone %q: %w: %v", zone, ErrUnknownZone, err)
	}

	// Another call may have stored the same window meanwhile. All calls share
	// one.
	w, _ := zoned.LoadOrStore(key{unit, zone}, build(unit, location))
	return w.(*Window), nil //nolint:errcheck // the map holds windows only
}

func build(unit Unit, zone *time.Location) *Window {
	c := clock{zone: zone, grain: unit.grain()}
	w := &Window{unit: unit, clock: c, gaps: findGaps(unit, c)}
	w.most = w.index(seconds(math.MaxInt64))
	return w
}

// isName reports whether name has the form of a name in the IANA database: parts
// between slashes that begin with a capital letter. This leaves out paths, the
// copies of the database in "posix" and "right", whose seconds differ, and
// "Local", which differs by machine.
func isName(name string) bool {
	if name == "Local" {
		return false
	}

	begins := true
	for _, r := range []byte(name) {
		switch {
		case 'A' <= r && r <= 'Z':
			begins = false
		case begins:
			return false
		case r == '/':
			begins = true
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '_', r == '-', r == '+':
		default:
			return false
		}
	}
	return !begins
}
