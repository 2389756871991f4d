package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Parse reads a manifest from YAML or JSON. It reports every problem it finds in
// one *[ParseError]. Unknown and duplicate keys are errors. A section without a
// value is empty. Aliases are followed, but merge keys are not supported.
// Numbers are plain digits.
func Parse(data []byte) (*Manifest, error) {
	d := newDecoder(fileDialect())
	root, ok := d.Document(data)
	if !ok {
		return nil, d.err()
	}
	return d.decode(root)
}

// ParseError is the error for a manifest that cannot be used. It has at least
// one problem, in the order of the file.
type ParseError struct{ Problems []Problem }

// Error returns one line for each problem.
func (e *ParseError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Problem describes one mistake in a manifest.
type Problem struct {
	Line, Column int    // position, from 1; 0 if unknown
	Path         string // such as resources.gpt-4.limits.rpm; "" for the whole manifest
	Text         string // what is wrong, and what would be right
}

// String returns the position, the path and the text, such as
// "3:5: resources.gpt-4: TEXT". Unknown parts are left out.
func (p Problem) String() string {
	var b strings.Builder
	switch {
	case p.Column > 0:
		fmt.Fprintf(&b, "%d:%d: ", p.Line, p.Column)
	case p.Line > 0:
		fmt.Fprintf(&b, "%d: ", p.Line)
	}

	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	return b.String() + p.Text
}

// sortProblems sorts problems by position. A node with several aliases is
// reported once.
func sortProblems(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.CompactFunc(problems, func(a, b Problem) bool {
		return a.Line > 0 && a.Line == b.Line && a.Column == b.Column && a.Text == b.Text
	})
}
