package plot

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/internal/golden"
)

// at returns a snapshot of key-abc.
func at(window limiter.Window, t time.Time, counters map[string]int64) limiter.UsageSnapshot {
	start, end := window.Bounds(t)
	return limiter.UsageSnapshot{
		Entity: "key-abc", Resource: "gpt-4", Window: window, Start: start, End: end, Counters: counters,
		Events: 1,
	}
}

func date(year int, month time.Month, day, hour int) time.Time {
	return time.Date(year, month, day, hour, 0, 0, 0, time.UTC)
}

// busy returns the part of a day's peak that is used in an hour, with a break at
// noon.
func busy(hour int) float64 {
	bump := func(centre, width float64) float64 {
		return math.Exp(-math.Pow((float64(hour)-centre)/width, 2))
	}
	return 0.05 + 0.6*bump(10, 1.8) + 0.9*bump(15, 2.4)
}

// hourlyDay returns two limits over a day, the newest hour first.
func hourlyDay() (all []limiter.UsageSnapshot) {
	for hour := 23; hour >= 0; hour-- {
		requests := math.Round(90 * busy(hour))
		all = append(all,
			at(limiter.Hourly, date(2026, 1, 31, hour), map[string]int64{
				"rpm": int64(requests), "tpm": int64(requests) * 1371,
			}))
	}
	return all
}

// dailyMonth returns a month of working days, with one day missing.
func dailyMonth() (all []limiter.UsageSnapshot) {
	for day := 1; day <= 31; day++ {
		t := date(2025, 12, day, 0)
		if t.Weekday() == time.Saturday || t.Weekday() == time.Sunday || day == 17 {
			continue
		}
		all = append(all, at(limiter.Daily, t, map[string]int64{"tpm": int64(800_000 + 37_000*day + 90_000*(day%4))}))
	}
	return all
}

func singleWindow() []limiter.UsageSnapshot {
	return []limiter.UsageSnapshot{at(limiter.Monthly, date(2026, 1, 1, 0), map[string]int64{"tpm": 48_211_907})}
}

// negativeValues returns hours in which more was given back than used.
func negativeValues() (all []limiter.UsageSnapshot) {
	for hour, tokens := range []int64{1200, 3400, 5100, -800, -2600, 400, 2900, 4400, -1500, 0, 700, 2100} {
		all = append(all, at(limiter.Hourly, date(2025, 12, 31, 18+hour), map[string]int64{"tpm": tokens}))
	}
	return all
}

// mergedRange returns ninety days of growing hours.
func mergedRange() (all []limiter.UsageSnapshot) {
	for hour := range 90 * 24 {
		t := date(2026, 1, 1, hour)
		tokens := (20_000 + 40*float64(hour)) * busy(12)
		if t.Weekday() == time.Saturday || t.Weekday() == time.Sunday {
			tokens /= 5
		}
		if hour%100 == 50 {
			continue
		}
		all = append(all, at(limiter.Hourly, t, map[string]int64{"rpm": int64(tokens / 900), "tpm": int64(tokens)}))
	}
	return all
}

func TestUsageLooksAsItShould(t *testing.T) {
	for name, snapshots := range map[string][]limiter.UsageSnapshot{
		"hourly":   hourlyDay(),
		"daily":    dailyMonth(),
		"single":   singleWindow(),
		"negative": negativeValues(),
		"merged":   mergedRange(),
	} {
		for _, width := range []int{80, 120} {
			for style, kind := range map[tty.Style]string{false: "plain", true: "colour"} {
				t.Run(fmt.Sprintf("%s %d %s", name, width, kind), func(t *testing.T) {
					golden.Check(t, fmt.Sprintf("testdata/%s_%d_%s.txt", name, width, kind),
						Usage(snapshots, width, style))
				})
			}
		}
	}
}
