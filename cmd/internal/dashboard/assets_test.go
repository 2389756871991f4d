package dashboard

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// maxAssets bounds the files of the page together, uncompressed.
const maxAssets = 125_000

func TestAssetsAreSmallAndTheirOwn(t *testing.T) {
	assets, err := readAssets(files)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	foreign := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9-]+(\.[a-z0-9-]+)+`)
	namespaces := regexp.MustCompile(`http://www\.w3\.org/(2000/svg|1999/xhtml)`) // names, which no browser fetches
	inline := regexp.MustCompile(`(?i)<style|\sstyle\s*=|\son[a-z]+\s*=\s*["']|javascript:|<script(?:[^>]*)>\s*[^<\s]`)
	unsafeCode := regexp.MustCompile(`\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function)`)
	for path, a := range assets {
		text := namespaces.ReplaceAllString(string(a.content), "")
		total += len(a.content)
		if found := foreign.FindString(text); found != "" {
			t.Errorf("%s names another host: %s", path, found)
		}
		if found := inline.FindString(text); strings.HasPrefix(a.kind, "text/html") && found != "" {
			t.Errorf("%s has code or style inline: %q", path, found)
		}
		if found := unsafeCode.FindString(text); found != "" {
			t.Errorf("%s makes HTML from text: %s", path, found)
		}
	}
	if total > maxAssets {
		t.Errorf("the page has %d bytes, more than %d", total, maxAssets)
	}
	if assets["/"] == nil {
		t.Error("there is no page")
	}
}

func TestAssetsAreServedWithTags(t *testing.T) {
	r := newRig(t, Options{})
	w := r.send(request{path: "/"})
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("page: %d %v", w.Code, w.Header())
	}
	tag := w.Header().Get("Etag")
	again := r.send(request{path: "/", header: map[string]string{"If-None-Match": tag}})
	if again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("page again: %d with %d bytes", again.Code, again.Body.Len())
	}
	if w := r.send(request{path: "/", method: http.MethodPost}); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST of the page: %d", w.Code)
	}
	for _, path := range []string{
		"/index.html", "/../go.mod", "/assets/index.html", "/api", "/api/", "/api/session/", "//", "",
	} {
		if w := r.send(request{path: path}); w.Code != http.StatusNotFound {
			t.Errorf("%q: %d, want 404", path, w.Code)
		}
	}
}
