package webtest

import (
	"testing"
)

// TestDemo uses zae-limiter demo --web as a visitor does.
func TestDemo(t *testing.T) {
	t.Parallel()
	p := start(t, "demo", "--web", "--listen", "127.0.0.1:0", "--no-browser")
	b := newTab(t)
	b.allow(p.host())
	b.open(p.origin() + "/dashboard/")
	b.awaitLive()
	b.await("the project of the demo", `() => document.querySelector("main").innerText.includes("Demo Project")`)
	b.await("running traffic", `() => document.querySelector("main").innerText.includes("Background traffic runs")`)
	b.keep("demo")

	b.press("Pause")
	b.await("paused traffic", `() => Boolean(control("button", "Resume"))`)
	b.choose("API key", "key-alice")
	b.press("Send")
	b.await("an answer", `() => all("[data-state=admitted], [data-state=refused]").length === 1`)

	b.expect(`status of 429`)
	b.choose("API key", "key-bob")
	for range 30 {
		b.press("Send")
		b.await("an answer",
			`() => Boolean(control("button:enabled", "Send")) && all("[data-state=admitted], [data-state=refused]").length === 1`)
		if eval[bool](b, `() => all("[data-state=refused]").length === 1`) {
			break
		}
	}
	b.await("a refusal",
		`() => /key-bob.*(rpm|tpm): needs/.test(all("[data-state=refused]")[0]?.innerText.replace(/\s+/g, " ")) && /Retry in \d+ s|fits now/.test(all("[data-state=refused]")[0].innerText)`)
	b.keep("demo-refused")
	b.axe("the demo")
	eval[bool](b, `() => { const box = all("textarea")[0]; box.value = "x".repeat(4000); return true }`)
	b.press("Send")
	b.await("a refusal of a call above the capacity",
		`() => all("[data-state=refused]")[0]?.innerText.includes("never fits")`)
	eval[bool](b, `() => { all("textarea")[0].value = "Hello"; return true }`)

	b.click("the option Stream", `() => all("input[type=checkbox]")[0]`)
	b.choose("API key", "key-charlie")
	b.press("Send")
	b.await("a streamed answer with its tokens",
		`() => / = \d+ tokens/.test(all("[data-state=admitted]")[0]?.innerText ?? "")`)
	b.await("its bucket", `() => all(".tried [data-entity=key-charlie][data-resource=gpt-4]").length === 1`)
	b.press("Resume")
	b.await("running traffic", `() => Boolean(control("button", "Pause"))`)
	b.resize(360, 740)
	if wide := eval[string](b, `() => overflow()`); wide != "" {
		t.Errorf("the demo on a phone is too wide by %s", wide)
	}
	b.keep("demo-360")
}

// TestDemoPages opens the other pages of the demo.
func TestDemoPages(t *testing.T) {
	t.Parallel()
	p := start(t, "demo", "--web", "--listen", "127.0.0.1:0", "--no-browser")
	b := newTab(t)
	b.allow(p.host())
	for _, path := range []string{"/", "/docs"} {
		b.open(p.origin() + path)
		b.await("the page "+path, `() => heading() !== ""`)
		b.axe(path)
		b.keep("demo-page" + path)
	}
	b.open(p.origin() + "/")
	b.click("the link to the dashboard", `() => all("a").find((e) => new URL(e.href).pathname === "/dashboard/")`)
	b.awaitLive()
}
