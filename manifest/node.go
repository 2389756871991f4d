package manifest

import (
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// Tags of YAML nodes.
const (
	tagNull  = "!!null"
	tagText  = "!!str"
	tagInt   = "!!int"
	tagFloat = "!!float"
	tagBool  = "!!bool"
	tagMerge = "!!merge"
)

// resolveAlias returns n, or the node that n is an alias of.
func resolveAlias(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// eachEntry calls decode for every key of a mapping. A null is an empty mapping.
func (d *decoder) eachEntry(n *yaml.Node, path string, decode func(key, value *yaml.Node, path string)) {
	n = resolveAlias(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == tagNull {
		return
	}

	if n.Kind != yaml.MappingNode {
		d.problem(n, path, "must be a mapping, not %s", describe(n))
		return
	}

	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolveAlias(n.Content[i]), n.Content[i+1]
		line, duplicate := lines[key.Value]
		switch {
		case d.full():
			return // reported already
		case key.Kind != yaml.ScalarNode:
			d.problem(key, path, "a key must be a word, not %s", describe(key))
		case key.ShortTag() == tagMerge:
			d.problem(key, path, "merge keys are not supported; refer to the whole section instead, as in *name")
		case duplicate:
			d.problem(key, joinPath(path, key.Value), "duplicate key; the first one is in line %d", line)
		default:
			lines[key.Value] = key.Line
			decode(key, value, joinPath(path, key.Value))
		}
	}
}

// decodeFields reads a mapping whose keys are known, and returns the keys that
// are present.
func (d *decoder) decodeFields(n *yaml.Node, path string, known map[string]func(*yaml.Node, string)) (given []string) {
	d.eachEntry(n, path, func(key, value *yaml.Node, at string) {
		if read, ok := known[key.Value]; ok {
			given = append(given, key.Value)
			read(value, at)
			return
		}
		d.problem(key, path, "there is no key %q here; the keys are %s", key.Value, d.joinKeys(known))
	})
	return given
}

// joinKeys lists the keys of a mapping for an error, without the ignored ones.
func (d *decoder) joinKeys(keys map[string]func(*yaml.Node, string)) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(keys)), func(k string) bool {
		return slices.Contains(d.ignored, k)
	})
	return strings.Join(names, ", ")
}

// joinPath appends a key to a path. It quotes a key that is not printable ASCII.
func joinPath(path, key string) string {
	if odd := strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }); odd || key == "" {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// decodeText reads a string.
func (d *decoder) decodeText(n *yaml.Node, path string) (string, bool) {
	n = resolveAlias(n)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == tagText {
		return n.Value, true
	}

	hint := ""
	if n.Kind == yaml.ScalarNode && n.ShortTag() != tagNull {
		hint = "; put it in quotes"
	}
	d.problem(n, path, "must be text, not %s%s", describe(n), hint)
	return "", false
}

// decodeNumber reads a whole number from 1 to maxValue in plain digits. YAML
// libraries disagree on the value of other spellings, such as 0o10 and 1_000.
func (d *decoder) decodeNumber(n *yaml.Node, path string, maxValue int64) int64 {
	n = resolveAlias(n)
	// An exponent in a file is a mistake. Only CloudFormation writes numbers
	// so.
	if d.textNumbers && strings.ContainsAny(n.Value, ".eE") {
		n = expandExponent(n)
	}

	isNumber := slices.Contains([]string{tagInt, tagFloat}, n.ShortTag()) || d.textNumbers && n.ShortTag() == tagText
	digits, negative := strings.CutPrefix(n.Value, "-")
	i, err := strconv.ParseInt(n.Value, 10, 64)

	switch {
	case n.Kind != yaml.ScalarNode || !isNumber || strings.ContainsAny(n.Value, ".eE"):
		d.problem(n, path, "must be a whole number, not %s", describe(n))
	case digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0':
		d.problem(n, path, "must be a whole number in plain digits, such as 1000, not %q", n.Value)
	case negative || err == nil && i < 1:
		d.problem(n, path, "must be at least 1, not %s", n.Value)
	case err != nil || i > maxValue:
		d.problem(n, path, "must be at most %d, not %s", maxValue, n.Value)
	}
	return i
}

// decodeTokens reads a number of tokens of a limit: plain digits, or text such as
// 10k, 1.5M and, for money, $50.
func (d *decoder) decodeTokens(limit string, n *yaml.Node, path string) int64 {
	n = resolveAlias(n)
	// Plain digits as text are what CloudFormation sends. In a file they are a
	// mistake, which decodeNumber describes.
	if n.Kind != yaml.ScalarNode || n.ShortTag() != tagText || strings.Trim(n.Value, "0123456789+-.eE") == "" {
		return d.decodeNumber(n, path, bucket.MaxTokens)
	}

	i, why := figure.Parse(limit, n.Value)
	switch {
	case why != "":
		d.problem(n, path, "it is %q, but it %s", clip(n.Value), why)
	case i < 1:
		d.problem(n, path, "must be at least 1, not %s", clip(n.Value))
	case i > bucket.MaxTokens:
		d.problem(n, path, "must be at most %d, not %s", int64(bucket.MaxTokens), clip(n.Value))
	}
	return i
}

// decodeBool reads true or false.
func (d *decoder) decodeBool(n *yaml.Node, path string) bool {
	n = resolveAlias(n)
	isBool := n.ShortTag() == tagBool || d.textNumbers && n.ShortTag() == tagText

	if n.Kind != yaml.ScalarNode || !isBool || n.Value != "true" && n.Value != "false" {
		d.problem(n, path, "must be true or false, not %s", describe(n))
	}
	return n.Value == "true"
}

// expandExponent returns a node with the plain digits of a whole number such as
// 1.0E7. It returns any other node unchanged.
func expandExponent(n *yaml.Node) *yaml.Node {
	// The bound on the exponent comes first: 1E999999999 would take a gigabyte
	// as plain digits.
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

// describe returns a short description of a node for an error.
func describe(n *yaml.Node) string {
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
