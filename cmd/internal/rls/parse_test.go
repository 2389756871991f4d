package rls_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/cmd/internal/rls"
)

const target = `entity: a, resource: b, consume: {rpm: 1}`

// badRules lists files and the problem of each. The schema rejects them too,
// unless a schema cannot.
var badRules = []struct {
	text, problem string
	schemaAccepts bool
}{
	{"", "the file is empty; list rules under the key rules", false},
	{"rules: [", "line 1: invalid YAML: did not find expected node content", true},
	{"rules: [{" + target + "}]\n---\nrules: []", "line 2: another document begins here; rules are one document", true},
	{"[]", "line 1: must be a mapping, not a list\nline 1: the key rules is missing; list at least one rule", false},
	{"{}", "line 1: the key rules is missing; list at least one rule", false},
	{"rules: []", "line 1: rules: is empty; list at least one rule", false},
	{"rules: {}", "line 1: rules: must be a list, not a mapping", false},
	{"rules: [7]", "line 1: rules[0]: must be a mapping, not 7", false},
	{"rule: []\nrules: [{answer: allow}]", `line 1: there is no key "rule" here; the keys are headers, rules`, false},
	{
		"headers: yes please\nrules: [{answer: allow}]",
		`line 1: headers: must be true or false, not the text "yes please"`, false,
	},
	{"rules: [{answer: maybe}]", `line 1: rules[0].answer: must be allow or refuse, not the text "maybe"`, false},
	{"rules: [{}]", "line 1: rules[0]: the key entity is missing; a rule has entity, resource and consume, " +
		"or an answer\n" +
		"line 1: rules[0]: the key resource is missing; a rule has entity, resource and consume, or an answer\n" +
		"line 1: rules[0]: the key consume is missing; a rule has entity, resource and consume, or an answer", false},
	{
		"rules:\n- answer: allow\n  entity: x",
		"line 2: rules[0]: a rule with an answer charges nothing; remove answer or entity", false,
	},
	{
		"rules:\n- {" + target + "}\n- answer: allow",
		"line 3: rules[1]: the rule never applies, because the rule in line 2 matches every descriptor; move " +
			"that one to the end",
		true,
	},
	{
		"rules: [{match: {}, " + target + "}]",
		"line 1: rules[0].match: names no key; leave match out to match every descriptor", false,
	},
	{"rules: [{match: {a: []}, " + target + "}]", "line 1: rules[0].match.a: is empty; list at least one value", false},
	{
		"rules: [{match: {a: 5}, " + target + "}]",
		"line 1: rules[0].match.a: must be text, not 5; put it in quotes", false,
	},
	{
		"rules: [{match: {a: x*y}, " + target + "}]",
		`line 1: rules[0].match.a: a * stands at the end only, not in "x*y"`, false,
	},
	{
		"rules: [{match: {a: x, a: y}, " + target + "}]",
		"line 1: rules[0].match.a: duplicate key; the first one is in line 1", true,
	},
	{
		"rules: [{domain: '', " + target + "}]",
		"line 1: rules[0].domain: must not be empty; leave the key out instead", false,
	},
	{
		"rules: [{entity: '{a}', resource: b, consume: {rpm: 1}}]",
		"line 1: rules[0]: {a} is not a key of match; add it there", true,
	},
	{
		"rules: [{match: {a: '*'}, entity: '{a|md5}', resource: b, consume: {rpm: 1}}]",
		`line 1: rules[0].entity: "{a|md5}" is not a value of a descriptor; write {KEY}, or {KEY|hash} for its hash`,
		true,
	},
	{
		"rules: [{match: {a: '*'}, entity: '{a', resource: b, consume: {rpm: 1}}]",
		`line 1: rules[0].entity: "{a" has a { without a }; write {KEY}`, true,
	},
	{
		"rules: [{match: {a: '*'}, entity: 'a}', resource: b, consume: {rpm: 1}}]",
		`line 1: rules[0].entity: "a}" has a } without a {; write {KEY}`, true,
	},
	{
		"rules: [{entity: '#', resource: b, consume: {rpm: 1}}]",
		`line 1: rules[0]: invalid entity_id "#": must not contain "#"`, true,
	},
	{
		"rules: [{entity: a, resource: 5b, consume: {rpm: 1}}]",
		`line 1: rules[0]: invalid resource "5b": must begin with a letter, then letters, digits or "_.-/"`,
		true,
	},
	{
		"rules: [{entity: a, resource: b, consume: {}}]",
		"line 1: rules[0].consume: names no limit; write the name of a limit and a number, or hits", false,
	},
	{
		"rules: [{entity: a, resource: b, consume: {rpm: -1}}]",
		"line 1: rules[0].consume.rpm: must be hits, or a whole number of at most 12 plain digits, not -1",
		false,
	},
	{
		"rules: [{entity: a, resource: b, consume: {rpm: hit}}]",
		`line 1: rules[0].consume.rpm: must be hits, or a whole number of at most 12 plain digits, not the text "hit"`,
		false,
	},
	{
		"rules: [{entity: a, resource: b, consume: {5: 1}}]",
		`line 1: rules[0].consume.5: invalid name "5": must begin with a letter, then letters, digits or "_.-"`,
		false,
	},
	{
		"rules: [{entity: a, resource: b, consume: {rpm: 1}, give_back: true}]",
		"line 1: rules[0]: give_back needs a limit that counts hits; write consume: {tpm: hits}", true,
	},
	{"rules: [{" + target + ", no_limits: 5}]", "line 1: rules[0].no_limits: must be allow or refuse, not 5", false},
}

func TestProblemsOfRules(t *testing.T) {
	for _, test := range badRules {
		parsed, err := rls.ParseRules([]byte(test.text))
		if parsed != nil || err == nil {
			t.Errorf("%q was accepted", test.text)
			continue
		}
		if diff := cmp.Diff(test.problem, err.Error()); diff != "" {
			t.Errorf("%q:\n%s", test.text, diff)
		}
	}
}

func TestSchemaAndParseAgree(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(rls.Schema()))
	check(t, err)
	c := jsonschema.NewCompiler()
	check(t, c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	check(t, err)
	validate := func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			return nil //nolint:nilerr // a schema needs a tree
		}
		return s.Validate(asJSON(v))
	}
	for _, text := range []string{
		rules,
		"headers: false\nrules: [{answer: allow}]",
		"rules: [{domain: a, match: {a: [b, c*]}, answer: refuse}, {domain: b, " + target + "}, {" + target + "}]",
		"rules: [{entity: a, resource: b, consume: {rpm: 0, tpm: hits}, settle: true, give_back: true, " +
			"no_limits: refuse}]",
	} {
		if err := validate(text); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
		if _, err := rls.ParseRules([]byte(text)); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
	for _, test := range badRules {
		if accepts := validate(test.text) == nil; !accepts && test.schemaAccepts || accepts && !test.schemaAccepts {
			t.Errorf("%q: the schema accepts it: %v", test.text, accepts)
		}
	}
}

// asJSON returns a tree with keys that are text.
func asJSON(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = asJSON(v[k])
		}
	case map[any]any:
		out := map[string]any{}
		for k := range v {
			out[fmt.Sprint(k)] = asJSON(v[k])
		}
		return out
	case []any:
		for i := range v {
			v[i] = asJSON(v[i])
		}
	}
	return v
}

// Aliases of aliases must not make a small file large.
func TestRulesAreBounded(t *testing.T) {
	text := "rules:\n- &r {match: {a: &v [" + strings.Repeat("x, ", 1000) + "x]}, " + target + "}\n" +
		strings.Repeat("- *r\n", 100)
	if _, err := rls.ParseRules([]byte(text)); err == nil || !strings.Contains(err.Error(), "split it") ||
		len(err.Error()) > 10_000 {
		t.Errorf("%.200v", err)
	}
}

func FuzzParseRules(f *testing.F) {
	f.Add([]byte(rules))
	for _, test := range badRules {
		f.Add([]byte(test.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if parsed, err := rls.ParseRules(data); (parsed == nil) == (err == nil) {
			t.Errorf("%v, %v", parsed, err)
		}
	})
}
