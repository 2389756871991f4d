package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Parse reads a manifest from YAML or JSON. It reports every problem it finds in
// one *[ParseError]. Unknown and duplicate keys are errors. A section without a
// value is empty. Aliases are followed, but merge keys are not supported.
// Numbers are plain digits.
func Parse(data []byte) (*Manifest, error) {
	root, err := parseDocument(data)
	if err != nil {
		return nil, err
	}
	return decode(root, fileDialect())
}

// parseDocument returns the root node of the only document in data.
func parseDocument(data []byte) (*yaml.Node, error) {
	in := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	switch err := in.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, parseError(Problem{Text: "the file is empty; a manifest that declares nothing is {}"})
	case err != nil:
		return nil, parseError(syntaxProblem(data, err))
	}

	switch err := in.Decode(&next); {
	case err == nil:
		return nil, parseError(Problem{
			Line: next.Line, Column: next.Column,
			Text: "another document begins here; a manifest is one document, so put each namespace in a file " +
				"of its own",
		})
	case !errors.Is(err, io.EOF):
		return nil, parseError(syntaxProblem(data, err))
	}
	return doc.Content[0], nil
}

// ParseError is the error for a manifest that cannot be used. It has at least
// one problem, in the order of the file.
type ParseError struct{ Problems []Problem }

func parseError(problems ...Problem) error { return &ParseError{problems} }

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

// syntaxProblem converts an error of the YAML library, which has a line at most.
func syntaxProblem(data []byte, err error) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if found := regexp.MustCompile(`^unknown anchor '(.*)' referenced$`).FindStringSubmatch(text); found != nil {
		return aliasProblem(data, found[1])
	}

	if found := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(text); found != nil {
		line, _ := strconv.Atoi(found[1])
		return Problem{Line: line, Text: "invalid YAML: " + text[len(found[0]):]}
	}
	return Problem{Text: "invalid YAML: " + text}
}

// aliasProblem describes an alias without an anchor. Its position is the first
// use of the alias as a value.
func aliasProblem(data []byte, name string) Problem {
	p := Problem{Text: fmt.Sprintf("*%s refers to no anchor; define it with &%s", name, name)}
	// The alias has to follow a separator and must not be in a comment. In a
	// text, *name is no alias.
	alias := regexp.MustCompile(`(?m)^[^#\n]*?[\s:,\[{-](\*` + regexp.QuoteMeta(name) + `)(?:[\s,\]}]|$)`)
	if at := alias.FindSubmatchIndex(data); at != nil {
		p.Line = 1 + bytes.Count(data[:at[2]], []byte("\n"))
		p.Column = at[2] - bytes.LastIndexByte(data[:at[2]], '\n')
	}
	return p
}
