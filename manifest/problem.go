package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a manifest.
type Problem struct {
	Line, Column int    // where, beginning at 1; 0 where it is not known
	Path         string // such as resources.gpt-4.limits.rpm; "" is the whole
	Text         string // what is wrong, and what would be right
}

// String is "3:5: resources.gpt-4: " and the text; what is not known is left
// out.
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

// inOrder is the order of the file. What is referred to more than once is wrong
// once.
func inOrder(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.CompactFunc(problems, func(a, b Problem) bool {
		return a.Line > 0 && a.Line == b.Line && a.Column == b.Column && a.Text == b.Text
	})
}

// ParseError is a manifest that cannot be used. It has at least one problem, in
// the order of the file.
type ParseError struct{ Problems []Problem }

// Error has a line for each problem.
func (e *ParseError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}
