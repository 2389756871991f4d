package webtest

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var pictures = flag.String("pictures", "",
	"folder for the pictures of the documentation; none are made if this is empty")

// largestPicture bounds a picture of the documentation, in bytes.
const largestPicture = 200_000

// TestPictures makes the pictures of the documentation: make pictures.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("make pictures runs it")
	}
	s := newSample(t)
	b := newTab(t)
	b.media("light", true) // no flash in a picture
	b.visit(dashboard(t, s, "--write", "--principal", "ada@example.com"))
	s.busy()
	b.view("#/?order=name")
	b.await("bars of every color",
		`() => ["green", "yellow", "red", "debt"].every((l) => all("[data-level=" + l + "]").length > 0)`)
	b.picture("dashboard-overview", 860)

	b.view("#/entity?id=key-acme-web")
	b.await("the charts", `() => all("svg .column").length > 20`)
	b.choose("Resource", "gpt-4")
	b.await("the charts", `() => all("svg .column-bar").some((e) => e.getBoundingClientRect().height > 50)`)
	b.picture("dashboard-entity", 1300)

	b.view("#/explain?entity=key-umbra-lab&resource=gpt-4&consume=rpm%3A1%2Ctpm%3A9000")
	b.await("the verdict", `() => all("[data-verdict=waits]").length === 1`)
	b.picture("dashboard-explain", 1000)

	b.view("#/what-if?entity=key-acme-batch&resource=gpt-4")
	b.await("the limits in force", `() => all("input[name=name]").map((e) => e.value).join() === "rpm,tpm"`)
	for _, name := range []string{"capacity", "refill"} {
		b.enter("the field "+name, `() => all("input[name=`+name+`]")[1]`, "2000")
	}
	b.press("Replay")
	b.await("the report", `() => (`+section+`)("Report").length > 0`)
	b.picture("dashboard-what-if", 1010)
}

// TestDemoPicture makes the picture of the demo.
func TestDemoPicture(t *testing.T) {
	if *pictures == "" {
		t.Skip("make pictures runs it")
	}
	p := start(t, "demo", "--web", "--listen", "127.0.0.1:0", "--no-browser")
	b := newTab(t)
	b.media("light", true)
	b.visit(p)
	b.choose("API key", "key-bob")
	for range 5 {
		b.press("Send")
		b.await("an answer",
			`() => Boolean(control("button:enabled", "Send")) && all("[data-state=admitted]").length === 1`)
	}
	b.choose("API key", "key-alice")
	b.press("Send")
	b.await("an answer",
		`() => Boolean(control("button:enabled", "Send")) && all("[data-state=admitted]").length === 1`)
	b.await("busy rows",
		`() => Boolean(row("key-alice", "gpt-4")) && all("[data-level=yellow], [data-level=red]").length > 0`)
	b.await("the tightest first",
		`() => all(".rows .bucket")[0]?.querySelector("[data-level=yellow], [data-level=red]") != null`)
	b.picture("dashboard-demo", 900)
}

// busy takes some more tokens than the sample, so that the bars have every color.
func (s *store) busy() {
	s.t.Helper()
	s.use("key-acme-web", "gpt-4", requests(100, 410))
	s.use("key-acme-web", "claude-sonnet", requests(250, 1_100))
}

// picture writes the upper part of the page to the folder of the documentation.
func (b *tab) picture(name string, height int64) {
	b.t.Helper()
	b.resize(1280, height)
	eval[bool](b, `() => { document.activeElement.blur(); scrollTo(0, 0); return true }`)
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	content, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if len(content) > largestPicture {
		b.t.Errorf("%s has %d bytes, want at most %d", name, len(content), largestPicture)
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), content, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
