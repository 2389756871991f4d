package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func TestParseLimit(t *testing.T) {
	for _, c := range []struct {
		text  string
		want  limiter.Limit
		shown string
	}{
		{"rpm:100", limiter.PerMinute("rpm", 100), "rpm: 100/min"},
		{"rpm:100/min", limiter.PerMinute("rpm", 100), "rpm: 100/min"},
		{"rps:5/sec", limiter.PerSecond("rps", 5), "rps: 5/sec"},
		{"tph:1000/hour", limiter.PerHour("tph", 1000), "tph: 1,000/hour"},
		{"tpd:1234567/day", limiter.PerDay("tpd", 1_234_567), "tpd: 1,234,567/day"},
		{"tpm:10000/min:15000", limiter.PerMinute("tpm", 10_000).WithBurst(15_000), "tpm: 10,000/min (burst: 15,000)"},
		{"tpm:10000:15000", limiter.PerMinute("tpm", 10_000).WithBurst(15_000), "tpm: 10,000/min (burst: 15,000)"},
		{"rpm:300/5min", limiter.Custom("rpm", 300, 300, 5*time.Minute), "rpm: 300/5min"},
		{"x:1/90sec", limiter.Custom("x", 1, 1, 90*time.Second), "x: 1/90sec"},
		{"x:1/60sec", limiter.PerMinute("x", 1), "x: 1/min"},
		{"x:1/2day", limiter.Custom("x", 1, 1, 48*time.Hour), "x: 1/2day"},
		{"a_b.c-d:1:2", limiter.PerMinute("a_b.c-d", 1).WithBurst(2), "a_b.c-d: 1/min (burst: 2)"},
	} {
		got, err := parseLimit(c.text)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v", c.text, got, err)
		}
		if shown := limitText(got); shown != c.shown {
			t.Errorf("%s is shown as %q, want %q", c.text, shown, c.shown)
		}
		if again, err := parseLimit(limitWord(got)); err != nil || again != got {
			t.Errorf("%s: %s is read as %v, %v", c.text, limitWord(got), again, err)
		}
	}
}

func TestLimitsThatAreNone(t *testing.T) {
	for _, text := range []string{
		"", "rpm", ":", "rpm:", ":5", "rpm:x", "rpm:1.5", "rpm:0", "rpm:-1", "rpm:1:0", "rpm:1:x", "rpm:1:", "rpm:1/", "rpm:1/week",
		"rpm:1/minute", "rpm:1/0min", "rpm:1/-1min", "rpm:1/1.5min", "rpm:1/5", "rpm:1/min/sec", "rpm:1/min:2:3", "rpm:1/ min", "1rpm:5",
		"r pm:5", "rpm#:5", "rpm:9223372036854775808", "rpm:9223372036854775807", "rpm:1/9223372036854775807day", "resource:5",
		strings.Repeat("a", 65) + ":5",
	} {
		_, err := parseLimit(text)
		if err == nil {
			t.Errorf("%q is accepted", text)
		} else if !strings.HasSuffix(err.Error(), limitForms) {
			t.Errorf("%q: %v; the accepted forms are missing", text, err)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{"rpm:100", "tpm:10000/min:15000", "x:1/90sec", "::", "a:1/0day:-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := parseLimit(text)
		if err != nil {
			return
		}
		if err := limit.Validate(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if again, err := parseLimit(limitWord(limit)); err != nil || again != limit {
			t.Errorf("%q: %v, then %v, %v", text, limit, again, err)
		}
	})
}
