package webtest

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// visit opens the page of a program with its token, and waits until it is live.
func (b *tab) visit(p *program) {
	b.t.Helper()
	b.allow(p.host())
	b.open(p.URL)
	b.awaitLive()
}

func (b *tab) awaitLive() {
	b.t.Helper()
	b.await("the pill Live", `() => pill() === "Live"`)
}

// view goes to a view of the page by its fragment and waits for its heading.
func (b *tab) view(fragment string) {
	b.t.Helper()
	eval[bool](b, `(f) => {
		document.querySelector("main").replaceChildren();
		if (location.hash === f) dispatchEvent(new Event("hashchange"));
		location.hash = f;
		return true;
	}`, fragment)
	b.await("the view "+fragment, `() => heading() !== ""`)
}

// click clicks on the middle of a visible element, as a mouse does. The function
// of JavaScript returns the element once it is there.
func (b *tab) click(what, function string, args ...any) {
	b.t.Helper()
	b.await(what, `(...args) => {
		const e = (`+function+`)(...args);
		if (!e) return false;
		e.scrollIntoView({ block: "center", behavior: "instant" });
		const r = e.getBoundingClientRect();
		window.webtestPoint = { X: r.x + r.width / 2, Y: r.y + r.height / 2 };
		return true;
	}`, args...)
	at := eval[struct{ X, Y float64 }](b, `() => window.webtestPoint`)
	b.do("click on "+what, chromedp.MouseClickXY(at.X, at.Y))
}

// press clicks on the button with a name.
func (b *tab) press(name string) {
	b.t.Helper()
	b.click("the button "+name, `(n) => control("button:enabled, summary, [role=button], [role=tab]", n)`, name)
}

// follow clicks on the link with a name.
func (b *tab) follow(name string) {
	b.t.Helper()
	b.click("the link "+name, `(n) => control("a", n)`, name)
}

// fill replaces the text of the field with a label, by typing. A tab or a return at
// the end is typed after it.
func (b *tab) fill(label, text string) {
	b.t.Helper()
	value := strings.TrimRight(text, "\t\r")
	b.enter("the field "+label, fmt.Sprintf(`() => control("input, textarea", %q)`, label), value)
	b.keys(text[len(value):])
}

// enter replaces the text of a field by typing, until the field has it: a form that
// is still loading may replace its fields.
func (b *tab) enter(what, field, text string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; {
		b.click(what, field)
		eval[bool](b, `() => { document.activeElement.select?.(); return true }`)
		b.keys(cmp.Or(text, kb.Delete))
		if eval[bool](b, `(text) => (`+field+`)()?.value === text`, text) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s does not take %q\n%s", what, text, b.text())
		}
	}
}

// choose selects an option of the list with a label.
func (b *tab) choose(label, option string) {
	b.t.Helper()
	b.await("the list "+label, `(n) => Boolean(control("select", n))`, label)
	ok := eval[bool](b, `(n, o) => {
		const list = control("select", n);
		const option = [...list.options].find((e) => e.value === o || e.textContent.trim() === o);
		if (!option) return false;
		list.value = option.value;
		list.dispatchEvent(new Event("input", { bubbles: true }));
		list.dispatchEvent(new Event("change", { bubbles: true }));
		return true;
	}`, label, option)
	if !ok {
		b.t.Fatalf("the list %s has no option %q", label, option)
	}
}

// keys types on the keyboard.
func (b *tab) keys(keys string) {
	b.t.Helper()
	b.do("type", chromedp.KeyEvent(keys))
}
