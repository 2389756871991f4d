package limiter_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func TestLimitFactories(t *testing.T) {
	for _, c := range []struct{ got, want limiter.Limit }{
		{limiter.PerSecond("x", 5), limiter.Limit{Name: "x", Capacity: 5, Refill: 5, Period: time.Second}},
		{limiter.PerMinute("x", 5), limiter.Limit{Name: "x", Capacity: 5, Refill: 5, Period: time.Minute}},
		{limiter.PerHour("x", 5), limiter.Limit{Name: "x", Capacity: 5, Refill: 5, Period: time.Hour}},
		{limiter.PerDay("x", 5), limiter.Limit{Name: "x", Capacity: 5, Refill: 5, Period: 24 * time.Hour}},
		{limiter.PerDay("x", 5).WithBurst(9), limiter.Limit{Name: "x", Capacity: 9, Refill: 5, Period: 24 * time.Hour}},
		{limiter.Custom("x", 7, 3, 90*time.Second), limiter.Limit{
			Name: "x", Capacity: 7, Refill: 3, Period: 90 * time.Second,
		}},
	} {
		if c.got != c.want {
			t.Errorf("got %+v, want %+v", c.got, c.want)
		}
	}
}

func TestLimitReadsLikeASentence(t *testing.T) {
	for want, l := range map[string]limiter.Limit{
		"tpm 10000/min burst 15000": limiter.PerMinute("tpm", 10_000).WithBurst(15_000),
		"rpm 100/min":               limiter.PerMinute("rpm", 100),
		"rps 3/sec":                 limiter.PerSecond("rps", 3),
		"rph 3/hour":                limiter.PerHour("rph", 3),
		"rpd 3/day":                 limiter.PerDay("rpd", 3),
		"x 2/90sec burst 1":         limiter.Custom("x", 1, 2, 90*time.Second),
		"x 2/7day":                  limiter.Custom("x", 2, 2, 7*24*time.Hour),
		"x 2/1.5s":                  limiter.Custom("x", 2, 2, 1500*time.Millisecond),
	} {
		if got := l.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestLimitNumbersAreBadInput covers row D-9 of docs/defects.md: a number out of
// range is an *InvalidError that names its field.
func TestLimitNumbersAreBadInput(t *testing.T) {
	const most = math.MaxInt64 / 1000
	for _, c := range []struct {
		limit limiter.Limit
		field string // "" = valid
	}{
		{limiter.PerMinute("x", 1), ""},
		{limiter.Custom("x", most, most, 9_223_372_036*time.Second), ""},
		{limiter.Custom("x", 1, 1000, time.Second), ""}, // capacity below the refill is legal
		{limiter.PerMinute("", 0), "name"},
		{limiter.PerMinute("x", 0), "capacity"},
		{limiter.PerMinute("x", 5).WithBurst(0), "capacity"}, // a burst of 0 is not the default
		{limiter.PerMinute("x", -1), "capacity"},
		{limiter.Custom("x", most+1, 1, time.Second), "capacity"},
		{limiter.Custom("x", 1, 0, time.Second), "refill_amount"},
		{limiter.Custom("x", 1, most+1, 0), "refill_amount"},
		{limiter.Custom("x", 1, 1, 0), "refill_period_seconds"},
		{limiter.Custom("x", 1, 1, -time.Second), "refill_period_seconds"},
		{limiter.Custom("x", 1, 1, 1500*time.Millisecond), "refill_period_seconds"},
		{limiter.Custom("x", 1, 1, time.Millisecond), "refill_period_seconds"},
	} {
		err := c.limit.Validate()
		if c.field == "" {
			if err != nil {
				t.Errorf("%+v: %v", c.limit, err)
			}
			continue
		}
		invalid(t, err, c.field)
	}
}

func TestLimitJSON(t *testing.T) {
	for _, period := range []time.Duration{time.Second, 9_223_372_036 * time.Second} {
		l, back := limiter.Custom("x", 1, 1, period), limiter.Limit{}
		data, err := json.Marshal(l)
		check(t, err)
		check(t, json.Unmarshal(data, &back))
		if back != l {
			t.Errorf("read %+v, want %+v", back, l)
		}
	}
	l := limiter.PerMinute("tpm", 10_000).WithBurst(15_000)
	const text = `{"name":"tpm","capacity":15000,"refill_amount":10000,"refill_period_seconds":60}`
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
	for _, c := range []struct{ drop, add, field string }{
		{`"name":"tpm",`, "", "name"},
		{`"capacity":15000,`, "", "capacity"},
		{`"refill_amount":10000,`, "", "refill_amount"},
		{`,"refill_period_seconds":60`, "", "refill_period_seconds"},
		{"60", "0", "refill_period_seconds"},
		{"60", "9223372037", "refill_period_seconds"},        // more than a Duration holds
		{"60", "36028797018963969", "refill_period_seconds"}, // would overflow to a second
		{"tpm", "ttl", "name"},
	} {
		got := limiter.PerDay("kept", 1)
		err := json.Unmarshal([]byte(strings.Replace(text, c.drop, c.add, 1)), &got)
		invalid(t, err, c.field)
		if got != limiter.PerDay("kept", 1) {
			t.Errorf("without %s the limit became %v", c.drop, got)
		}
	}
	for _, bad := range []string{
		`"tpm"`, `{"name":"x","capacity":1.5}`, `{"name":"x","capacity":9223372036854775808}`,
	} {
		if err := json.Unmarshal([]byte(bad), new(limiter.Limit)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func FuzzLimitJSON(f *testing.F) {
	for _, seed := range []string{
		`{"name":"tpm","capacity":15000,"refill_amount":10000,"refill_period_seconds":60}`,
		`{"name":"x","capacity":5,"window":"day","zone":"Asia/Tokyo","shadow":true}`,
		`{"name":"x","capacity":5,"window":"month","zone":"UTC"}`,
		`{"name":"x","capacity":5,"window":"hour","refill_amount":1}`, `{"window":"year"}`, `{"zone":"Local"}`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var l, back limiter.Limit
		if json.Unmarshal(data, &l) != nil {
			if l != (limiter.Limit{}) {
				t.Errorf("%s: left %+v behind", data, l)
			}
			return
		}
		check(t, l.Validate())
		again, err := json.Marshal(l)
		check(t, err)
		check(t, json.Unmarshal(again, &back))
		if back != l {
			t.Errorf("%s: %+v became %+v", data, l, back)
		}
	})
}
