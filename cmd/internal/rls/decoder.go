package rls

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder reads nodes and collects the problems.
type decoder struct {
	problems []Problem
	// read counts the keys and items so far, those of an alias at each use.
	read int
}

// resolve returns n, or the node that n is an alias of.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// full counts an entry, and reports whether the file is too large.
func (d *decoder) full(n *yaml.Node) bool {
	if d.read++; d.read == maxEntries+1 {
		d.problem(n, "", "the file has more than %d keys and items; split it", maxEntries)
	}
	return d.read > maxEntries
}

// entries calls read for every key of a mapping.
func (d *decoder) entries(n *yaml.Node, path string, read func(key, value *yaml.Node, path string)) {
	if n = resolve(n); n.Kind != yaml.MappingNode {
		d.problem(n, path, "must be a mapping, not %s", describe(n))
		return
	}

	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content) && !d.full(n); i += 2 {
		key := resolve(n.Content[i])
		line, duplicate := lines[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
			d.problem(key, path, "a key must be a word, not %s", describe(key))
		case duplicate:
			d.problem(key, join(path, key.Value), "duplicate key; the first one is in line %d", line)
		default:
			lines[key.Value] = key.Line
			read(key, n.Content[i+1], join(path, key.Value))
		}
	}
}

// fields reads a mapping whose keys are known, and returns the keys that are
// present.
func (d *decoder) fields(n *yaml.Node, path string, known map[string]func(*yaml.Node, string)) (given []string) {
	d.entries(n, path, func(key, value *yaml.Node, at string) {
		if read, ok := known[key.Value]; ok {
			given = append(given, key.Value)
			read(value, at)
			return
		}
		d.problem(key, path, "there is no key %q here; the keys are %s", key.Value,
			strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	})
	return given
}

// items calls read for every item of a list. The hint says what an empty list
// lacks.
func (d *decoder) items(n *yaml.Node, path, hint string, read func(n *yaml.Node, path string)) {
	if n = resolve(n); n.Kind != yaml.SequenceNode {
		d.problem(n, path, "must be a list, not %s", describe(n))
		return
	}

	if len(n.Content) == 0 {
		d.problem(n, path, "is empty; %s", hint)
	}

	for i, item := range n.Content {
		if d.full(n) {
			return
		}
		read(resolve(item), path+"["+strconv.Itoa(i)+"]")
	}
}

// join appends a key to a path. It quotes a key that is not printable ASCII.
func join(path, key string) string {
	if odd := strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }); odd || key == "" {
		key = strconv.Quote(key)
	}

	if path == "" {
		return key
	}
	return path + "." + key
}

// text reads a string.
func (d *decoder) text(n *yaml.Node, path string) string {
	if n = resolve(n); n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		return n.Value
	}

	// YAML reads 10 and true as numbers and booleans unless they are quoted.
	hint := ""
	if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
		hint = "; put it in quotes"
	}

	d.problem(n, path, "must be text, not %s%s", describe(n), hint)
	return ""
}

// word reads a string that is not empty.
func (d *decoder) word(n *yaml.Node, path string) string {
	before := len(d.problems)
	text := d.text(n, path)
	// text has reported a value that is not text.
	if text == "" && len(d.problems) == before {
		d.problem(n, path, "must not be empty; leave the key out instead")
	}

	return text
}

func (d *decoder) boolean(n *yaml.Node, path string) bool {
	// YAML allows other spellings, such as True.
	if n = resolve(n); n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Value != "true" &&
		n.Value != "false" {
		d.problem(n, path, "must be true or false, not %s", describe(n))
	}

	return n.Value == "true"
}

// plainDigits matches a number as people write it. YAML libraries disagree on
// other spellings, such as 0o10 and 1_000.
var plainDigits = regexp.MustCompile(`^(0|[1-9][0-9]{0,11})$`)

// number reads an amount.
func (d *decoder) number(n *yaml.Node, path string) int64 {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || !plainDigits.MatchString(n.Value) {
		d.problem(n, path, "must be hits, or a whole number of at most 12 plain digits, not %s", describe(n))
	}
	i, _ := strconv.ParseInt(n.Value, 10, 64)
	return i
}

// describe returns a short description of a node for an error.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == "!!null":
		return "nothing"
	case n.ShortTag() == "!!str":
		return "the text " + strconv.Quote(n.Value)
	}
	return n.Value
}
