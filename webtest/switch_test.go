package webtest

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// note waits until a change is made.
func (b *tab) note(text string) {
	b.t.Helper()
	b.await("the note", `(text) => document.querySelector("main").innerText.includes(text)`, text)
}

// TestDisableResetTopUp switches a key off and on, and fills its bucket, each after
// a preview.
func TestDisableResetTopUp(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "gpt-4", fixed("rpm", 100))
	s.use("key-1", "gpt-4", requestsOnly(60))
	b := newTab(t)
	b.visit(dashboard(t, s, "--write", "--principal", "ada@example.com"))
	off := func() error {
		_, err := s.lim.Explain(t.Context(), limiter.Request{Entity: "key-1", Resource: "gpt-4"})
		return err
	}

	b.view("#/entity?id=key-1")
	b.follow("Disable")
	b.fill("Reason", "unpaid")
	b.press("Preview")
	b.note("Every call of entity key-1 would be refused")
	s.must(off())
	b.press("Disable as ada@example.com")
	b.note("Disable: done.")
	if off() == nil {
		t.Error("key-1 is not disabled")
	}
	b.follow("Overview")
	b.await("the mark of the row", `() => row("key-1", "gpt-4")?.innerText.includes("⊘ disabled")`)
	b.view("#/entity?id=key-1")
	b.note("unpaid")
	b.axe("an entity that is disabled")
	b.view("#/explain?entity=key-1&resource=gpt-4&consume=rpm%3A1")
	b.await("the verdict",
		`() => all("[data-verdict=disabled]").length === 1 && document.querySelector("main").innerText.includes("unpaid")`)

	b.view("#/entity?id=key-1")
	b.follow("Enable")
	b.press("Preview")
	b.press("Enable as ada@example.com")
	b.note("Enable: done.")
	s.must(off())

	left := func(want int64) {
		t.Helper()
		amounts, err := s.lim.Available(t.Context(), "key-1", "gpt-4")
		s.must(err)
		if got := amounts.Get("rpm"); got != want {
			t.Errorf("%d are left, want %d", got, want)
		}
	}
	b.view("#/changes?entity=key-1&resource=gpt-4&action=top_up")
	b.await("the limits of the bucket", `() => control("input", "Name")?.value === "rpm"`)
	b.fill("Amount", "25")
	b.press("Preview")
	b.note("rpm: 40 of 100 available, 65 after it.")
	b.press("Top up as ada@example.com")
	b.note("Top up: done.")
	left(65)
	b.choose("Change", "Reset")
	b.press("Preview")
	b.note("rpm: 65 of 100 available, 100 after it.")
	b.press("Reset as ada@example.com")
	b.note("Reset: done.")
	left(100)
}

// TestQuotasAndShadowLimits shows a quota and a shadow limit, and edits them without
// losing their window and their mark.
func TestQuotasAndShadowLimits(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	limits := []limiter.Limit{
		fixed("rpm", 1).Shadow(), limiter.Quota("tokens", 1000, limiter.EveryYear).In("Europe/Berlin"),
	}
	s.limits("key-1", "gpt-4", limits...)
	for range 3 {
		lease, err := s.lim.Acquire(t.Context(), limiter.Request{
			Entity: "key-1", Resource: "gpt-4", Consume: limiter.Tokens("rpm", 1).And("tokens", 100),
		})
		s.must(err)
		s.must(lease.Commit(t.Context()))
	}
	b := newTab(t)
	b.visit(dashboard(t, s, "--write"))
	b.await("the quota",
		`() => limit("key-1", "gpt-4", "tokens")?.amount === "700 / 1k" && row("key-1", "gpt-4").innerText.includes("1k / year")`)
	b.await("the end of its window", `() => /window ends \d{4}-/.test(limit("key-1", "gpt-4", "tokens").spoken)`)
	b.await("the shadow limit",
		`() => limit("key-1", "gpt-4", "rpm").spoken.includes("shadow limit") && row("key-1", "gpt-4").innerText.includes("◌ rpm")`)
	b.view("#/entity?id=key-1")
	b.await("what it would refuse",
		`() => all("figcaption").some((e) => e.innerText.includes("rpm: would be refused") && e.innerText.includes("2 in all"))`)

	b.view("#/changes?entity=key-1&resource=gpt-4")
	b.await("both limits",
		`() => all("input[name=name]").map((e) => e.value).join() === "rpm,tokens" && all("input[name=shadow]").map((e) => e.checked).join() === "true,false" && all("select[name=period]")[1].value === "year"`)
	b.axe("the form with a quota")
	b.enter("the capacity of tokens", `() => all("input[name=capacity]")[1]`, "2000")
	b.press("Preview")
	b.note("tokens 2k / year Europe/Berlin")
	b.press("Set limits as")
	b.note("Set limits: done.")
	got, err := s.lim.Limits(t.Context(), "key-1", "gpt-4")
	s.must(err)
	limits[1].Capacity = 2000
	if len(got) != 2 || got[0] != limits[0] || got[1] != limits[1] {
		t.Errorf("the limits are %v, want %v", got, limits)
	}
}
