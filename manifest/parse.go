package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Parse reads a manifest from YAML, or from JSON, which is a part of it. It
// finds all that is wrong, as a *[ParseError]. Keys are strict, each may be
// there once, a section without a value is an empty one, and anchors may be
// referred to, but not merged. Numbers are plain digits.
func Parse(data []byte) (*Manifest, error) {
	root, err := document(data)
	if err != nil {
		return nil, err
	}
	return decode(root, inFile())
}

// document is the root of the only document there is.
func document(data []byte) (*yaml.Node, error) {
	in := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	switch err := in.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, wrong(Problem{Text: "the file is empty; a manifest that declares nothing is {}"})
	case err != nil:
		return nil, wrong(syntaxProblem(data, err))
	}
	switch err := in.Decode(&next); {
	case err == nil:
		return nil, wrong(Problem{
			Line: next.Line, Column: next.Column,
			Text: "another document begins here; a manifest is one document, so put each namespace in a file of its own",
		})
	case !errors.Is(err, io.EOF):
		return nil, wrong(syntaxProblem(data, err))
	}
	return doc.Content[0], nil
}

func wrong(problems ...Problem) error { return &ParseError{problems} }

// syntaxProblem is an error of the YAML library, which knows the line at most.
func syntaxProblem(data []byte, err error) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if found := regexp.MustCompile(`^unknown anchor '(.*)' referenced$`).FindStringSubmatch(text); found != nil {
		return aliasProblem(data, found[1])
	}
	if found := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(text); found != nil {
		line, _ := strconv.Atoi(found[1])
		return Problem{Line: line, Text: "this is no YAML: " + text[len(found[0]):]}
	}
	return Problem{Text: "this is no YAML: " + text}
}

// aliasProblem is a reference to nothing. Its place is the first where it stands
// as a value.
func aliasProblem(data []byte, name string) Problem {
	p := Problem{Text: fmt.Sprintf("*%s refers to nothing; write &%s before what it is to stand for", name, name)}
	alias := regexp.MustCompile(`(?m)^[^#\n]*?[\s:,\[{-](\*` + regexp.QuoteMeta(name) + `)(?:[\s,\]}]|$)`)
	if at := alias.FindSubmatchIndex(data); at != nil {
		p.Line = 1 + bytes.Count(data[:at[2]], []byte("\n"))
		p.Column = at[2] - bytes.LastIndexByte(data[:at[2]], '\n')
	}
	return p
}
