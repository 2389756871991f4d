package webtest

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var pictures = flag.String("pictures", "", "folder for the pictures of the documentation; none are made if this is empty")

// largestPicture bounds a picture of the documentation, in bytes.
const largestPicture = 200_000

// TestPictures makes the pictures of the documentation: make pictures.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("make pictures runs it")
	}
	s := newSample(t)
	file := filepath.Join(t.TempDir(), "gateway.db")
	content, err := os.ReadFile(s.path)
	s.must(err)
	s.must(os.WriteFile(file, content, 0o600))
	p := start(t, "dashboard", "--store", "sqlite:"+s.path, "--listen", "127.0.0.1:0", "--no-browser", "--write", "--principal", "ada@example.com")
	b := newTab(t)
	b.visit(p)
	s.busy()
	b.view("#/")
	b.await("the overview", settled)
	b.picture("dashboard-overview", 760)
}

// busy takes tokens, so that the bars have every color.
func (s *store) busy() {
	s.t.Helper()
	s.now = time.Time{}
	s.use("key-acme-web", "gpt-4", requests(290, 410))
	s.use("key-acme-batch", "gpt-4", requests(83, 3_500))
	s.use("key-acme-web", "claude-sonnet", requests(150, 620))
	s.use("key-umbra-lab", "gpt-4", requests(29, 800))
}

// picture writes the upper part of the page to the folder of the documentation.
func (b *tab) picture(name string, height int64) {
	b.t.Helper()
	b.resize(1280, height)
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	content, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	if len(content) > largestPicture {
		b.t.Errorf("%s has %d bytes, want at most %d", name, len(content), largestPicture)
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), content, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
