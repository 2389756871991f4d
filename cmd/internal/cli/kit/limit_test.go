package kit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

func TestLimitTexts(t *testing.T) {
	for text, shown := range map[string]string{
		"rpm:100":                   "rpm: 100/min",
		"rps:5/sec":                 "rps: 5/sec",
		"tph:1000/hour":             "tph: 1,000/hour",
		"tpd:1234567/day":           "tpd: 1,234,567/day",
		"tpm:10000/min:15000":       "tpm: 10,000/min (burst: 15,000)",
		"rpm:300/5min":              "rpm: 300/5min",
		"x:1/90sec":                 "x: 1/90sec",
		"x:1/60sec":                 "x: 1/min",
		"x:1/2day":                  "x: 1/2day",
		"a_b.c-d:1:2":               "a_b.c-d: 1/min (burst: 2)",
		"tpm:10000/min:within":      "tpm: 9,000/min (burst: 1,000)",
		"tpm:10000/min:within=2000": "tpm: 8,000/min (burst: 2,000)",
	} {
		limit, err := limiter.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := LimitText(limit); got != shown {
			t.Errorf("%s is shown as %q, want %q", text, got, shown)
		}
		if again, err := limiter.ParseLimit(LimitWord(limit)); err != nil || again != limit {
			t.Errorf("%s: %s is read as %v, %v", text, LimitWord(limit), again, err)
		}
	}
}

// The message about a limit of the form within has the numbers that were given.
func TestWithinText(t *testing.T) {
	for text, want := range map[string]string{
		"tpm:10000/min:within":      "tpm: 9,000/min (burst: 1,000), at most 10,000 in any minute",
		"tpm:10000:within=5000":     "tpm: 5,000/min, at most 10,000 in any minute",
		"x:1/hour:within":           "x: 1/3604sec, at most 1 in any hour",
		"x:300/5min:within=100":     "x: 200/5min (burst: 100), at most 300 in any 5 minutes",
		"x:100/90sec:within":        "x: 90/90sec (burst: 10), at most 100 in any 90 seconds",
		"within:100/2day:50":        "within: 100/2day (burst: 50)",
		"within:100/2day:within=50": "within: 50/2day, at most 100 in any 2 days",
	} {
		var l LimitFlags
		if err := l.Set(text); err != nil {
			t.Fatal(err)
		}
		if got := l.Describe(); got != want {
			t.Errorf("%s is confirmed as %q, want %q", text, got, want)
		}
	}
}

// TestBadLimitsGetShortAnswers checks that the answer to a bad limit says what is
// wrong with it, and has only the usual forms.
func TestBadLimitsGetShortAnswers(t *testing.T) {
	for text, want := range map[string]string{
		"rpm":                     "it has no rate; ",
		"rpm:0":                   `its rate "0" is not from 1 to 9223372036854775; `,
		"rpm:1/week":              `its period "week" is not valid; `,
		"q:5@fortnight":           `its window "fortnight" is not hour, day, week, month or year; `,
		"q:5@day:europe/berlin":   `invalid zone "europe/berlin": must be spelled "Europe/Berlin"; `,
		"q:5@day:Europe/Nowhere":  `invalid zone "Europe/Nowhere": is not known here; give an IANA name such as "Europe/Berlin"; `,
		"q:5@day:utc":             `invalid zone "utc": must be spelled "UTC"; `,
		"q:5@hour:Europe/Berlin":  `invalid zone "Europe/Berlin": must be empty for an hour, which is in UTC; `,
		"a b:5":                   `invalid name "a b": `,
		"q:5@day:Europe/Berlin:7": "nothing may follow its zone but shadow; ",
	} {
		var l LimitFlags
		err := l.Set(text)
		if err == nil {
			t.Errorf("%s is accepted", text)
			continue
		}
		got := err.Error()
		if !strings.HasPrefix(got, fmt.Sprintf("invalid --limit %q: %s", text, want)) ||
			!strings.HasSuffix(got, "; "+LimitForms) || strings.Contains(got, "tzdata") || len(got) > 450 {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func FuzzLimitWord(f *testing.F) {
	for _, seed := range []string{"rpm:100", "tpm:10000/min:15000", "x:1/90sec", "x:1/day:within"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := limiter.ParseLimit(text)
		if err != nil {
			return
		}
		if again, err := limiter.ParseLimit(LimitWord(limit)); err != nil || again != limit {
			t.Errorf("%q: %v, then %v, %v", text, limit, again, err)
		}
	})
}
