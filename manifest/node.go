package manifest

import (
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Tags of nodes.
const (
	tagNull  = "!!null"
	tagText  = "!!str"
	tagInt   = "!!int"
	tagFloat = "!!float"
	tagBool  = "!!bool"
	tagMerge = "!!merge"
)

// resolved is what a node is, or refers to.
func resolved(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// entries calls each for every key of a section. One without a value is empty.
func (d *decoder) entries(n *yaml.Node, path string, each func(key, value *yaml.Node, path string)) {
	n = resolved(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == tagNull {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.problem(n, path, "it has to be a mapping, not %s", kindOf(n))
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolved(n.Content[i]), n.Content[i+1]
		line, twice := lines[key.Value]
		switch {
		case d.full():
			return // which has been said
		case key.Kind != yaml.ScalarNode:
			d.problem(key, path, "a key has to be a word, not %s", kindOf(key))
		case key.ShortTag() == tagMerge:
			d.problem(key, path, "merging is not known here; refer to the whole section instead, as in *name")
		case twice:
			d.problem(key, join(path, key.Value), "it is there twice; the first one is in line %d", line)
		default:
			lines[key.Value] = key.Line
			each(key, value, join(path, key.Value))
		}
	}
}

// fields is entries of a section whose keys are known, and tells which of them
// are there.
func (d *decoder) fields(n *yaml.Node, path string, known map[string]func(*yaml.Node, string)) (given []string) {
	d.entries(n, path, func(key, value *yaml.Node, at string) {
		if read, ok := known[key.Value]; ok {
			given = append(given, key.Value)
			read(value, at)
			return
		}
		d.problem(key, path, "there is no key %q here; the keys are %s", key.Value, d.known(known))
	})
	return given
}

func (d *decoder) known(keys map[string]func(*yaml.Node, string)) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(keys)), func(k string) bool { return slices.Contains(d.beside, k) })
	return strings.Join(names, ", ")
}

// join is the path of a key. What is no word is quoted.
func join(path, key string) string {
	if odd := strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }); odd || key == "" {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// text is a word.
func (d *decoder) text(n *yaml.Node, path string) (string, bool) {
	n = resolved(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == tagText {
		return n.Value, true
	}
	hint := ""
	if n.Kind == yaml.ScalarNode && n.ShortTag() != tagNull {
		hint = "; put it in quotes"
	}
	d.problem(n, path, "it has to be text, not %s%s", kindOf(n), hint)
	return "", false
}

// number is a whole number from 1 to most, in plain digits: what else YAML takes
// for a number, such as 0o10 or 1_000, not all programs take for the same one.
func (d *decoder) number(n *yaml.Node, path string, most int64) int64 {
	n = resolved(n)
	if d.textNumbers && strings.ContainsAny(n.Value, ".eE") {
		n = plainDigits(n)
	}
	isNumber := slices.Contains([]string{tagInt, tagFloat}, n.ShortTag()) || d.textNumbers && n.ShortTag() == tagText
	digits, negative := strings.CutPrefix(n.Value, "-")
	i, err := strconv.ParseInt(n.Value, 10, 64)
	switch {
	case n.Kind != yaml.ScalarNode || !isNumber || strings.ContainsAny(n.Value, ".eE"):
		d.problem(n, path, "it has to be a whole number, not %s", kindOf(n))
	case digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0':
		d.problem(n, path, "it is %q, but it has to be a whole number in plain digits, such as 1000", n.Value)
	case negative || err == nil && i < 1:
		d.problem(n, path, "it is %s, but it has to be at least 1", n.Value)
	case err != nil || i > most:
		d.problem(n, path, "it is %s, but it has to be at most %d", n.Value, most)
	}
	return i
}

// plainDigits is a whole number without its exponent or fraction, such as 1.0E7,
// and anything else as it is.
func plainDigits(n *yaml.Node) *yaml.Node {
	if !regexp.MustCompile(`^[1-9][0-9]*(\.[0-9]+)?([eE]\+?[0-9]{1,2})?$`).MatchString(n.Value) {
		return n
	}
	exact, ok := new(big.Rat).SetString(n.Value)
	if !ok || !exact.IsInt() {
		return n
	}
	plain := *n
	plain.Value = exact.Num().String()
	return &plain
}

// kindOf names what a node is.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == tagNull:
		return "nothing"
	case n.ShortTag() == tagText:
		return "the text " + strconv.Quote(n.Value)
	}
	return n.Value
}
