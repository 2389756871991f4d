package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/internal/yamlfile"
)

// object is an ordered mapping. A value is a string, an int64, a bool or an object.
type object []pair

type pair struct {
	key   string
	value any
}

// add appends a value at path. It descends into the last pair only, so values
// have to be added in order.
func (o object) add(value any, path ...string) object {
	last := len(o) - 1
	if len(path) == 1 {
		return append(o, pair{path[0], value})
	}

	if last < 0 || o[last].key != path[0] {
		o, last = append(o, pair{path[0], object{}}), last+1
	}

	inner, _ := o[last].value.(object)
	o[last].value = inner.add(value, path[1:]...)
	return o
}

// sorted returns a copy with sorted keys on all levels.
func (o object) sorted() object {
	out := slices.Clone(o)
	for i, p := range out {
		if inner, ok := p.value.(object); ok {
			out[i].value = inner.sorted()
		}
	}
	slices.SortFunc(out, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	return out
}

// json returns one line of JSON with a space after each comma and colon. Keys
// and strings have been validated, so they are ASCII.
func (o object) json() string {
	parts := make([]string, len(o))
	for i, p := range o {
		value := fmt.Sprint(p.value)
		switch v := p.value.(type) {
		case object:
			value = v.json()
		case string:
			value = strconv.Quote(v)
		}
		parts[i] = strconv.Quote(p.key) + ": " + value
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// indentedJSON returns JSON with one pair per line.
func (o object) indentedJSON() ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(o.json()), "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func (o object) yaml() ([]byte, error) {
	var b bytes.Buffer
	out := yaml.NewEncoder(&b)
	out.SetIndent(2)
	if err := out.Encode(o.node()); err != nil {
		return nil, err
	}
	return b.Bytes(), out.Close()
}

func (o object) node() *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	// Only the flow style has a form for an empty mapping.
	if len(o) == 0 {
		n.Style = yaml.FlowStyle
	}

	for _, p := range o {
		n.Content = append(n.Content, textNode(p.key))
		switch v := p.value.(type) {
		case object:
			n.Content = append(n.Content, v.node())
		case string:
			n.Content = append(n.Content, textNode(v))
		case bool:
			value := strconv.FormatBool(v)
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: yamlfile.Bool, Value: value})
		default:
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: yamlfile.Int, Value: fmt.Sprint(v)})
		}
	}
	return n
}

// textNode returns a node that YAML 1.1 reads as a string too. CloudFormation
// reads YAML 1.1, where no is a boolean, 12:30:45 a number and 2026-03-14 a
// date. Only a few words that begin with a letter are not strings there, and no text
// that begins with a dollar sign is anything else.
func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: yamlfile.Text, Value: text}
	isWord := text != "" && strings.ContainsRune("abcdefghijklmnopqrstuvwxyz_$", unicode.ToLower(rune(text[0])))
	if !isWord || slices.Contains(
		[]string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}, strings.ToLower(text),
	) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
