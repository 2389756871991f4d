package webtest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

// focused describes the element with the focus, and how it shows.
const focused = `() => {
	const e = document.activeElement;
	const style = getComputedStyle(e);
	const ring = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
	const box = e.getBoundingClientRect();
	const seen = box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
	return { Name: nameOf(e).slice(0, 60), Row: e.dataset.key ?? "", Ring: ring, Seen: seen };
}`

type focus struct {
	Name, Row  string
	Ring, Seen bool
}

// tabTo presses Tab and returns where the focus is. It must be visible.
func (b *tab) tabTo() focus {
	b.t.Helper()
	b.keys(kb.Tab)
	f := eval[focus](b, focused)
	if !f.Ring || !f.Seen {
		b.t.Errorf("the focus does not show on %+v", f)
	}
	return f
}

// TestKeyboard uses the page without a mouse.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	s.entity(limiter.Entity{ID: "acme", Name: "Acme"})
	s.entity(limiter.Entity{ID: "key-1", Name: "First key", Parent: "acme"})
	s.use("key-1", "gpt-4", requestsOnly(10))
	s.use("solo", "gpt-4", requestsOnly(10))
	b := newTab(t)
	p := dashboard(t, s)
	b.visit(p)
	b.open(p.origin() + "/") // as a user who returns
	b.awaitLive()
	b.await("the rows", `() => Boolean(row("solo", "gpt-4"))`)
	eval[bool](b, `() => { document.activeElement.blur(); return true }`)

	names := []string{}
	for range 12 {
		f := b.tabTo()
		names = append(names, f.Name)
		if f.Row != "" {
			break
		}
	}
	want := []string{
		"Skip to the content", "zae-limiter", "Overview", "Resources", "Explain", "What if",
		"Search by ID or name", "Tightest first", "By name",
	}
	if diff := cmp.Diff(want, names[:len(names)-1]); diff != "" {
		t.Fatalf("the order of Tab (-want +got)\n%s", diff)
	}

	b.do("back to the order by name", chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)))
	b.keys(kb.Enter)
	b.await("the tree", `() => Boolean(control("button", "Collapse all"))`)
	if f := b.tabTo(); f.Name != "Collapse all" {
		t.Errorf("after the order, Tab goes to %+v", f)
	}
	b.tabTo()

	// In the tree, arrows move and fold.
	at := func(row string) {
		t.Helper()
		b.await("the focus on "+row, `(row) => document.activeElement.dataset.key === row`, row)
		if f := eval[focus](b, focused); !f.Ring || !f.Seen {
			t.Errorf("the focus does not show on %+v", f)
		}
	}
	at("eacme")
	b.keys(kb.ArrowDown)
	at("ekey-1")
	b.keys(kb.ArrowLeft)
	b.await("a folded entity", `() => !row("key-1", "gpt-4")`)
	b.keys(kb.ArrowRight)
	b.await("an open entity", `() => Boolean(row("key-1", "gpt-4"))`)
	b.keys(kb.End)
	at(`["solo","gpt-4"]`)
	b.keys(kb.Home)
	at("eacme")
	b.keys(kb.ArrowDown + kb.Enter)
	b.await("the entity", `() => heading() === "First key" && document.activeElement.tagName === "H1"`)
	b.do("go back", chromedp.NavigateBack())
	b.await("the overview", `() => heading() === "Overview" && Boolean(row("solo", "gpt-4"))`)
}

// TestSkipLink jumps over the navigation.
func TestSkipLink(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	b.visit(dashboard(t, newSample(t)))
	eval[bool](b, `() => { document.activeElement.blur(); return true }`)
	b.tabTo()
	b.keys(kb.Enter)
	f := b.tabTo()
	if !strings.HasPrefix(f.Name, "Search") {
		t.Errorf("after the link, Tab goes to %+v", f)
	}
	b.await("the overview", `() => heading() === "Overview" && pill() === "Live"`)
}

// TestExplainByKeyboard fills a form, and reads the answer where the focus stays.
func TestExplainByKeyboard(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	s.use("key-1", "gpt-4", requestsOnly(10))
	b := newTab(t)
	b.visit(dashboard(t, s))
	b.view("#/explain")
	for _, text := range []string{"key-1", "gpt-4"} {
		b.tabTo()
		b.keys(text)
	}
	b.tabTo()
	b.await("the limit, and the focus in it", `() => document.activeElement.name === "name" && document.activeElement.value === "rpm"`)
	b.keys(kb.Enter)
	b.await("the verdict",
		`() => all("[data-verdict=fits]").length === 1 && document.querySelector("[aria-live]").innerText.includes("fits")`)
	for range 30 {
		if f := b.tabTo(); f.Name == "Sign out" {
			return
		}
	}
	t.Error("Tab does not reach the end of the page")
}
