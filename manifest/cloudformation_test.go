package manifest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/golden"
	"github.com/zeroae/zae-limiter-go/manifest"
)

func TestTemplate(t *testing.T) {
	m := parse(t, string(fixtures(t, "valid")["full.yaml"]))
	for name, asJSON := range map[string]bool{"template.yaml": false, "template.json": true} {
		text, err := m.Template("my-app", asJSON)
		check(t, err)
		golden.Check(t, filepath.Join("testdata", name), string(text))
	}
}

// TestTemplateComesBackAsProperties reads the properties of a template as
// CloudFormation sends them, with all scalars as text.
func TestTemplateComesBackAsProperties(t *testing.T) {
	for name, data := range fixtures(t, "valid") {
		m := parse(t, string(data))
		if m.Namespace == "" {
			m.Namespace = "default"
		}
		text, err := m.Template("my-app", false)
		check(t, err)
		inJSON, err := m.Template("my-app", true)
		check(t, err)
		properties := templateProperties(t, text)
		equal(t, name+" as JSON", templateProperties(t, inJSON), properties)
		got, err := manifest.FromProperties(properties)
		check(t, err)
		equal(t, name, got, m)
	}
}

// templateProperties returns the properties that CloudFormation would send.
func templateProperties(t *testing.T, template []byte) map[string]any {
	t.Helper()
	var doc yaml.Node
	check(t, yaml.Unmarshal(template, &doc))
	resources := nodeText(&doc).(map[string]any)["Resources"].(map[string]any)
	return resources["TenantLimits"].(map[string]any)["Properties"].(map[string]any)
}

// nodeText converts a node to a tree whose scalars are text.
func nodeText(n *yaml.Node) any {
	switch n.Kind {
	case yaml.DocumentNode:
		return nodeText(n.Content[0])
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = nodeText(n.Content[i+1])
		}
		return m
	}
	return n.Value
}

func TestTemplateNeedsAStack(t *testing.T) {
	for _, stack := range []string{"", "1app", "my_app", "a b", "a\nb", strings.Repeat("a", 129)} {
		_, err := (&manifest.Manifest{}).Template(stack, false)
		if _, ok := errors.AsType[*limiter.InvalidError](err); !ok {
			t.Errorf("%q: %v", stack, err)
		}
	}
}

func TestPropertiesAreStrict(t *testing.T) {
	for text, want := range map[string]string{
		`{"Resources": {"a": {"Limits": {"rpm": {"Capacity": "ten"}}}}}`:               `Resources.a.Limits.rpm.Capacity: it is "ten", but it must be a whole number`,
		`{"Resources": {"a": {"Limits": {"rpm": {"Capacity": "1.5"}}}}}`:               `must be a whole number, not the text "1.5"`,
		`{"Resources": {"a": {"Limits": {"rpm": {"Capacity": "0"}}}}}`:                 `must be at least 1, not 0`,
		`{"Resources": {"a": {"Limits": {"rpm": {"Capacity": "1", "Burst": "2"}}}}}`:   `there is no key "Burst" here; the keys are Capacity, RefillAmount, RefillPeriod`,
		`{"Resources": {"a": {"limits": {}}}}`:                                         `there is no key "limits" here; the keys are Limits`,
		`{"resources": {}, "ServiceToken": "arn"}`:                                     `the keys are Entities, Namespace, Resources, System`,
		`{"System": {"OnUnavailable": "maybe"}}`:                                       `System.OnUnavailable: must be allow or block, not "maybe"`,
		`{"Entities": {"a": {"Resources": {"b": []}}, "c/d": {}}, "Namespace": "a b"}`: `Entities.a.Resources.b: must be a mapping, not a list`,
		`{"Namespace": true}`: `Namespace: must be text, not true`,
	} {
		var properties map[string]any
		check(t, json.Unmarshal([]byte(text), &properties))
		_, err := manifest.FromProperties(properties)
		if _, ok := errors.AsType[*manifest.ParseError](err); !ok || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: error %v, want one with %s", text, err, want)
		}
	}
}

// TestNumbersOfPropertiesAreExact covers the exponents that CloudFormation
// writes in large numbers.
func TestNumbersOfPropertiesAreExact(t *testing.T) {
	for text, want := range map[string]int64{
		`"10000000"`: 10_000_000, `"1.0E7"`: 10_000_000, `1e7`: 10_000_000, `"1.2345678E7"`: 12_345_678,
		`"100.0"`: 100, `"1E+2"`: 100,
		`"1.5E0"`: 0, `"1.00000000000000001E7"`: 0, `"1E99"`: 0, `"1E999999999"`: 0, `"-1E2"`: 0, `"0E1"`: 0,
		`"1e"`: 0, `" 1e2"`: 0, `"0x1E2"`: 0, `"1E-2"`: 0,
	} {
		var properties map[string]any
		check(t, json.Unmarshal([]byte(`{"System": {"Limits": {"rpm": {"Capacity": `+text+`}}}}`), &properties))
		m, err := manifest.FromProperties(properties)
		if want == 0 {
			if err == nil {
				t.Errorf("%s was read as %v", text, m.Levels)
			}
			continue
		}
		check(t, err)
		equal(t, text, m.Levels[0].Limits[0].Capacity, want)
	}
	if _, err := manifest.Parse([]byte("system: {limits: {rpm: {capacity: 1e7}}}")); err == nil {
		t.Error("a file is not read that way")
	}
}

// TestTemplateRefusesNamesOfFunctions covers mappings that CloudFormation
// would read as a function.
func TestTemplateRefusesNamesOfFunctions(t *testing.T) {
	rpm := []limiter.Limit{limiter.PerMinute("rpm", 1)}
	for name, level := range map[string]limiter.Config{
		"Ref":        {Scope: limiter.Scope{Resource: "Ref"}, Limits: rpm},
		"Fn::GetAtt": {Scope: limiter.Scope{Entity: "Fn::GetAtt", Resource: "gpt-4"}, Limits: rpm},
		"the limit":  {Limits: []limiter.Limit{limiter.PerMinute("Ref", 1)}},
	} {
		m := &manifest.Manifest{Levels: []limiter.Config{level}}
		check(t, m.Validate())
		_, err := m.Template("my-app", false)
		if bad, ok := errors.AsType[*limiter.InvalidError](err); !ok ||
			!strings.Contains(bad.Reason, "takes it for a function") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
