package calendar_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/calendar"
)

func TestLoadReturnsTheSameWindow(t *testing.T) {
	for unit := calendar.Hour; unit <= calendar.Year; unit++ {
		if load(t, unit, "") != load(t, unit, "UTC") {
			t.Errorf("%v: UTC has two windows", unit)
		}
	}
	tokyo := load(t, calendar.Day, "Asia/Tokyo")
	if load(t, calendar.Day, "Asia/Tokyo") != tokyo {
		t.Error("Tokyo has two windows of a day")
	}
	if load(t, calendar.Week, "Asia/Tokyo") == tokyo {
		t.Error("days and weeks share a window")
	}
	if tokyo == load(t, calendar.Day, "Asia/Seoul") {
		t.Error("Tokyo and Seoul share a window")
	}
}

func TestLoadRefusesZonesOfThisMachineOnly(t *testing.T) {
	for _, zone := range []string{
		"Local", "localtime", "posixrules", "posix/Europe/Berlin", "right/Europe/Berlin", "Europe/Nowhere",
		"Mars/Olympus",
		"europe/berlin", "Europe", "Europe/", "/Europe/Berlin", "Europe//Berlin", "Europe/./Berlin",
		"./Europe/Berlin", "../zoneinfo/UTC",
		`Europe\Berlin`, "Europe/Berlin ", " Europe/Berlin", "Europe/Berlin\x00", "Etc/../UTC", "+01:00", "utc",
		"Z", "Zürich", strings.Repeat("A", 10_000),
	} {
		w, err := calendar.Load(calendar.Day, zone)
		if !errors.Is(err, calendar.ErrUnknownZone) || w != nil {
			t.Errorf("Load(Day, %q): %v, want an ErrUnknownZone", zone, err)
		}
	}
}

func TestLoadKnowsEveryZone(t *testing.T) {
	for _, zone := range zoneNames(t) {
		if _, err := calendar.Load(calendar.Year, zone); err != nil {
			t.Error(err)
		}
	}
}

func TestLoadRefusesHoursWithAZone(t *testing.T) {
	_, err := calendar.Load(calendar.Hour, "Europe/Berlin")
	if err == nil || errors.Is(err, calendar.ErrUnknownZone) || !strings.Contains(err.Error(), "an hour has no zone") {
		t.Errorf("got %v", err)
	}
}

func TestLoadRefusesUnknownUnits(t *testing.T) {
	for _, unit := range []calendar.Unit{0, calendar.Year + 1, 255} {
		if _, err := calendar.Load(unit, ""); err == nil {
			t.Errorf("unit %d was loaded", unit)
		}
	}
}
