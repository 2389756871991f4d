package docs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	text := strings.ReplaceAll(`# A 'page', of "names"

Text with 'code' and [a link](other.md#here) and ''a 'span' of
two lines''.

<!-- run -->
'''console
$ first \
    --more
out [no](link)
$ second
'''

- item
  <!-- file x.yaml -->
  '''yaml
  a: 1

  b: 2
  '''

## Twice
## Twice
![picture](images/a.svg)
`, "'", "`")
	p := Parse("docs/x.md", text)
	want := &Page{
		Path: "docs/x.md",
		Headings: []Heading{
			{Line: 1, Level: 1, Text: "A `page`, of \"names\"", Anchor: "a-page-of-names"},
			{Line: 22, Level: 2, Text: "Twice", Anchor: "twice"},
			{Line: 23, Level: 2, Text: "Twice"},
		},
		Blocks: []Block{
			{Line: 7, Lang: "console", Tag: "run", Text: "$ first \\\n    --more\nout [no](link)\n$ second\n"},
			{Line: 16, Lang: "yaml", Tag: "file x.yaml", Text: "a: 1\n\nb: 2\n"},
		},
		Links: []Link{{Line: 3, Target: "other.md#here", Text: "a link"}, {
			Line: 24, Target: "images/a.svg", Image: true, Text: "picture",
		}},
		Spans: []Span{{Line: 1, Text: "page"}, {Line: 3, Text: "code"}, {Line: 3, Text: "a `span` of two lines"}},
	}
	hidden := cmp.FilterPath(func(path cmp.Path) bool {
		name := path.Last().String()
		return name == ".start" || name == ".end" || name == ".indent" || name == ".Lines"
	}, cmp.Ignore())
	if diff := cmp.Diff(want, p, hidden); diff != "" {
		t.Error(diff)
	}
	steps := p.Blocks[0].Steps()
	if len(steps) != 2 || steps[0].Command != "first \\\n    --more\n" || steps[0].Output != "out [no](link)\n" ||
		steps[1].Output != "" {
		t.Errorf("%+v", steps)
	}
	if same := p.Replace(map[int]string{7: p.Blocks[0].Text, 16: p.Blocks[1].Text}); same != text {
		t.Errorf("replaced by itself: %s", cmp.Diff(text, same))
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		page, printed string
		want          bool
	}{
		{"a\n", "a\n", true},
		{"a\n", "b\n", false},
		{"a\n", "a\nb\n", false},
		{"a\n...\nd\n", "a\nb\nc\nd\n", true},
		{"a\n...\nd\n", "a\nd\n", true},
		{"a\n...\nd\n", "a\nb\n", false},
		{"a ... c\n", "a b c\n", true},
		{"a ... c\n", "a b\nc\n", false},
		{"...\n", "", true},
	} {
		if got := Matches(c.page, c.printed); got != c.want {
			t.Errorf("%q shows %q: %v", c.page, c.printed, got)
		}
	}
}
