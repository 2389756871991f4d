// Package docs reads the project's Markdown pages for the tests that compare them
// with the code. Its own tests check links, tags, names and Go blocks.
package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Page is a Markdown file.
type Page struct {
	Path     string // from the root of the repository, with slashes
	Lines    []string
	Headings []Heading
	Blocks   []Block
	Links    []Link
	Spans    []Span // code in the prose
}

// Heading is a heading of a page.
type Heading struct {
	Line, Level  int
	Text, Anchor string // the anchor as GitHub makes it
}

// Block is a fenced block.
type Block struct {
	Line       int // of the opening fence, counted from 1
	Lang, Tag  string
	Text       string // without the indentation of the fence
	start, end int    // the lines between the fences
	indent     string
}

// Link is a link or an image.
type Link struct {
	Line   int
	Target string
	Image  bool
	Text   string
}

// Span is a code span.
type Span struct {
	Line int
	Text string
}

// All reads the pages of the repository at root: its own Markdown files, the pages
// of docs, and the README files of the examples.
func All(root string) ([]*Page, error) {
	var pages []*Page
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)

		if e.IsDir() {
			if name != "." && !slices.Contains(
				[]string{"docs", "examples", ".github"}, strings.SplitN(name, "/", 2)[0],
			) {
				return filepath.SkipDir
			}
			return nil
		}

		if path.Ext(name) != ".md" {
			return nil
		}

		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}

		pages = append(pages, Parse(name, string(text)))
		return nil
	})

	return pages, err
}

var (
	fence   = regexp.MustCompile("^(\\s*)(`{3,}|~{3,})\\s*([\\w.+-]*)")
	tag     = regexp.MustCompile(`^\s*<!--\s*(.*?)\s*-->\s*$`)
	heading = regexp.MustCompile(`^(#{1,6})\s+(.*?)\s*#*$`)
	ticks   = regexp.MustCompile("`+")
	link    = regexp.MustCompile(`(?s)(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)(?:\s+"[^"]*")?\)`)
	comment = regexp.MustCompile(`(?s)<!--.*?-->`)
)

// Parse reads the text of a page.
func Parse(name, text string) *Page {
	p := &Page{Path: name, Lines: strings.SplitAfter(text, "\n")}

	prose := p.cutBlocks()
	p.findHeadings(prose)

	joined := []byte(strings.Join(prose, ""))
	// Comments are erased, not removed, so that the lines of what follows stay
	// right.
	for _, at := range comment.FindAllIndex(joined, -1) {
		erase(joined[at[0]:at[1]])
	}

	// The spans go first, since code may look like a link.
	text = p.findSpans(string(joined))
	for _, m := range link.FindAllStringSubmatchIndex(text, -1) {
		p.Links = append(p.Links, Link{
			Line: lineOf(text, m[0]), Image: m[2] < m[3], Text: text[m[4]:m[5]], Target: text[m[6]:m[7]],
		})
	}
	return p
}

// cutBlocks finds the fenced blocks, and returns the lines with theirs empty.
func (p *Page) cutBlocks() []string {
	prose := slices.Clone(p.Lines)
	var open *Block
	var marks string

	for i, line := range p.Lines {
		m := fence.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			open, marks = &Block{Line: i + 1, Lang: m[3], start: i + 1, indent: m[1]}, m[2]
			// A comment in HTML, which no page shows, is the tag of the block below.
			if i > 0 {
				if t := tag.FindStringSubmatch(p.Lines[i-1]); t != nil {
					open.Tag = t[1]
				}
			}
		// Markdown ends a block only with a fence of the same mark, at least as
		// long, and without a language.
		case open != nil && m != nil && strings.HasPrefix(m[2], marks) && m[3] == "":
			open.end = i
			p.Blocks = append(p.Blocks, *open)
			open = nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, open.indent)
		default:
			continue
		}

		prose[i] = "\n"
	}

	return prose
}

func (p *Page) findHeadings(prose []string) {
	seen := map[string]int{}

	for i, line := range prose {
		m := heading.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}

		anchor := Anchor(m[2])
		// GitHub and the site number repeated headings differently, so no
		// anchor is right for both.
		if n := seen[anchor]; n > 0 {
			anchor = ""
		}

		seen[Anchor(m[2])]++
		p.Headings = append(p.Headings, Heading{Line: i + 1, Level: len(m[1]), Text: m[2], Anchor: anchor})
	}
}

// findSpans finds the code spans and returns the text without their content. A span
// ends with as many backticks as it starts with, and never contains an empty line.
func (p *Page) findSpans(text string) string {
	out := []byte(text)
	runs := ticks.FindAllStringIndex(text, -1)

	for i := 0; i < len(runs); i++ {
		open := runs[i]
		for j := i + 1; j < len(runs); j++ {
			closing := runs[j]
			content := text[open[1]:closing[0]]
			if strings.Contains(content, "\n\n") {
				break
			}
			if closing[1]-closing[0] == open[1]-open[0] {
				p.Spans = append(p.Spans, Span{
					Line: lineOf(text, open[0]),
					Text: strings.TrimSpace(strings.ReplaceAll(content, "\n", " ")),
				})
				erase(out[open[0]:closing[1]])
				i = j
				break
			}
		}
	}

	return string(out)
}

// erase overwrites text with spaces and keeps its lines.
func erase(text []byte) {
	for i := range text {
		if text[i] != '\n' {
			text[i] = ' '
		}
	}
}

func lineOf(text string, offset int) int { return strings.Count(text[:offset], "\n") + 1 }

var (
	markup      = regexp.MustCompile("[`*]|\\]\\([^)]*\\)|\\[")
	punctuation = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// Anchor returns the anchor of a heading.
func Anchor(heading string) string {
	text := punctuation.ReplaceAllString(markup.ReplaceAllString(heading, ""), "")
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text)), " ", "-")
}

// Replace returns the page's text with other texts in place of those of blocks,
// by the line of their fence.
func (p *Page) Replace(texts map[int]string) string {
	var out strings.Builder

	next := 0
	for _, b := range p.Blocks {
		text, ok := texts[b.Line]
		if !ok {
			continue
		}

		out.WriteString(strings.Join(p.Lines[next:b.start], ""))
		for line := range strings.Lines(text) {
			if line != "\n" {
				out.WriteString(b.indent)
			}
			out.WriteString(line)
		}

		next = b.end
	}

	out.WriteString(strings.Join(p.Lines[next:], ""))
	return out.String()
}
