package webtest

import (
	"fmt"
	"testing"
)

// views lists the fragments of all views of the page, on the sample.
var views = []struct{ name, fragment string }{
	{"overview", "#/"},
	{"tree", "#/?order=name"},
	{"entity", "#/entity?id=key-acme-batch"},
	{"parent", "#/entity?id=org-acme"},
	{"resources", "#/resource"},
	{"resource", "#/resource?name=gpt-4"},
	{"explain", "#/explain?entity=key-acme-batch&resource=gpt-4&consume=rpm%3A1%2Ctpm%3A500000"},
	{"what-if", "#/what-if?entity=key-acme-batch&resource=gpt-4"},
	{"changes", "#/changes?action=set_limits&entity=key-acme-batch&resource=gpt-4"},
}

// settled reports whether a view has loaded what it asked for.
const settled = `() => heading() !== "" && all(".loading").length === 0 && pill() === "Live" && all(".rows, .card, form, .note").length > 0`

func TestWidths(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	b := newTab(t)
	b.visit(dashboard(t, s, "--write"))
	for _, width := range []int64{360, 700, 1280, 3840} {
		b.resize(width, 1200)
		for _, v := range views {
			b.view(v.fragment)
			b.await(v.name, settled)
			if wide := eval[string](b, `() => overflow()`); wide != "" {
				t.Errorf("%s at %d px is too wide by %s", v.name, width, wide)
			}
			b.keep(fmt.Sprintf("%s-%d", v.name, width))
		}
	}
}

// TestDarkMode compares the page with the settings of the system.
func TestDarkMode(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	b.visit(dashboard(t, newSample(t)))
	brightness := `() => getComputedStyle(document.body).backgroundColor.match(/\d+(\.\d+)?/g).slice(0, 3).reduce((a, n) => a + Number(n), 0) / 3`
	if light := eval[float64](b, brightness); light < 200 {
		t.Errorf("the page in light mode has a background of %.0f of 255", light)
	}
	b.media("dark", false)
	b.await("a dark background", `() => (`+brightness+`)() < 60`)
	b.await(views[0].name, settled)
	b.keep("overview-dark")
	b.view(views[2].fragment)
	b.await(views[2].name, settled)
	b.keep("entity-dark")
}

// TestReducedMotion counts the animations while numbers change.
func TestReducedMotion(t *testing.T) {
	t.Parallel()
	for _, reduce := range []bool{false, true} {
		t.Run(fmt.Sprintf("reduce=%t", reduce), func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			s.limits("", "", fixed("rpm", 100))
			s.use("key-1", "gpt-4", requestsOnly(1))
			b := newTab(t)
			b.media("light", reduce)
			b.visit(dashboard(t, s))
			b.await("the row", `() => limit("key-1", "gpt-4", "rpm")?.amount === "99 / 100"`)
			eval[bool](b, `() => {
				window.moved = 0;
				const animate = Element.prototype.animate;
				Element.prototype.animate = function (...args) { window.moved++; return animate.apply(this, args) };
				document.addEventListener("transitionrun", () => window.moved++, true);
				document.addEventListener("animationstart", () => window.moved++, true);
				return true;
			}`)
			s.use("key-1", "gpt-4", requestsOnly(40))
			b.await("the change", `() => limit("key-1", "gpt-4", "rpm").share === 41`)
			b.await("still bars",
				`() => document.getAnimations().every((a) => a.effect.getComputedTiming().iterations === Infinity)`)
			if moved := eval[int](b, `() => window.moved`); (moved > 0) == reduce {
				t.Errorf("%d animations", moved)
			}
		})
	}
}
