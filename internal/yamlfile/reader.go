// Package yamlfile reads YAML files strictly: one document, no unknown key and no
// key twice. It reports every problem with its position and the path of the keys
// that lead there. An alias stands for its value, and JSON is YAML.
//
// A reader of a new kind of file embeds a [Reader] and has a method for each kind
// of value. [Reader.Fields] takes a function for each key that it knows, so that
// the tree of methods mirrors the file:
//
//	type decoder struct {
//		yamlfile.Reader
//		out Zoo
//	}
//
//	func Parse(data []byte) (*Zoo, error) {
//		d := &decoder{}
//		d.Form = yamlfile.Form{
//			Empty:  "the file is empty; list animals under the key animals",
//			Second: "another document begins here; a zoo is one document",
//		}
//		if root, ok := d.Document(data); ok {
//			d.Fields(root, yamlfile.Fields{"animals": d.animals})
//		}
//		return &d.out, d.err() // of d.Problems, in the form of this file
//	}
//
//	func (d *decoder) animals(n yamlfile.Node) {
//		d.Entries(n, func(name, n yamlfile.Node) {
//			animal := Animal{Name: name.Value}
//			given := d.Fields(n, yamlfile.Fields{
//				"kind": func(n yamlfile.Node) { animal.Kind, _ = d.Text(n) },
//				"tame": func(n yamlfile.Node) { animal.Tame = d.Bool(n) },
//			})
//			if !given.Has("kind") {
//				d.Problem(name, "the key kind is missing, such as kind: tiger")
//			}
//			d.out.Animals = append(d.out.Animals, animal)
//		})
//	}
//
// Methods go on after a problem, with a zero value, so that one run finds all of
// them. An alias counts each time that it is used, so aliases of aliases make a
// small file arbitrarily large: a reader that builds something for every key bounds
// their number by Form.Full. An alias can also refer to a mapping around it, so a
// reader whose methods call each other in a circle bounds the depth.
//
// A file that is a plain Go struct needs [Decode] alone.
package yamlfile

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Form is what one kind of file has of its own. All fields but the first two are
// optional.
type Form struct {
	Empty  string // the problem of a file without a document
	Second string // the problem of a file with another document

	// Anchors means that an alias without an anchor has its position and a remedy.
	Anchors bool
	// Merge is the problem of a merge key. By default it is a key that is no word.
	Merge string
	// NullIsEmpty means that a mapping without a value is an empty one.
	NullIsEmpty bool
	// Suggest means that the problem of an unknown key names the most similar key,
	// if there is one, in place of all of them.
	Suggest bool
	// TextPrefix stands before a text in quotes where a problem describes one, such
	// as "the text ".
	TextPrefix string
	// Clip shortens what a problem quotes from the file.
	Clip func(string) string
	// Full reports whether the file has too much, which it reports as a problem
	// itself. It is called before each key of a mapping, with the mapping.
	Full func(Node) bool
}

// Problem is one mistake in a file.
type Problem struct {
	Line, Column int    // position, from 1; 0 if unknown
	Path         string // such as resources.gpt-4.limits.rpm; "" for the whole file
	Text         string // what is wrong, and what would be right
}

// String returns the line, the path and the text, such as "line 3: rules[0]: TEXT".
// Unknown parts are left out.
func (p Problem) String() string {
	text := p.Text
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Line > 0 {
		text = "line " + strconv.Itoa(p.Line) + ": " + text
	}
	return text
}

// Reader reads the values of one file and collects its problems.
type Reader struct {
	Form
	Problems []Problem // in the order of their discovery
}

// Problem adds a problem at the position and with the path of n.
func (r *Reader) Problem(n Node, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{n.Line, n.Column, n.Path, fmt.Sprintf(format, args...)})
}

// Document returns the root of the only document in data. It adds a problem and
// returns false if there is none.
func (r *Reader) Document(data []byte) (root Node, ok bool) {
	var doc yaml.Node
	next, err := Decode(data, &doc)
	switch {
	case err != nil:
		r.Problems = append(r.Problems, r.syntaxProblem(data, err))
	case next != nil:
		r.Problem(At(next, ""), "%s", r.Second)
	case doc.Kind == 0:
		r.Problems = append(r.Problems, Problem{Text: r.Empty})
	default:
		return At(doc.Content[0], ""), true
	}
	return Node{}, false
}

var (
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
	yamlLine      = regexp.MustCompile(`^line (\d+): `)
)

// syntaxProblem converts an error of the YAML library, which has a line at most.
func (r *Reader) syntaxProblem(data []byte, err error) Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if found := unknownAnchor.FindStringSubmatch(text); found != nil && r.Anchors {
		return aliasProblem(data, found[1])
	}

	line := 0
	if found := yamlLine.FindStringSubmatch(text); found != nil {
		line, _ = strconv.Atoi(found[1])
		text = text[len(found[0]):]
	}
	return Problem{Line: line, Text: "invalid YAML: " + text}
}

// aliasProblem describes an alias without an anchor. Its position is the first
// use of the alias as a value.
func aliasProblem(data []byte, name string) Problem {
	p := Problem{Text: fmt.Sprintf("*%s refers to no anchor; define it with &%s", name, name)}

	// The alias has to follow a separator and must not be in a comment. In a
	// text, *name is no alias. Where no place looks like one, any is a hint.
	alias := regexp.MustCompile(`(?m)^(?:[^#\n]*?[\s:,\[{-])?(\*` + regexp.QuoteMeta(name) + `)(?:[\s,\]}]|$)`)
	at := bytes.Index(data, []byte("*"+name))
	if found := alias.FindSubmatchIndex(data); found != nil {
		at = found[2]
	}
	if at >= 0 {
		p.Line = 1 + bytes.Count(data[:at], []byte("\n"))
		p.Column = at - bytes.LastIndexByte(data[:at], '\n')
	}
	return p
}

// Entries calls read for every key of a mapping, with the nodes of the key and of
// its value. The path of both ends with the key.
func (r *Reader) Entries(n Node, read func(key, value Node)) {
	if r.NullIsEmpty && n.Is(Null) {
		return
	}

	if n.Kind != yaml.MappingNode {
		r.Problem(n, "must be a mapping, not %s", r.Describe(n))
		return
	}

	for e := range n.Entries() {
		if r.Full != nil && r.Full(n) {
			return
		}

		switch {
		case e.Fault == Twice:
			r.Problem(e.Key, "duplicate key; the first one is in line %d", e.First)
		case e.Fault == Merge && r.Merge != "":
			r.Problem(At(e.Key.Node, n.Path), "%s", r.Merge)
		case e.Fault != "":
			r.Problem(At(e.Key.Node, n.Path), "a key must be a word, not %s", r.Describe(e.Key))
		default:
			read(e.Key, e.Value)
		}
	}
}

// Fields maps the keys that a mapping may have to functions that read their
// values.
type Fields map[string]func(Node)

// Keys lists the keys for a problem.
func (f Fields) Keys() string { return strings.Join(slices.Sorted(maps.Keys(f)), ", ") }

// Given holds the values of the keys that a mapping has.
type Given map[string]Node

// Has reports whether the mapping has the key.
func (g Given) Has(key string) bool {
	_, ok := g[key]
	return ok
}

// Fields reads a mapping whose keys are known.
func (r *Reader) Fields(n Node, known Fields) Given {
	given := Given{}
	r.Entries(n, func(key, value Node) {
		if read, ok := known[key.Value]; ok {
			given[key.Value] = value
			read(value)
			return
		}

		hint := "the keys are " + known.Keys()
		if r.Suggest {
			if similar := Nearest(key.Value, slices.Sorted(maps.Keys(known))); similar != "" {
				hint = "did you mean " + similar + "?"
			}
		}
		r.Problem(At(key.Node, n.Path), "there is no key %q here; %s", r.clip(key.Value), hint)
	})
	return given
}

// Text reads a string.
func (r *Reader) Text(n Node) (text string, ok bool) {
	if n.Is(Text) {
		return n.Value, true
	}

	// YAML reads 10 and true as other values unless they are quoted. Nothing has no
	// text that quotes could keep.
	hint := ""
	if n.Kind == yaml.ScalarNode && !n.Is(Null) {
		hint = "; put it in quotes"
	}

	r.Problem(n, "must be text, not %s%s", r.Describe(n), hint)
	return "", false
}

// Bool reads true or false, which YAML can also spell True and so on.
func (r *Reader) Bool(n Node) bool {
	if !n.Is(Bool) || n.Value != "true" && n.Value != "false" {
		r.Problem(n, "must be true or false, not %s", r.Describe(n))
	}
	return n.Value == "true"
}

// Describe returns a short description of a value for a problem.
func (r *Reader) Describe(n Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Is(Null):
		return "nothing"
	case n.Is(Text):
		return r.TextPrefix + strconv.Quote(r.clip(n.Value))
	}
	return r.clip(n.Value)
}

func (r *Reader) clip(text string) string {
	if r.Clip == nil {
		return text
	}
	return r.Clip(text)
}

// Nearest returns the name that differs from wanted by the fewest changes, or "" if
// all differ by more than a third of it.
func Nearest(wanted string, names []string) string {
	best, least := "", len(wanted)/3+1
	for _, name := range names {
		if d := distance(wanted, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance returns the number of bytes to insert, remove or replace between a
// and b.
func distance(a, b string) int {
	// row[j] is the distance between the part of a so far and the first j bytes
	// of b.
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}

	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
