package webtest

import (
	"strings"
	"testing"
)

// TestAccessible runs axe-core on every view, in light and dark.
func TestAccessible(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			b := newTab(t)
			b.media(scheme, true) // contrast is measured on still colors
			b.visit(dashboard(t, newSample(t), "--write"))
			for _, v := range views {
				b.view(v.fragment)
				b.await(v.name, settled)
				b.axe(v.name)
			}
			b.resize(360, 740)
			b.view(views[0].fragment)
			b.await(views[0].name, settled)
			b.axe("overview on a phone")
		})
	}
}

// axe fails the test for each barrier on the page.
func (b *tab) axe(view string) {
	b.t.Helper()
	if found := b.barriers(); len(found) > 0 {
		b.t.Errorf("%s: axe-core found\n  %s", view, strings.Join(found, "\n  "))
	}
}

// barriers runs the rules of axe-core that are on by default.
func (b *tab) barriers() []string {
	b.t.Helper()
	if !eval[bool](b, `() => "axe" in window`) {
		eval[bool](b, `() => { `+shared.axe+`; return true }`)
	}
	return eval[[]string](b, `async () => {
		const { violations } = await axe.run(document, { resultTypes: ["violations"] });
		return violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + v.help + "\n    " + n.html + "\n    " + n.failureSummary.replace(/\s+/g, " ")));
	}`)
}
