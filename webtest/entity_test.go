package webtest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// section returns the text of the cells of a table, row by row, below a heading.
const section = `(title) => {
	const card = all("section").find((s) => s.querySelector("h2")?.textContent === title);
	return card ? [...card.querySelectorAll("tbody tr")].map((r) => [...r.cells].map((c) => c.innerText.replace(/\s+/g, " ").trim()).join(" | ")) : [];
}`

func TestEntity(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 10))
	s.limits("", "gpt-4", fixed("rpm", 20))
	s.limits("key-1", "gpt-4", fixed("rpm", 100))
	s.entity(limiter.Entity{ID: "acme", Name: "Acme"})
	s.entity(limiter.Entity{
		ID: "key-1", Name: "First key", Parent: "acme", Cascade: true,
		Metadata: map[string]string{"tier": "gold"},
	})
	s.use("key-1", "gpt-4", requestsOnly(30))
	s.use("key-1", "claude", requestsOnly(4))
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.follow("First key")
	b.await("the entity", `() => heading() === "First key" && document.title.includes("key-1")`)
	b.await("its buckets",
		`() => limit("key-1", "gpt-4", "rpm")?.amount === "70 / 100" && limit("key-1", "claude", "rpm")?.amount === "6 / 10"`)
	b.await("its facts",
		`() => ["acme", "tier", "gold"].every((text) => document.querySelector("dl").innerText.includes(text))`)
	b.await("the levels", `() => (`+section+`)("Limits by level").length > 0`)
	want := []string{
		"entity + resource | key-1 | gpt-4 | rpm 1 / 1000 d, capacity 100 | ✓ In force for gpt-4",
		"resource | all | gpt-4 | rpm 1 / 1000 d, capacity 20 | –",
		"system | all | all | rpm 1 / 1000 d, capacity 10 | ✓ In force for claude",
	}
	got := eval[[]string](b, section, "Limits by level")
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the levels (-want +got)\n%s", diff)
	}
	b.await("the audit trail",
		`() => (`+section+`)("Audit trail").some((r) => r.includes("webtest") && r.includes("gpt-4"))`)
	b.await("a live page", `() => pill() === "Live"`)
	s.use("key-1", "gpt-4", requestsOnly(5))
	b.await("a live change", `() => limit("key-1", "gpt-4", "rpm").amount === "65 / 100"`)

	b.click("the parent", `() => document.querySelector("dl a")`)
	b.await("the parent", `() => heading() === "Acme"`)
	b.await("its child", `() => limit("key-1", "gpt-4", "rpm")?.amount === "65 / 100"`)
	eval[bool](b, `() => { history.back(); return true }`)
	b.await("the entity again", `() => heading() === "First key" && document.activeElement?.tagName === "H1"`)
}

func TestUnknownEntity(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	b.expect(`status of 404`)
	b.visit(dashboard(t, newStore(t)))
	b.view("#/entity?id=missing")
	b.await("a sentence", `() => all("[role=alert]").some((e) => e.innerText.includes("missing"))`)
}

func TestCharts(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	now := time.Now().UTC()
	s.now = now.Add(-50 * time.Hour)
	s.limits("", "", fixed("rpm", 1_000_000))
	s.use("key-1", "gpt-4", requestsOnly(7))
	s.now = now.Add(-2 * time.Hour)
	s.use("key-1", "gpt-4", requestsOnly(1_500))
	s.now = now
	s.use("key-1", "gpt-4", requestsOnly(300))
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.view("#/entity?id=key-1")
	b.await("columns", `() => all("svg .column").length > 20`)
	hour := now.Truncate(time.Hour)
	values := eval[[]string](b,
		`() => all("svg .column").map((c) => c.getAttribute("aria-label")).filter((t) => !t.endsWith(": 0"))`)
	if len(values) != 2 || !endsWith(values[0], ": 1,500") || !endsWith(values[1], ": 300") {
		t.Errorf("the columns say %q, want 1,500 two hours before %v, then 300", values, hour)
	}
	heights := eval[[]float64](b,
		`() => all("svg .column-bar").map((r) => r.getBoundingClientRect().height).filter((n) => n > 0)`)
	if len(heights) != 2 || heights[0] < 4.5*heights[1] || heights[0] > 5.5*heights[1] {
		t.Errorf("the columns are %v high, want 5 : 1", heights)
	}
	b.click("the last column", `() => all("svg .column").at(-1)`)
	b.await("its value", `() => all(".tip").some((e) => e.textContent.endsWith(": 300"))`)
	b.press("As a table")
	b.await("the table", `() => all("details[open] tbody tr").some((r) => r.cells[1].textContent === "1,500")`)
	b.press("Days")
	b.await("the days",
		`() => all("svg .column").map((c) => c.getAttribute("aria-label").split(": ")[1]).some((n) => n === "7")`)
	b.press("Months")
	b.await("the months", `() => all("svg .column").length === 12`)
	b.keep("charts")
}

func endsWith(text, end string) bool {
	return len(text) >= len(end) && text[len(text)-len(end):] == end
}

func TestResource(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "gpt-4", fixed("rpm", 100))
	for i := range 12 {
		s.use(string(rune('a'+i)), "gpt-4", requestsOnly(int64(5*i)))
	}
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.follow("Resources")
	b.await("the resources", `() => heading() === "Resources"`)
	b.click("the resource", `() => all("main a").find((e) => e.textContent === "gpt-4")`)
	b.await("the resource", `() => heading() === "gpt-4"`)
	b.await("its total", `() => /870\s*\/\s*1.2k/.test(document.querySelector("main").innerText.replace(/\s+/g, " "))`)
	b.await("the ten that use most",
		`() => all("[data-resource]").map((e) => e.dataset.entity).join("") === "lkjihgfedc"`)
	b.await("the defaults", `() => document.querySelector("main").innerText.includes("rpm 1 / 1000 d, capacity 100")`)
}
