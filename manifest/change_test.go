package manifest_test

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// TestSummaryOfAChange checks that a changed limit is one line, as people write
// limits.
func TestSummaryOfAChange(t *testing.T) {
	change := manifest.Change{
		Action: manifest.Update, Unlisted: true,
		Before: limiter.Config{OnUnavailable: limiter.Block, Limits: []limiter.Limit{
			limiter.PerMinute("a.b", 5), limiter.PerMinute("rpm", 100), limiter.PerHour("same", 1),
			limiter.Quota("spend", 50_000_000, limiter.EveryMonth),
		}},
		After: limiter.Config{OnUnavailable: limiter.Allow, Limits: []limiter.Limit{
			limiter.PerMinute("rpm", 50).WithBurst(80), limiter.PerHour("same", 1),
			limiter.Quota("spend", 7_500_000, limiter.EveryDay).Shadow(), limiter.PerMinute("tpm", 10_000),
		}},
	}
	equal(t, "summary", change.Summary(), []manifest.Field{
		{Name: "state", Before: "unlisted", After: "listed"},
		{Name: "on_unavailable", Before: "block", After: "allow"},
		{Name: "a.b", Before: "5/min"},
		{Name: "rpm", Before: "100/min", After: "50/min:80"},
		{Name: "spend", Before: "$50.00@month", After: "$7.50@day:shadow"},
		{Name: "tpm", After: "10000/min"},
	})
}

func TestNumbersMayBeShort(t *testing.T) {
	levels := parse(t, string(fixtures(t, "valid")["figures.yaml"])).Levels
	equal(t, "system", levels[0].Limits, []limiter.Limit{
		limiter.Quota("spend", 50_000_000, limiter.EveryMonth),
		limiter.Quota("spend_daily", 2_500_000, limiter.EveryDay),
		limiter.Quota("tokens", 1_500_000, limiter.EveryMonth),
	})
	equal(t, "gpt-4", levels[1].Limits, []limiter.Limit{
		limiter.PerMinute("rpm", 1000), limiter.PerMinute("tpm", 10_000).WithBurst(15_000),
	})
}
