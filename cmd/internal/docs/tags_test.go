package docs

import (
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// root is the folder of the repository.
const root = "../../.."

var readPages = sync.OnceValues(func() ([]*Page, error) { return All(root) })

// pages returns all pages.
func pages(t *testing.T) []*Page {
	t.Helper()
	all, err := readPages()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d pages were found", len(all))
	}
	return all
}

// inSite reports whether a page is part of the site.
func inSite(p *Page) bool { return strings.HasPrefix(p.Path, "docs/") }

// tags lists the tags of a language's blocks.
var tags = map[string]*regexp.Regexp{
	"console": regexp.MustCompile(`^(run|run aws|check|text)$`),
	"sh":      regexp.MustCompile(`^(check|text)$`),
	"go":      regexp.MustCompile(`^go \S+\.go#[\w-]+$`),
}

// TestBlocksAreTagged finds blocks that no test looks at. CONTRIBUTING.md explains
// the tags.
func TestBlocksAreTagged(t *testing.T) {
	file := regexp.MustCompile(`^file ([\w.-]+)$`)
	for _, p := range pages(t) {
		for _, b := range p.Blocks {
			want, known := tags[b.Lang]
			switch {
			case b.Lang == "":
				t.Errorf("%s:%d: a block needs a language, such as text", p.Path, b.Line)
			case b.Lang == "bash", b.Lang == "shell":
				t.Errorf("%s:%d: commands are console, with prompts, or sh", p.Path, b.Line)
			case known && !want.MatchString(b.Tag) && !file.MatchString(b.Tag):
				t.Errorf("%s:%d: a %s block needs a tag in a comment above it that matches %s; the tag is %q",
					p.Path, b.Line, b.Lang, want, b.Tag)
			}
		}
	}
}

// TestSitePagesHaveOneTitle checks the form of pages.
func TestSitePagesHaveOneTitle(t *testing.T) {
	for _, p := range pages(t) {
		titles := 0
		for _, h := range p.Headings {
			if h.Level == 1 {
				titles++
			}
		}
		if inSite(p) && (titles != 1 || p.Headings[0].Level != 1) {
			t.Errorf("%s has %d titles; it needs one, first", p.Path, titles)
		}
		for _, l := range p.Links {
			if l.Image && strings.TrimSpace(l.Text) == "" {
				t.Errorf("%s:%d: the picture %s needs a text for readers who cannot see it", p.Path, l.Line,
					path.Base(l.Target))
			}
		}
	}
}

// TestPagesNameOneReleaseOfPython checks that pages promise no more: only one
// release of Python's library shares a table with this one, and people who share
// it with others would admit their limits twice.
func TestPagesNameOneReleaseOfPython(t *testing.T) {
	exact := 0
	for _, page := range pages(t) {
		if page.Path == "CHANGELOG.md" { // it also tells what used to be promised
			continue
		}
		for i, line := range page.Lines {
			if strings.Contains(line, "0.10.x") || strings.Contains(line, "Python 0.10 ") {
				t.Errorf("%s:%d: say exactly 0.10.0: %s", page.Path, i+1, line)
			}
			if strings.Contains(strings.ToLower(strings.Trim(line, "*")), "exactly") && strings.Contains(line, "0.10.0") {
				exact++
			}
		}
	}
	if exact < 5 {
		t.Errorf("%d lines say exactly 0.10.0, want 5 or more", exact)
	}
}
