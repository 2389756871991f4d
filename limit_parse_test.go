package limiter_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func TestParseLimit(t *testing.T) {
	const most = math.MaxInt64 / 1000
	for text, want := range map[string]limiter.Limit{
		"rpm:100":                       limiter.PerMinute("rpm", 100),
		"rpm:100/min":                   limiter.PerMinute("rpm", 100),
		"rps:5/sec":                     limiter.PerSecond("rps", 5),
		"tph:1000/hour":                 limiter.PerHour("tph", 1000),
		"tpd:1234567/day":               limiter.PerDay("tpd", 1_234_567),
		"tpm:10000/min:15000":           limiter.PerMinute("tpm", 10_000).WithBurst(15_000),
		"tpm:10000:15000":               limiter.PerMinute("tpm", 10_000).WithBurst(15_000),
		"rpm:300/5min":                  limiter.Custom("rpm", 300, 300, 5*time.Minute),
		"x:1/60sec":                     limiter.PerMinute("x", 1),
		"x:1/2day":                      limiter.Custom("x", 1, 1, 48*time.Hour),
		"a_b.c-d:1:2":                   limiter.PerMinute("a_b.c-d", 1).WithBurst(2),
		"x:9223372036854775/day:1":      limiter.PerDay("x", most).WithBurst(1),
		"tpm:10000/min:within":          limiter.Within("tpm", 10_000, time.Minute),
		"tpm:10000:within":              limiter.Within("tpm", 10_000, time.Minute),
		"tpm:10000/5hour:within":        limiter.Within("tpm", 10_000, 5*time.Hour),
		"tpm:10000/min:within=2000":     limiter.WithinBurst("tpm", 10_000, 2000, time.Minute),
		"tpm:10000/min:within=10000":    limiter.WithinBurst("tpm", 10_000, 10_000, time.Minute),
		"x:9223372036854775/sec:within": limiter.Within("x", most, time.Second),
		"x:1/day:within":                limiter.Within("x", 1, 24*time.Hour),
		"tpm:10k/min:1.5M":              limiter.PerMinute("tpm", 10_000).WithBurst(1_500_000),
		"tpm:10k:within=2k":             limiter.WithinBurst("tpm", 10_000, 2000, time.Minute),
		"tokens:1M@month":               limiter.Quota("tokens", 1_000_000, limiter.EveryMonth),
		"spend:$50@month":               limiter.Quota("spend", 50_000_000, limiter.EveryMonth),
		"spend:50@month":                limiter.Quota("spend", 50, limiter.EveryMonth),
		"spend_daily:$0.50/day:$1.25":   limiter.PerDay("spend_daily", 500_000).WithBurst(1_250_000),
	} {
		if got, err := limiter.ParseLimit(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestParseLimitRefusesBadForms(t *testing.T) {
	for _, text := range []string{
		"", "rpm", ":", "rpm:", ":5", "rpm:x", "rpm:1.5", "rpm:0", "rpm:-1", "rpm:+1", "rpm:01", "rpm:1:0",
		"rpm:1:x", "rpm:1:", "rpm:1:+2",
		"rpm:1/", "rpm:1/week", "rpm:1/minute", "rpm:1/0min", "rpm:1/-1min", "rpm:1/1.5min", "rpm:1/05min",
		"rpm:1/5", "rpm:1/min/sec",
		"rpm:1/min:2:3", "rpm:1/ min", "1rpm:5", "r pm:5", "rpm#:5", "rpm:9223372036854775808",
		"rpm:9223372036854775807",
		"rpm:9223372036854776", "rpm:1/9223372036854775807day", "resource:5", strings.Repeat("a", 65) + ":5",
		"rpm:10/min:within=", "rpm:10/min:within=0", "rpm:10/min:within=11", "rpm:10/min:within=x",
		"rpm:10/min:Within", "rpm:10/min:within:2",
		"rpm:1m", "rpm:1,000", "rpm:$5", "spend:$", "spend:$0@month", "spend:0@month", "spend:@month",
		"spend:$1,000@month", "spend:50$@month",
		"rpm:0/min:within", "rpm:9223372036854776/min:within", "rpm:1/9223372036sec:within", "within:10/min:within=1=1",
	} {
		_, err := limiter.ParseLimit(text)
		bad := invalid(t, err, "limit")
		if !strings.Contains(bad.Reason, "a limit is NAME:RATE[/PERIOD][:BURST]") {
			t.Errorf("%q: %v; the accepted forms are missing", text, err)
		}
	}
}

// TestParseLimitSaysHowToSpellNumbers checks the reasons for slips that people
// make, such as dollars that a shell took for a variable.
func TestParseLimitSaysHowToSpellNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"rpm:10m":        `its rate "10m" must be spelled 10M`,
		"tpm:1:10,000":   `its burst "10,000" must be spelled 10000`,
		"tokens:$5@day":  `its capacity "$5" is in dollars, but tokens does not count money`,
		"spend:0@month":  `its capacity "0" is not above $0; put dollars in quotes for a shell`,
		"spend:.5@month": `its capacity ".5" must be dollars such as $50 or $0.25, in quotes for a shell`,
	} {
		if _, err := limiter.ParseLimit(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

func TestLongTextsAreNotEchoedWhole(t *testing.T) {
	long := strings.Repeat("9", 100_000)
	for _, text := range []string{
		long, long + ":5", "rpm:" + long, "rpm:5/" + long, "rpm:5:" + long, "rpm:5:within=" + long,
	} {
		if _, err := limiter.ParseLimit(text); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.20s...: %.1000v", text, err)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{
		"rpm:100", "tpm:10000/min:15000", "x:1/90sec", "::", "a:1/0day:-1", "x:1/day:within", "x:9/min:within=3",
		"t:1000000@month",
		"s:5@day:Europe/Berlin", "r:5:shadow", "q:5@week:Asia/Kolkata:shadow", "q:5@hour:UTC", "q:@:",
		"q:5@day:shadow:shadow",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := limiter.ParseLimit(text)
		if err != nil {
			invalid(t, err, "limit")
			return
		}
		check(t, limit.Validate())
		if again, err := limiter.ParseLimit(canonical(limit)); err != nil || again != limit {
			t.Errorf("%q is %+v, but %q is %+v, %v", text, limit, canonical(limit), again, err)
		}
	})
}

// canonical returns the form of a limit that ParseLimit reads.
func canonical(l limiter.Limit) string {
	text := fmt.Sprintf("%s:%d/%dsec:%d", l.Name, l.Refill, l.Period/time.Second, l.Capacity)
	if l.IsQuota() {
		text = fmt.Sprintf("%s:%d@%s", l.Name, l.Capacity, l.Window)
		if l.Zone != "" {
			text += ":" + l.Zone
		}
	}
	if l.IsShadow {
		text += ":shadow"
	}
	return text
}
