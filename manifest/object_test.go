package manifest_test

import (
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/manifest"
)

// implicit11 matches the plain scalars that YAML 1.1 does not read as strings,
// according to its type repository, and a few more.
var implicit11 = regexp.MustCompile(`(?i)^(?:` +
	`|~|null|=|<<|y|n|yes|no|on|off|true|false` +
	`|[-+]?0b[01_]+|[-+]?0x[0-9a-f_]+|[-+]?0o?[0-7_]+|[-+]?[0-9][0-9_]*` + // integers
	`|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?` + // to the base of 60
	`|[-+]?(?:[0-9][0-9_]*)?\.[0-9_]*(?:e[-+]?[0-9]+)?|[-+]?[0-9][0-9_]*e[-+]?[0-9]+|[-+]?\.inf|\.nan` + // floats
	`|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*` + // dates
	`)$`)

// TestTextIsTextInYAML11 covers the readers of YAML 1.1, such as
// CloudFormation.
func TestTextIsTextInYAML11(t *testing.T) {
	for _, text := range []string{
		"y", "n", "Y", "N", "yes", "no", "Yes", "NO", "on", "off", "On", "OFF", "true", "False", "TRUE", "null",
		"Null", "NULL", "~", "", "=", "<<",
		"0", "7", "-1", "+1", "010", "0o17", "0b101", "0x1F", "1_000", "685_230", "12:30:45", "190:20:30",
		"190:20:30.15", "1:1",
		"1.5", ".5", "1.", "1e3", "1.0E7", "6.8523015e+5", ".inf", "-.Inf", ".nan", "2026-03-14",
		"2001-12-14t21:59:43.10-05:00",
		"gpt-4", "_default_", "key:1", "a: b", "a #b", "- a", "Custom::X", "word", "$", "$50@month", "$1: x",
		"$1 #x", "$5/min:$7",
	} {
		out, err := manifest.TextAsYAML(text)
		check(t, err)
		var doc yaml.Node
		check(t, yaml.Unmarshal(out, &doc))
		for _, n := range doc.Content[0].Content {
			equal(t, "value", n.Value, text)
			if n.Style == 0 && implicit11.MatchString(n.Value) {
				t.Errorf("%q is written as %s", text, out)
			}
		}
	}
	out, err := manifest.TextAsYAML("gpt-4")
	check(t, err)
	equal(t, "a word", string(out), "gpt-4: gpt-4\n")
}

// TestNamesAreTextInYAML11 checks that exports and templates quote names.
func TestNamesAreTextInYAML11(t *testing.T) {
	m := parse(t, `{"namespace": "off", "resources": {"yes": {"limits": {"n": {"capacity": 10000000}}}},
		"entities": {"12:30:45": {"resources": {"no": {"limits": {"y": {"capacity": 1}}}}}}}`)
	export, err := m.YAML()
	check(t, err)
	template, err := m.Template("no", false)
	check(t, err)
	for _, out := range [][]byte{export, template} {
		var doc yaml.Node
		check(t, yaml.Unmarshal(out, &doc))
		var walk func(n *yaml.Node)
		walk = func(n *yaml.Node) {
			if n.Kind == yaml.ScalarNode && n.Style == 0 && n.ShortTag() != "!!int" && implicit11.MatchString(n.Value) {
				t.Errorf("line %d: %s is no text", n.Line, n.Value)
			}
			for _, inner := range n.Content {
				walk(inner)
			}
		}
		walk(&doc)
	}
	again, err := manifest.Parse(export)
	check(t, err)
	equal(t, "read back", again, m)
}
