package httplimit_test

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// status returns a limit of an entity and its state.
func status(entity string, l limiter.Limit, available int64, full time.Duration) limiter.Status {
	return limiter.Status{Entity: entity, Limit: l, Available: available, FullAfter: full}
}

func TestFields(t *testing.T) {
	rpm := limiter.PerMinute("rpm", 60)
	for _, c := range []struct {
		name          string
		d             limiter.Decision
		policy, state string
	}{
		{"empty", limiter.Decision{}, "", ""},
		{
			"full has no t",
			limiter.Decision{Statuses: []limiter.Status{status(key, rpm, 60, 0)}},
			`"rpm";q=60;w=60`, `"rpm";r=60`,
		},
		{
			"the next token",
			limiter.Decision{Statuses: []limiter.Status{status(key, rpm, 10, 49500*time.Millisecond)}},
			`"rpm";q=60;w=60`, `"rpm";r=10;t=1`,
		},
		{
			"a slow limit",
			limiter.Decision{Statuses: []limiter.Status{status(key, limiter.PerDay("rpd", 2), 0, 24*time.Hour)}},
			`"rpd";q=2;w=86400`, `"rpd";r=0;t=43200`,
		},
		{
			"debt is 0, until it is repaid",
			limiter.Decision{Statuses: []limiter.Status{status(key, rpm, -30, 90*time.Second)}},
			`"rpm";q=60;w=60`, `"rpm";r=0;t=31`,
		},
		{
			"a burst fills later",
			limiter.Decision{Statuses: []limiter.Status{status(key, rpm.WithBurst(90), 90, 0)}},
			`"rpm";q=90;w=90`, `"rpm";r=90`,
		},
		{
			"w is at least 1",
			limiter.Decision{Statuses: []limiter.Status{status(key, limiter.PerSecond("rps", 100).WithBurst(5), 5, 0)}},
			`"rps";q=5;w=1`, `"rps";r=5`,
		},
		{
			"w is rounded up",
			limiter.Decision{Statuses: []limiter.Status{status(key, limiter.Custom("x", 10, 3, time.Second), 10, 0)}},
			`"x";q=10;w=4`, `"x";r=10`,
		},
		{
			"a whole second",
			limiter.Decision{Statuses: []limiter.Status{status(key, limiter.PerSecond("rps", 1), 0,
				1001*time.Millisecond)}},
			`"rps";q=1;w=1`, `"rps";r=0;t=1`,
		},
		{
			"a whole wait",
			limiter.Decision{Statuses: []limiter.Status{status(key, limiter.PerMinute("rpm", 2), 1,
				30001*time.Millisecond)}},
			`"rpm";q=2;w=60`, `"rpm";r=1;t=30`,
		},
		{
			"a fraction above a second",
			limiter.Decision{Statuses: []limiter.Status{status(key, limiter.Custom("x", 1, 7, 60*time.Second), 0,
				1001*time.Millisecond)}},
			`"x";q=1;w=9`, `"x";r=0;t=2`,
		},
		{
			"what never fits has no t",
			limiter.Decision{Statuses: []limiter.Status{
				{
					Entity: key, Limit: rpm, Available: 5, Requested: 61, Exceeded: true, NeverFits: true,
					FullAfter: 55 * time.Second,
				},
				status(key, limiter.PerMinute("x", 60), 59, time.Second),
			}},
			`"rpm";q=60;w=60, "x";q=60;w=60`, `"rpm";r=5, "x";r=59;t=1`,
		},
		{
			"the parent is left out",
			limiter.Decision{Statuses: []limiter.Status{
				status(key, rpm, 60, 0), status("parent", rpm, 1, time.Minute),
			}},
			`"rpm";q=60;w=60`, `"rpm";r=60`,
		},
		{
			"numbers fit the format",
			limiter.Decision{Statuses: []limiter.Status{status(key,
				limiter.Custom("x", math.MaxInt64/1000, 1, 9223372036*time.Second), math.MaxInt64/1000-5,
				math.MaxInt64)}},
			`"x";q=999999999999999;w=999999999999999`, `"x";r=999999999999999;t=1`,
		},
	} {
		h := http.Header{}
		(*httplimit.Fields)(nil).Set(h, c.d)
		if got := h.Get("RateLimit-Policy"); got != c.policy {
			t.Errorf("%s: RateLimit-Policy %s, want %s", c.name, got, c.policy)
		}
		if got := h.Get("RateLimit"); got != c.state {
			t.Errorf("%s: RateLimit %s, want %s", c.name, got, c.state)
		}
	}
}

// TestExceededLimitsWaitForRetryAfter refuses by two limits. Both say when a retry
// can succeed, and the third says when it has more.
func TestExceededLimitsWaitForRetryAfter(t *testing.T) {
	a, b, c := status(key, limiter.PerMinute("a", 60), 0,
		time.Minute), status(key, limiter.PerMinute("b", 60), 0,
		time.Minute), status(key, limiter.PerMinute("c", 60), 0, time.Minute)
	a.Exceeded, a.RetryAfter = true, 2*time.Second
	b.Exceeded, b.RetryAfter = true, 8500*time.Millisecond
	h := http.Header{}
	(&httplimit.Fields{Legacy: true}).Set(h, limiter.Decision{Statuses: []limiter.Status{a, b, c}})
	if got, want := h.Get("RateLimit"), `"a";r=0;t=9, "b";r=0;t=9, "c";r=0;t=1`; got != want {
		t.Errorf("RateLimit %s, want %s", got, want)
	}
	if got := h.Get("X-Ratelimit-Reset"); got != "9" {
		t.Errorf("X-RateLimit-Reset %s, want 9", got)
	}
}

// TestLegacyFieldsShowTheEmptiestLimit checks the one limit that the older fields
// have room for.
func TestLegacyFieldsShowTheEmptiestLimit(t *testing.T) {
	h := http.Header{}
	(&httplimit.Fields{Legacy: true}).Set(h, limiter.Decision{Statuses: []limiter.Status{
		status(key, limiter.PerMinute("rpm", 60), 30, 30*time.Second),
		status(key, limiter.PerMinute("tpm", 1000), 100, 54*time.Second),
	}})
	for field, want := range map[string]string{
		"X-Ratelimit-Limit": "1000", "X-Ratelimit-Remaining": "100", "X-Ratelimit-Reset": "1",
	} {
		if got := h.Get(field); got != want {
			t.Errorf("%s %s, want %s", field, got, want)
		}
	}
}

func TestUnitsAreQuoted(t *testing.T) {
	h := http.Header{}
	(&httplimit.Fields{Units: map[string]string{"rpm": "a\"b\\c\nü"}}).Set(h, limiter.Decision{
		Statuses: []limiter.Status{status(key, limiter.PerMinute("rpm", 1), 1, 0)},
	})
	if got, want := h.Get("RateLimit-Policy"), `"rpm";q=1;w=60;qu="a\"b\\c???"`; got != want {
		t.Errorf("RateLimit-Policy %s, want %s", got, want)
	}
}
