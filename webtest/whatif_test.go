package webtest

import (
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func TestWhatIf(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	now := time.Now()
	s.now = now.Add(-30 * time.Hour)
	s.limits("", "", limiter.PerHour("rpm", 10_000))
	for ; s.now.Before(now); s.now = s.now.Add(time.Hour) {
		s.use("greedy", "gpt-4", requestsOnly(5_000))
		s.use("modest", "gpt-4", requestsOnly(10))
	}
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.follow("What if")
	b.await("the bound", `() => document.querySelector("main").innerText.includes("lower bound")`)
	b.fill("Resource", "gpt-4\t")
	b.fill("Name", "rpm")
	b.fill("Capacity", "1000")
	b.fill("Refill", "1000")
	b.choose("Every", "hour")
	b.press("Replay")
	b.await("the report", `() => all("[data-verdict=waits]").length === 1`)
	b.await("the row of the greedy one",
		`() => { const rows = (`+section+`)("Report"); return rows.length === 1 && rows[0].startsWith("greedy | gpt-4") && rows[0].includes("≥ ") }`)
	b.keep("what-if")

	b.fill("Capacity", "10000")
	b.fill("Refill", "10000")
	b.fill("Resource", "\t")
	b.press("Replay")
	b.says("The proposal changes no limits, so there is nothing to replay")
	if text := b.text(); strings.Contains(text, "snapshot") || strings.Contains(text, "no usage") {
		t.Errorf("without a replay the page speaks of usage:\n%s", text)
	}

	b.press("Manifest")
	b.fill("Manifest", "resources:\n  gpt-4:\n    limits:\n      rpm: 20000/hour\n")
	b.press("Replay")
	b.await("a report without refusals", `() => all("[data-verdict=fits]").length === 1`)
	b.fill("Manifest", "resources: nonsense\n")
	b.expect(`status of 400`)
	b.press("Replay")
	b.await("what is wrong", `() => all("[role=alert]").some((e) => e.innerText.includes("resources"))`)
	limits, err := s.lim.ResourceDefaults(t.Context(), "gpt-4")
	s.must(err)
	if len(limits) > 0 {
		t.Errorf("a replay set limits: %v", limits)
	}
}
