package webtest

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFaultsAreFound checks the tests themselves: a page with every kind of fault
// must not pass.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "script-src 'self'")
		writePage(w, `<p>faulty</p><script>never()</script><img src="http://elsewhere.example/x.png">`)
	}))
	defer page.Close()
	b := newTab(t)
	b.expect(".")
	b.allow(strings.TrimPrefix(page.URL, "http://"))
	b.open(page.URL)
	b.await("the page", `() => document.querySelector("p").textContent === "faulty"`)
	eval[bool](b, `async () => {
		const seen = ["error", "unhandledrejection"].map((kind) => new Promise((done) => addEventListener(kind, done)));
		console.error("wrong");
		Promise.reject(new Error("forgotten"));
		setTimeout(() => { throw new Error("thrown") });
		await Promise.all(seen);
		return true;
	}`)
	faults := b.leave()
	for _, want := range []string{
		`^console error: wrong`, `^console exception: .*thrown`, `^console exception: .*forgotten`,
		`^content security policy: .*script-src`, `^request to another host: http://elsewhere\.example/x\.png$`,
	} {
		if !slices.ContainsFunc(faults, regexp.MustCompile(want).MatchString) {
			t.Errorf("no fault matches %q in\n%s", want, strings.Join(faults, "\n"))
		}
	}
}

// TestAxeFindsBarriers checks that axe-core works at all.
func TestAxeFindsBarriers(t *testing.T) {
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writePage(w, `<main><h1>barriers</h1><img src="data:,"><p style="color:#999;background:#aaa">pale</p></main>`)
	}))
	defer page.Close()
	b := newTab(t)
	b.allow(strings.TrimPrefix(page.URL, "http://"))
	b.open(page.URL)
	found := strings.Join(b.barriers(), "\n")
	for _, want := range []string{"image-alt:", "color-contrast:"} {
		if !strings.Contains(found, want) {
			t.Errorf("axe-core does not report %s it found\n%s", want, found)
		}
	}
}
