package webtest

import (
	"path/filepath"
	"testing"
)

// TestSessionsLeaveNothing signs two readers of two namespaces in, one after the
// other: the second sees nothing of the first, and a link signs no viewer in.
func TestSessionsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	s.use("secret-key", "gpt-4", requestsOnly(10))
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	tokens := writeTokens(t, file, "read", "admin")
	p := serve(t, s, "--tokens", file)
	b := newTab(t)
	b.allow(p.host())
	b.expect(`status of 401`)
	b.open(p.URL + "#token=" + tokens["read"])
	b.await("the refusal of the link",
		`() => Boolean(control("input", "Token")) && all("[role=alert]").some((e) => e.innerText.includes("link"))`)
	if at := eval[string](b, `() => location.href`); at != p.URL {
		t.Errorf("the token is still in the address: %s", at)
	}
	b.fill("Token", tokens["read"]+"\r")
	b.awaitLive()
	b.await("the row", `() => Boolean(row("secret-key", "gpt-4"))`)
	first := eval[string](b, `() => location.pathname`)
	eval[bool](b, `() => { window.webtestOld = true; return true }`)
	b.press("Sign out")
	b.await("the form in a new page", `() => Boolean(control("input", "Token")) && !window.webtestOld`)
	b.fill("Token", tokens["admin"]+"\r")
	b.awaitLive()
	if second := eval[string](b, `() => location.pathname`); second == first {
		t.Errorf("both sessions have the path %s", second)
	}
	b.open(p.origin() + first) // an old address finds the session of today
	b.awaitLive()
	b.await("the name of the admin", `() => document.querySelector("footer").innerText.includes("admin-user")`)
}

// TestOddViewsAndNumbers opens views with names that every object has, and enters
// numbers that a browser cannot hold.
func TestOddViewsAndNumbers(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.limits("", "", fixed("rpm", 100))
	b := newTab(t)
	b.visit(dashboard(t, s, "--write"))
	for _, odd := range []string{"#/constructor", "#/__proto__", "#/toString", "#/hasOwnProperty?x=1"} {
		b.view(odd)
		b.await("that there is no view "+odd, `() => heading() === "There is no such view"`)
	}
	b.view("#/changes")
	b.await("the form", `() => Boolean(control("button", "Preview"))`)
	const message = `() => document.querySelector("input[name=capacity]").validationMessage`
	for number, fine := range map[string]bool{
		"9007199254740991": true, "1": true, "9007199254740993": false, "1.5": false, "0": false, "-1": false,
		"1e300": false,
	} {
		b.enter("the capacity", `() => document.querySelector("input[name=capacity]")`, number)
		want := map[bool]string{false: "Enter a whole number from 1 to 9,007,199,254,740,991."}[fine]
		if got := eval[string](b, message); got != want {
			t.Errorf("%s: %q, want %q", number, got, want)
		}
	}
}
