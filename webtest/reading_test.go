package webtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// cutWords returns texts of the page itself that are cut, or broken inside a word.
// Names that people choose may be cut: their tooltips have them.
const cutWords = `() => {
	const own = ".refill, .full, .amount, .use, .source, .activity, .head .cell, .head span, th, dt, td li, .chips li, .summary, nav a, button, .button, label, legend, .axis";
	const found = [];
	for (const e of all(own).filter((e) => !e.matches(".hidden"))) {
		const text = e.textContent.trim();
		if (e.scrollWidth > e.clientWidth && getComputedStyle(e).display !== "inline") found.push("cut by " + (e.scrollWidth - e.clientWidth) + " px: " + text);
		const walker = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
		for (let n = walker.nextNode(); n; n = walker.nextNode()) {
			for (const word of n.data.matchAll(/\S+/g)) {
				const range = document.createRange();
				range.setStart(n, word.index);
				range.setEnd(n, word.index + word[0].length);
				if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) found.push("broken: " + word[0] + " in " + text);
			}
		}
	}
	return [...new Set(found)];
}`

// newWide returns a store whose numbers take as much room as they do in practice:
// quotas, large capacities, money, debt, and every level of limits.
func newWide(t *testing.T) *store {
	t.Helper()
	s := newStore(t)
	s.limits("", "", limiter.Quota("tokens", 300_000, limiter.EveryMonth), limiter.PerMinute("rpm", 999_999))
	s.limits("", "gpt-4", limiter.PerMinute("tpm", 888_888_888),
		limiter.Quota("spend", 888_880_000, limiter.EveryMonth))
	s.limits("key-both", "gpt-4", limiter.PerHour("tpm", 888_888_888).WithBurst(999_999_999),
		limiter.Quota("spend-daily", 88_880_000_000, limiter.EveryDay).In("Europe/Berlin").Shadow())
	s.limits("key-all", "", fixed("rpm", 999),
		limiter.Quota("tokens", 888_800_000, limiter.EveryYear).In("America/Argentina/Buenos_Aires"),
		limiter.PerMinute("spend", 888_880_000))
	s.entity(limiter.Entity{ID: "key-both", Name: "Entity and resource", Parent: "key-all", Cascade: true})
	s.use("key-some", "claude", limiter.Tokens("tokens", 123_456).And("rpm", 18_260_000))
	s.use("key-debt", "claude", limiter.Tokens("tokens", 1).And("rpm", 999_000_000))
	s.use("key-some", "gpt-4", limiter.Tokens("tpm", 1_777_777_776).And("spend", 1_777_760_000))
	s.use("key-both", "gpt-4", limiter.Tokens("tpm", 555_555_555).And("spend-daily", 55_550_000_000))
	s.use("key-all", "gpt-4", limiter.Tokens("rpm", 998).And("tokens", 1_777_600_000).And("spend", 1_111_110_000))
	s.must(s.lim.Disable(t.Context(), limiter.Scope{Entity: "key-both"}, "unpaid"))
	return s
}

// TestNoCutWords reads every view at 1280 pixels.
func TestNoCutWords(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	b.visit(dashboard(t, newWide(t), "--write"))
	for _, v := range []struct{ name, fragment, text string }{
		{"overview", "#/", "300k / month"},
		{"tree", "#/?order=name", "300k / month"},
		{"entity", "#/entity?id=key-some", "300k / month"},
		{"child", "#/entity?id=key-both", "$88.8k / day"},
		{"parent", "#/entity?id=key-all", "888M / year"},
		{"resources", "#/resource", "$888.88 / month"},
		{"resource", "#/resource?name=gpt-4", "$888.88 / month"},
		{
			"explain",
			"#/explain?entity=key-all&resource=gpt-4&consume=rpm%3A1%2Ctokens%3A500000%2Cspend%3A1000000",
			"fits in",
		},
		{"what-if", "#/what-if?entity=key-both&resource=gpt-4", "Replay"},
		{"changes", "#/changes?action=set_limits&entity=key-both&resource=gpt-4", "Preview"},
	} {
		b.view(v.fragment)
		b.await(v.name, settled)
		b.await(v.text, `(text) => document.querySelector("main").innerText.includes(text)`, v.text)
		if found := eval[[]string](b, cutWords); len(found) > 0 {
			t.Errorf("%s:\n  %s", v.name, strings.Join(found, "\n  "))
		}
		b.keep("wide-" + v.name)
	}
}

// TestNoCutNumbers reads the buckets on narrower windows, on which dollars and debts
// must fit too.
func TestNoCutNumbers(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	b.visit(dashboard(t, newWide(t)))
	for _, width := range []int64{1221, 1220, 1021, 1020, 761, 760, 360} {
		b.resize(width, 1600)
		for _, fragment := range []string{
			"#/", "#/?order=name", "#/entity?id=key-some", "#/entity?id=key-all", "#/resource?name=gpt-4",
		} {
			b.view(fragment)
			b.await(fragment, settled)
			b.await("money", `() => all(".amount").some((e) => e.textContent.includes("$888.88"))`)
			if found := eval[[]string](b, cutWords); len(found) > 0 {
				t.Errorf("%s at %d pixels:\n  %s", fragment, width, strings.Join(found, "\n  "))
			}
		}
		b.keep(fmt.Sprintf("narrow-%d", width))
	}
}

// TestCutWordsAreFound narrows a column: the check of TestNoCutWords must see it.
func TestCutWordsAreFound(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	b.visit(dashboard(t, newWide(t)))
	b.await("the quota", `() => all(".refill").some((e) => e.textContent === "300k / month")`)
	eval[bool](b, `() => { for (const e of all(".bucket .refill, .head .source")) e.style.width = "3ch"; return true }`)
	found := eval[[]string](b, cutWords)
	for _, want := range []string{"300k / month", "Limits from"} {
		if !slices.ContainsFunc(found, func(f string) bool { return strings.HasSuffix(f, want) }) {
			t.Errorf("%q is cut, and found are\n%s", want, strings.Join(found, "\n"))
		}
	}
}

// TestMoney shows limits of money in dollars, in every view.
func TestMoney(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "gpt-4", limiter.Quota("spend", 50_000_000, limiter.EveryYear))
	s.use("key-1", "gpt-4", limiter.Tokens("spend", 12_345_678))
	s.use("key-2", "gpt-4", limiter.Tokens("spend", 87_000_000))
	b := newTab(t)
	b.visit(dashboard(t, s, "--write"))
	b.await("what is left, cut to cents", `() => limit("key-1", "gpt-4", "spend")?.amount === "$37.65 / $50.00"`)
	b.await("every digit in words",
		`() => limit("key-1", "gpt-4", "spend").spoken.includes("$37.654322 of $50.00 available")`)
	b.await("the debt, with its share",
		`() => { const l = limit("key-2", "gpt-4", "spend"); return l.amount === "debt $37.00 / $50.00" && l.percent === "174 %" && l.share === 100 }`)
	for _, v := range []struct{ fragment, text string }{
		{"#/", "$50.00 / year"},
		{"#/entity?id=key-1", "spend $50.00 / year"},
		{"#/entity?id=key-1", "$12.34 in all"},
		{"#/resource", "spend $50.00 / year"},
		{"#/resource?name=gpt-4", "/ $100.00"},
		{"#/explain?entity=key-1&resource=gpt-4&consume=spend%3A40000000", "$37.654322"},
		{"#/changes?action=top_up&entity=key-1&resource=gpt-4", "spend"},
	} {
		b.view(v.fragment)
		b.await(v.text,
			`(text) => document.querySelector("main").innerText.replace(/\s+/g, " ").includes(text) || all("input").some((e) => e.value === text)`,
			v.text)
		if millionths := eval[[]string](
			b,
			`() => document.querySelector("main").innerText.match(/\b(12,345,678|37,654,322|50,000,000|50M|12\.3M|37\.6M)\b/g) ?? []`,
		); len(millionths) > 0 {
			t.Errorf("%s shows millionths: %q", v.fragment, millionths)
		}
	}
}

// TestAuditWords reads the audit trail: its details are words, not JSON.
func TestAuditWords(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.entity(limiter.Entity{
		ID: "key-1", Name: "First key", Parent: "acme", Cascade: true,
		Metadata: map[string]string{"tier": "gold"},
	})
	s.limits("key-1", "gpt-4", limiter.PerMinute("rpm", 500), limiter.Quota("tokens", 300_000, limiter.EveryMonth))
	s.must(s.lim.Disable(t.Context(), limiter.Scope{Entity: "key-1"}, "unpaid"))
	s.limits("key-1", "gpt-4", limiter.PerMinute("rpm", 600))
	s.must(s.lim.DeleteLimits(t.Context(), "key-1", "gpt-4"))
	s.limits("acme", "money", limiter.PerMinute("rpm", 1))
	s.limits("key-1", "money", limiter.Quota("spend-daily", 50_000_000, limiter.EveryDay))
	s.must(s.lim.Enable(t.Context(), limiter.Scope{Entity: "key-1"}))
	_, err := s.lim.Acquire(t.Context(), limiter.Request{
		Entity: "key-1", Resource: "money", Consume: limiter.Tokens("spend-daily", 20_000),
	})
	s.must(err)
	_, err = s.lim.TopUp(t.Context(), "key-1", "money", limiter.Tokens("spend-daily", 10_000), "invoice-17")
	s.must(err)
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.view("#/entity?id=key-1")
	b.await("the audit trail", `() => (`+section+`)("Audit trail").length === 8`)
	details := []string{}
	for _, line := range eval[[]string](b, section, "Audit trail") {
		t.Log(line)
		details = append(details, line[strings.LastIndex(line, "| ")+2:])
	}
	if code := strings.Join(details, " "); strings.ContainsAny(code, `{}[]"_`) ||
		strings.Contains(code, "object Object") {
		t.Errorf("the details are code: %q", details)
	}
	for _, want := range []string{
		"First key", "acme", "gold", "unpaid", "rpm 500 / min", "tokens 300k / month", "rpm 600 / min",
		"spend-daily $50.00 / day", "amounts spend-daily $0.01",
	} {
		if !slices.ContainsFunc(details, func(d string) bool { return strings.Contains(d, want) }) {
			t.Errorf("no detail says %q in %q", want, details)
		}
	}
	b.keep("audit")
}

// clashes returns the labels of charts that are cut or meet each other.
const clashes = `() => {
	const labels = all("svg .axis").map((e) => ({ text: e.textContent, box: e.getBoundingClientRect(), edge: e.closest("svg").getBoundingClientRect() }));
	const cut = labels.filter(({ box, edge }) => box.left < edge.left || box.right > edge.right || box.bottom > edge.bottom).map((l) => l.text + " is outside");
	const clash = labels.flatMap((a, i) => labels.slice(i + 1).filter((b) => a.box.left < b.box.right && b.box.left < a.box.right
		&& a.box.top + 2 < b.box.bottom && b.box.top + 2 < a.box.bottom).map((b) => a.text + " meets " + b.text));
	return [...cut, ...clash];
}`

// cutNames returns names of limits and IDs in tables that are cut or broken, and lists
// whose longest option has no room.
const cutNames = `() => {
	const found = [];
	for (const e of all(".limit-name, td bdi")) {
		if (e.scrollWidth > e.clientWidth && getComputedStyle(e).display !== "inline") found.push("cut: " + e.textContent);
		const lines = new Set([...e.getClientRects()].map((r) => r.top));
		if (!/\s/.test(e.textContent) && e.matches("td *") && (lines.size > 1 || e.getBoundingClientRect().height > 30)) found.push("broken: " + e.textContent);
	}
	for (const list of all("select")) {
		const free = list.cloneNode(true);
		free.style.cssText = "position:absolute; width:max-content";
		document.body.append(free);
		if (list.offsetWidth < free.offsetWidth) found.push("cut: a list with " + list.options[list.selectedIndex].textContent);
		free.remove();
	}
	return [...new Set(found)];
}`

// TestNamesHaveRoom reads names of a usual length on a desktop and on a phone.
func TestNamesHaveRoom(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	now := time.Now()
	s.limits("", "", limiter.PerMinute("requests-per-minute", 100), limiter.PerMinute("tpm", 1_000))
	s.limits("key-abc", "gpt-4", limiter.PerMinute("requests-per-minute", 200),
		limiter.Quota("spend", 10_000_000, limiter.EveryMonth).In("Europe/Berlin"),
		limiter.Quota("tokens-of-an-hour", 10_000, limiter.EveryHour))
	s.entity(limiter.Entity{ID: "key-abc", Parent: "project-1", Cascade: true})
	for s.now = now.Add(-40 * time.Hour); s.now.Before(now); s.now = s.now.Add(time.Hour) {
		s.use("key-abc", "gpt-4", limiter.Tokens("requests-per-minute", 20).And("spend", 120_000).And("tokens-of-an-hour", 5))
	}
	s.use("key-abc", "claude", limiter.Tokens("requests-per-minute", 20))
	b := newTab(t)
	b.visit(dashboard(t, s, "--write"))
	for _, width := range []int64{1280, 1220, 1020, 760, 390, 360} {
		b.resize(width, 1400)
		for _, v := range []struct{ name, fragment, ready string }{
			{"overview", "#/", "key-abc"},
			{"entity", "#/entity?id=key-abc", "As a table"},
			{"explain", "#/explain?entity=key-abc&resource=gpt-4&consume=requests-per-minute%3A1", "fits now"},
			{"changes", "#/changes?action=set_limits&entity=key-abc&resource=gpt-4", "Shadow"},
			{"what-if", "#/what-if?entity=key-abc&resource=gpt-4", "Shadow"},
			{"resource", "#/resource?name=gpt-4", "requests-per-minute"},
		} {
			b.view(v.fragment)
			b.await(v.name, settled)
			b.await(v.ready, `(text) => document.querySelector("main").innerText.toLowerCase().includes(text.toLowerCase())`, v.ready)
			if v.name == "entity" {
				b.choose("Resource", "gpt-4")
				b.await("three charts", `() => all(".chart").length === 3`)
			}
			for _, found := range append(eval[[]string](b, cutNames), eval[[]string](b, clashes)...) {
				t.Errorf("%s at %d px: %s", v.name, width, found)
			}
			if wide := eval[string](b, `() => overflow()`); wide != "" {
				t.Errorf("%s at %d px is too wide by %s", v.name, width, wide)
			}
			b.keep(fmt.Sprintf("room-%s-%d", v.name, width))
		}
	}
}

// TestChartDates reads the axes of the usage: hours stand above their dates, days
// and months above their years.
func TestChartDates(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 1_000))
	s.use("key-1", "gpt-4", requestsOnly(7))
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.view("#/entity?id=key-1")
	now := time.Now().UTC()
	for _, c := range []struct {
		window, upper, lower string
		dates                []string
	}{
		{"Hours", `^\d\d:00$`, `^\d\d-\d\d$`, []string{now.AddDate(0, 0, -1).Format("01-02")}},
		{"Days", `^\d\d-\d\d$`, `^\d{4}$`, []string{now.AddDate(0, 0, -29).Format("2006")}},
		{"Months", `^\d\d$`, `^\d{4}$`, []string{now.AddDate(-1, 1, 0).Format("2006"), now.Format("2006")}},
	} {
		b.press(c.window)
		b.await("the labels of "+c.window, `(upper, lower, dates) => {
			const bottom = all("svg .axis:not(.end)");
			const lines = Map.groupBy(bottom, (e) => e.getAttribute("y"));
			const [above, below] = [...lines].sort(([a], [b]) => a - b).map(([, list]) => list.map((e) => e.textContent));
			return Boolean(below) && lines.size === 2 && above.every((t) => new RegExp(upper).test(t)) && below.every((t) => new RegExp(lower).test(t))
				&& dates.every((d) => below.includes(d)) && new Set(below).size === below.length;
		}`, c.upper, c.lower, c.dates)
		if over := eval[[]string](b, clashes); len(over) > 0 {
			t.Errorf("%s: %q", c.window, over)
		}
	}
}

// TestResourceTable lists resources with their defaults and their state.
func TestResourceTable(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	s.limits("", "gpt-4", limiter.PerMinute("rpm", 500), limiter.Quota("spend", 50_000_000, limiter.EveryMonth))
	s.limits("key-1", "claude", limiter.PerMinute("rpm", 5))
	s.limits("", "gpt-2", limiter.PerMinute("rpm", 5))
	s.must(s.lim.Disable(t.Context(), limiter.Scope{Resource: "gpt-2"}, "retired"))
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.view("#/resource")
	b.await("the table", `() => all("tbody tr").length === 3`)
	got := eval[[]string](b,
		`() => [...all("table")[0].rows].map((r) => [...r.cells].map((c) => c.innerText.replace(/\s+/g, " ").trim()).join(" | "))`)
	want := []string{
		"Resource | Limits | State",
		"claude | limits of the system | –",
		"gpt-2 | rpm 5 / min | ⊘ disabled",
		"gpt-4 | rpm 500 / min spend $50.00 / month | –",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	b.await("why", `() => all("tbody .use").some((e) => e.title.includes("retired"))`)
	b.keep("resource-table")
}

// TestTriedKeyInSight tries each key of the demo: its buckets stand in the first
// 800 pixels of the page, and follow the request.
func TestTriedKeyInSight(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	p := start(t, "demo", "--web", "--listen", "127.0.0.1:0", "--no-browser", "--store", "memory:")
	b.visit(p)
	b.press("Pause")
	b.await("paused traffic", `() => Boolean(control("button", "Resume"))`)
	b.expect(`status of 429`)
	for _, key := range []string{"key-alice", "key-bob", "key-charlie"} {
		b.choose("API key", key)
		b.press("Send")
		b.await("an answer",
			`() => Boolean(control("button:enabled", "Send")) && all("[data-state=admitted], [data-state=refused]").length === 1`)
		eval[bool](b, `() => { scrollTo(0, 0); return true }`)
		b.await("the buckets of "+key+" in sight", `(key) => {
			const rows = all(".tried [data-resource]");
			const tried = rows.find((e) => e.dataset.resource === "gpt-4")?.getBoundingClientRect();
			return Boolean(tried) && tried.top > 0 && tried.bottom <= 800 && rows.every((e) => e.dataset.entity === key);
		}`, key)
		if found := eval[[]string](b, cutWords); len(found) > 0 {
			t.Errorf("%s:\n  %s", key, strings.Join(found, "\n  "))
		}
		b.keep(fmt.Sprintf("demo-tried-%s", key))
	}
}
