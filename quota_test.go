package limiter_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests use zones on every machine

	"github.com/zeroae/zae-limiter-go"
)

var monthly = limiter.Quota("tokens", 1_000_000, limiter.EveryMonth)

func TestQuota(t *testing.T) {
	want := limiter.Limit{Name: "tokens", Capacity: 1_000_000, Window: limiter.EveryMonth}
	if monthly != want || !monthly.IsQuota() || limiter.PerMinute("rpm", 1).IsQuota() {
		t.Errorf("got %+v, want %+v", monthly, want)
	}
	if got := monthly.In("Europe/Berlin"); got.Zone != "Europe/Berlin" || got.In("UTC") != monthly ||
		got.In("") != monthly {
		t.Errorf("got %+v in Berlin", got)
	}
	if got := monthly.Shadow(); !got.IsShadow || got.Enforced() != monthly {
		t.Errorf("got %+v as a shadow limit", got)
	}
}

func TestCalendarNames(t *testing.T) {
	for want, c := range map[string]limiter.Calendar{
		"": 0, "hour": limiter.EveryHour, "day": limiter.EveryDay, "week": limiter.EveryWeek,
		"month": limiter.EveryMonth, "year": limiter.EveryYear,
		"Calendar(9)": 9,
	} {
		if got := c.String(); got != want {
			t.Errorf("%d: got %q, want %q", c, got, want)
		}
		back, err := limiter.ParseCalendar(want)
		if c == 0 || c > limiter.EveryYear {
			invalid(t, err, "window")
		} else if err != nil || back != c {
			t.Errorf("%s: parsed %v, %v", want, back, err)
		}
	}
}

func TestQuotaIsBadInput(t *testing.T) {
	for _, c := range []struct {
		limit limiter.Limit
		field string // "" = valid
	}{
		{monthly, ""},
		{monthly.In("Pacific/Apia").Shadow(), ""},
		{limiter.Quota("x", 1, limiter.EveryHour), ""},
		{limiter.Quota("x", 0, limiter.EveryDay), "capacity"},
		{limiter.Quota("x", -1, limiter.EveryDay), "capacity"},
		{limiter.Quota("", 1, limiter.EveryDay), "name"},
		{limiter.Quota("x", 1, 0), "refill_amount"}, // no window: a rate without a refill
		{limiter.Quota("x", 1, 6), "window"},
		{limiter.Quota("x", 1, limiter.EveryHour).In("Europe/Berlin"), "zone"},
		{limiter.Quota("x", 1, limiter.EveryDay).In("Europe/Atlantis"), "zone"},
		{limiter.Quota("x", 1, limiter.EveryDay).In("Local"), "zone"},
		{limiter.Quota("x", 1, limiter.EveryDay).In("../etc/passwd"), "zone"},
		{limiter.Limit{Name: "x", Capacity: 1, Window: limiter.EveryDay, Zone: "UTC"}, "zone"},
		{limiter.Limit{Name: "x", Capacity: 1, Refill: 1, Window: limiter.EveryDay}, "window"},
		{limiter.Limit{Name: "x", Capacity: 1, Period: time.Second, Window: limiter.EveryDay}, "window"},
		{limiter.Quota("x", 100, limiter.EveryDay).WithBurst(70), "window"},
		{limiter.Quota("x", 100, limiter.EveryDay).WithBurst(100), "window"},
		{limiter.PerMinute("x", 1).In("Europe/Berlin"), "zone"},
		{limiter.PerMinute("x", 1).In("UTC"), ""},
	} {
		if err := c.limit.Validate(); c.field == "" {
			check(t, err)
		} else {
			invalid(t, err, c.field)
		}
	}
	bad := invalid(t, monthly.In("Europe/Atlantis").Validate(), "zone")
	if !strings.Contains(bad.Reason, "time/tzdata") {
		t.Errorf("%v does not name time/tzdata", bad.Reason)
	}
	for zone, want := range map[string]string{
		"europe/berlin": "Europe/Berlin", "EUROPE/BERLIN": "Europe/Berlin", "america/new_york": "America/New_York",
		"utc": "UTC", "Utc": "UTC",
	} {
		if bad := invalid(
			t, monthly.In(zone).Validate(), "zone",
		); bad.Reason != fmt.Sprintf("must be spelled %q", want) {
			t.Errorf("%s: %s", zone, bad.Reason)
		}
	}
}

func TestQuotaReadsLikeASentence(t *testing.T) {
	for want, l := range map[string]limiter.Limit{
		"tokens 1000000@month":          monthly,
		"spend $0.50@day:Europe/Berlin": limiter.Quota("spend", 500_000, limiter.EveryDay).In("Europe/Berlin"),
		"tokens 1000000@month shadow":   monthly.Shadow(),
		"rpm 100/min burst 9 shadow":    limiter.PerMinute("rpm", 100).WithBurst(9).Shadow(),
	} {
		if got := l.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestQuotaJSON(t *testing.T) {
	for text, l := range map[string]limiter.Limit{
		`{"name":"tokens","capacity":1000000,"refill_amount":0,"refill_period_seconds":0,"window":"month"}`:                      monthly,
		`{"name":"x","capacity":5,"refill_amount":0,"refill_period_seconds":0,"window":"day","zone":"Asia/Tokyo","shadow":true}`: limiter.Quota("x", 5, limiter.EveryDay).In("Asia/Tokyo").Shadow(),
		`{"name":"rpm","capacity":9,"refill_amount":9,"refill_period_seconds":60,"shadow":true}`:                                 limiter.PerMinute("rpm", 9).Shadow(),
	} {
		data, err := json.Marshal(l)
		check(t, err)
		if string(data) != text {
			t.Errorf("got %s, want %s", data, text)
		}
		var back limiter.Limit
		check(t, json.Unmarshal(data, &back))
		if back != l {
			t.Errorf("read %+v, want %+v", back, l)
		}
	}
	var short limiter.Limit
	check(t, json.Unmarshal([]byte(`{"name":"x","capacity":5,"window":"week","zone":"UTC"}`), &short))
	if want := limiter.Quota("x", 5, limiter.EveryWeek); short != want {
		t.Errorf("read %+v, want %+v", short, want)
	}
	for text, field := range map[string]string{
		`{"name":"x","capacity":5,"window":"fortnight"}`:                                            "window",
		`{"name":"x","capacity":5,"window":"Day"}`:                                                  "window",
		`{"name":"x","capacity":5,"window":"day","refill_amount":1}`:                                "window",
		`{"name":"x","capacity":5,"window":"day","refill_period_seconds":60}`:                       "window",
		`{"name":"x","capacity":5,"window":"day","zone":"Mars/Olympus"}`:                            "zone",
		`{"name":"x","capacity":5,"window":"hour","zone":"Asia/Tokyo"}`:                             "zone",
		`{"name":"x","capacity":5,"refill_amount":1,"refill_period_seconds":1,"zone":"Asia/Tokyo"}`: "zone",
		`{"name":"x","window":"day"}`:                                                               "capacity",
	} {
		invalid(t, json.Unmarshal([]byte(text), new(limiter.Limit)), field)
	}
}

func TestParseQuota(t *testing.T) {
	for text, want := range map[string]limiter.Limit{
		"tokens:1000000@month":        monthly,
		"tokens:1000000@month:shadow": monthly.Shadow(),
		"x:5@hour":                    limiter.Quota("x", 5, limiter.EveryHour),
		"x:5@week:America/New_York":   limiter.Quota("x", 5, limiter.EveryWeek).In("America/New_York"),
		"x:5@year:Etc/GMT+1:shadow":   limiter.Quota("x", 5, limiter.EveryYear).In("Etc/GMT+1").Shadow(),
		"x:5@day:UTC":                 limiter.Quota("x", 5, limiter.EveryDay),
		"rpm:100:shadow":              limiter.PerMinute("rpm", 100).Shadow(),
		"tpm:10/min:15:shadow":        limiter.PerMinute("tpm", 10).WithBurst(15).Shadow(),
		"tpm:10/min:within:shadow":    limiter.Within("tpm", 10, time.Minute).Shadow(),
	} {
		if got, err := limiter.ParseLimit(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"x:5@", "x:@day", "x:0@day", "x:-1@day", "x:5@days", "x:5@Day", "x:5@day@day", "x:5@day:",
		"x:5@day:Mars/Olympus", "x:5@hour:Asia/Tokyo",
		"x:5@day:Asia/Tokyo:7", "x:5/min@day", "x:5@day/min", "x:9223372036854776@day", ":5@day", "x:5@day:Shadow",
		"x:5@day:shadow:shadow", "x:shadow", "shadow", ":shadow",
		"x:5@day:within",
	} {
		_, err := limiter.ParseLimit(text)
		invalid(t, err, "limit")
	}
}

// TestQuotaStatus follows a monthly quota through a limiter.
func TestQuotaStatus(t *testing.T) {
	w := start(t, limiter.Quota("tokens", 100, limiter.EveryMonth).In("Europe/Berlin"))
	w.take(t, alice, limiter.Tokens("tokens", 70))
	s := w.refuse(t, limiter.Tokens("tokens", 31)).Primary()
	begin, end := time.Date(2025, 12, 31, 23, 0, 0, 0, time.UTC), time.Date(2026, 1, 31, 23, 0, 0, 0, time.UTC)
	if !s.WindowStart.Equal(begin) || !s.WindowEnd.Equal(end) || s.RetryAfter != end.Sub(noon) ||
		s.FullAfter != end.Sub(noon) || s.Deficit() != 1 {
		t.Errorf("got %+v", s)
	}
	if wait, err := w.TimeUntil(bg, request(alice, limiter.Tokens("tokens", 31))); err != nil || wait != end.Sub(noon) {
		t.Errorf("TimeUntil: %v, %v", wait, err)
	}
	w.clock.pass(end.Sub(noon))
	w.take(t, alice, limiter.Tokens("tokens", 100))
}
