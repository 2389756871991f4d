package webtest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// dashboard starts zae-limiter dashboard on a store.
func dashboard(t *testing.T, s *store, flags ...string) *program {
	t.Helper()
	return start(t,
		append([]string{"dashboard", "--store", s.URL(), "--listen", "127.0.0.1:0", "--no-browser"}, flags...)...)
}

// gauge is what the page shows of a limit.
type gauge struct {
	Level, Amount, Percent, Color, Image, Sign, Spoken string
	Share, Value                                       int
}

func TestBars(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	for _, used := range []int64{0, 49, 50, 79, 80, 100, 130} {
		s.use(fmt.Sprintf("used-%03d", used), "gpt-4", limiter.Tokens("rpm", used))
	}
	b := newTab(t)
	b.visit(dashboard(t, s))
	shown := map[string]gauge{}
	for _, want := range []struct {
		entity, level, percent string
		share                  int
	}{
		{"used-000", "green", "0 %", 0},
		{"used-049", "green", "49 %", 49},
		{"used-050", "yellow", "50 %", 50},
		{"used-079", "yellow", "79 %", 79},
		{"used-080", "red", "80 %", 80},
		{"used-100", "red", "100 %", 100},
		{"used-130", "debt", "130 %", 100},
	} {
		b.await("the bar of "+want.entity, `(e, share) => limit(e, "gpt-4", "rpm")?.share === share`, want.entity,
			want.share)
		got := eval[gauge](b, `(e) => limit(e, "gpt-4", "rpm")`, want.entity)
		shown[want.level] = got
		if got.Level != want.level || got.Percent != want.percent || got.Value != want.share {
			t.Errorf("%s shows %+v, want %+v", want.entity, got, want)
		}
	}
	if got := shown["debt"].Amount; got != "debt 30 / 100" {
		t.Errorf("the bucket in debt shows %q", got)
	}
	if got := shown["red"].Amount; got != "0 / 100" {
		t.Errorf("the empty bucket shows %q", got)
	}
	for level, g := range shown {
		for other, o := range shown {
			if level < other && (g.Sign == o.Sign || g.Color+g.Image == o.Color+o.Image) {
				t.Errorf("%s and %s look alike: %+v, %+v", level, other, g, o)
			}
		}
	}
	b.keep("overview-bars")
}

func TestLargeNumbers(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("tpm", 2_000_000), fixed("rpm", 10_000))
	s.use("big", "gpt-4", limiter.Tokens("tpm", 765_433).And("rpm", 1))
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.await("the row", `() => Boolean(row("big", "gpt-4"))`)
	got := map[string]string{}
	for _, name := range []string{"tpm", "rpm"} {
		g := eval[gauge](b, `(n) => limit("big", "gpt-4", n)`, name)
		got[name] = g.Amount
		if name == "tpm" {
			got["spoken"] = g.Spoken
		}
	}
	want := map[string]string{
		"tpm": "1.23M / 2M", "rpm": "9.99k / 10k",
		"spoken": "38 % missing, most is left, 1,234,567 of 2,000,000 available",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	s.entity(limiter.Entity{ID: "acme", Name: "Acme Corporation"})
	s.entity(limiter.Entity{ID: "team", Name: "Team of Acme", Parent: "acme"})
	s.entity(limiter.Entity{ID: "key-1", Name: "First key", Parent: "team", Cascade: true})
	s.use("key-1", "gpt-4", limiter.Tokens("rpm", 1))
	s.use("key-1", "claude", limiter.Tokens("rpm", 1))
	s.use("solo", "gpt-4", limiter.Tokens("rpm", 1))
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.view("#/?order=name")
	b.await("the last row", `() => Boolean(row("solo", "gpt-4"))`)
	lines := eval[[]string](b,
		`() => all("[role=treegrid] [data-key]").map((e) => e.getAttribute("aria-level") + " " + (e.dataset.resource ?? e.querySelector("a").textContent))`)
	want := []string{
		"1 Acme Corporation", "2 Team of Acme", "3 claude", "3 gpt-4", "3 First key", "4 claude", "4 gpt-4",
		"1 solo", "2 gpt-4",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("the tree (-want +got)\n%s", diff)
	}
	b.click("the fold of the team", `() => control(".fold", "Collapse team")`)
	b.await("a folded team", `() => !row("key-1", "claude") && Boolean(row("solo", "gpt-4"))`)
	b.press("Expand all")
	b.await("an open team", `() => Boolean(row("key-1", "claude"))`)
}

func TestSearchAsYouType(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	s.entity(limiter.Entity{ID: "key-2", Name: "Bob's Notebook"})
	for _, id := range []string{"key-1", "key-2", "other"} {
		s.use(id, "gpt-4", limiter.Tokens("rpm", 1))
	}
	b := newTab(t)
	b.visit(dashboard(t, s))
	for _, order := range []string{"Tightest first", "By name"} {
		b.press(order)
		b.searchAsYouType()
	}
}

func (b *tab) searchAsYouType() {
	b.t.Helper()
	shown := `(...ids) => { const found = all("[data-resource]").map((e) => e.dataset.entity); return found.join() === ids.join() }`
	b.await("all rows", shown, "key-1", "key-2", "other")
	b.fill("Search", "KEY")
	b.await("the keys", shown, "key-1", "key-2")
	b.fill("Search", "notebook")
	b.await("the row by its name", shown, "key-2")
	b.fill("Search", "nothing like it")
	b.await("no row",
		`() => all("[data-resource]").length === 0 && document.body.innerText.includes("nothing like it")`)
	b.fill("Search", "")
	b.await("all rows again", shown, "key-1", "key-2", "other")
}

func TestTightestFirst(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	for id, used := range map[string]int64{"a": 10, "b": 90, "c": 150, "d": 50} {
		s.use(id, "gpt-4", limiter.Tokens("rpm", used))
	}
	b := newTab(t)
	b.visit(dashboard(t, s))
	const shown = `(ids, at) => all("[data-resource]").map((e) => e.dataset.entity).join() === ids && (location.hash || "#/") === at`
	b.await("the tightest first", shown, "c,b,d,a", "#/")
	b.await("the number of scanned buckets",
		`() => /4 scanned|of 4\b/.test(all("[role=status]").map((e) => e.textContent).join(" "))`)
	b.keep("overview-tightest")
	b.press("By name")
	b.await("the order by name", shown, "a,b,c,d", "#/?order=name")
	b.press("Tightest")
	b.await("the tightest first", shown, "c,b,d,a", "#/")
	s.use("a", "gpt-4", requestsOnly(900))
	b.await("a new order", shown, "a,c,b,d", "#/")
}

// TestCircle shows entities whose parents form a circle, as a faulty writer could
// leave them.
func TestCircle(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	for _, id := range []string{"a", "b", "c"} {
		s.entity(limiter.Entity{ID: id, Parent: "root"})
		s.use(id, "gpt-4", requestsOnly(1))
	}
	s.exec(`UPDATE entities SET parent = CASE id WHEN 'a' THEN 'b' WHEN 'b' THEN 'a' ELSE 'c' END`)
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.view("#/?order=name")
	for _, id := range []string{"a", "b", "c"} {
		b.await("the row of "+id, `(id) => Boolean(row(id, "gpt-4"))`, id)
	}
	b.view("#/entity?id=a")
	b.await("its bucket", `() => Boolean(row("a", "gpt-4"))`)
}
