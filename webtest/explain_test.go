package webtest

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100), limiter.Custom("tpm", 1000, 1, time.Minute))
	s.use("key-1", "gpt-4", limiter.Tokens("rpm", 10).And("tpm", 1000))
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.follow("Explain")
	b.fill("Entity", "key-1")
	b.fill("Resource", "gpt-4\t")
	b.await("the limits of the entity", `() => all("input[name=name]").map((e) => e.value).join() === "rpm,tpm"`)
	b.enter("the amount of tpm", `() => all("input[name=amount]")[1]`, "2")
	b.keys("\r")
	b.await("the refusal", `() => all("[data-verdict=waits]").length === 1`)
	b.await("the wait",
		`() => /fits in (1 min \d+ s|2 min|\d+ s)/.test(document.querySelector("[data-verdict]").innerText)`)
	before := eval[string](b, `() => document.querySelector("[data-verdict] .countdown").textContent`)
	b.await("a countdown", `(before) => document.querySelector("[data-verdict] .countdown").textContent !== before`,
		before)
	b.await("limit by limit",
		`() => { const rows = (`+section+`)("Limit by limit"); return rows.length === 2 && rows[0].endsWith("✓ fits") && rows[1].includes("tpm") && rows[1].includes("fits in") }`)
	b.keep("explain-refused")

	b.enter("the amount of tpm", `() => all("input[name=amount]")[1]`, "0")
	b.press("Explain")
	b.await("the admission", `() => all("[data-verdict=fits]").length === 1`)

	b.enter("the amount of rpm", `() => all("input[name=amount]")[0]`, "101")
	b.press("Explain")
	b.await("that it never fits", `() => all("[data-verdict=never]").length === 1`)

	left, err := s.lim.Available(t.Context(), "key-1", "gpt-4")
	s.must(err)
	if left.Get("rpm") != 90 {
		t.Errorf("explaining took tokens: %v", left)
	}
}

// TestCountdownEnds waits until a refused request fits.
func TestCountdownEnds(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", limiter.Custom("rpm", 100, 1, 4*time.Second))
	s.use("key-1", "gpt-4", requestsOnly(100))
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.view("#/explain?entity=key-1&resource=gpt-4&consume=rpm%3A1")
	b.await("the admission, without a click", `() => all("[data-verdict=fits]").length === 1`)
}
