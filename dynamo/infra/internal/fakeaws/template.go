package fakeaws

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Tree is a mapping in a template. Leaves are text; functions are in their long
// form, such as {"Fn::GetAtt": ["Table", "Arn"]}.
type Tree = map[string]any

// ParseTemplate parses a template in YAML, and fails the test if it cannot.
func ParseTemplate(tb testing.TB, text []byte) Tree {
	tb.Helper()

	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		tb.Fatal(err)
	}

	doc, ok := longForm(n.Content[0]).(Tree)
	if !ok {
		tb.Fatal("the template is not a mapping")
	}
	return doc
}

// longForm converts a node, with functions in their long form.
func longForm(n *yaml.Node) any {
	var v any = n.Value

	switch n.Kind {
	case yaml.MappingNode:
		m := Tree{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = longForm(n.Content[i+1])
		}
		v = m
	case yaml.SequenceNode:
		list := []any{}
		for _, c := range n.Content {
			list = append(list, longForm(c))
		}
		v = list
	}

	name, short := strings.CutPrefix(n.Tag, "!")
	// YAML's own tags begin with two exclamation marks, and functions with one.
	switch {
	case !short || strings.HasPrefix(name, "!"):
		return v
	case name == "Ref" || name == "Condition":
		return Tree{name: v}
	case name == "GetAtt":
		// The short form has a dotted name, the long form a list.
		resource, attribute, _ := strings.Cut(n.Value, ".")
		v = []any{resource, attribute}
	}

	return Tree{"Fn::" + name: v}
}

// At returns the value at a path below v, or nil.
func At(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(Tree)
		v = m[name]
	}
	return v
}

// Section returns a top-level mapping of a template, such as Resources.
func Section(doc Tree, name string) Tree {
	m, _ := doc[name].(Tree)
	return m
}

// Text returns the leaf at a path below v, or "".
func Text(v any, path ...string) string {
	s, _ := At(v, path...).(string)
	return s
}

// Texts returns the leaves of the list at a path below v. A single leaf is a
// list of one.
func Texts(v any, path ...string) (all []string) {
	v = At(v, path...)
	if s, ok := v.(string); ok {
		return []string{s}
	}
	list, _ := v.([]any)
	for _, e := range list {
		all = append(all, Text(e))
	}
	return all
}

// Template is a template with values for its parameters. A reference to a
// resource evaluates to text, such as "RateLimitsTable" or
// "RateLimitsTable.Arn".
type Template struct {
	Doc    Tree
	Name   string // of the stack
	Values map[string]string
}

// NewTemplate returns a template whose parameters have these values, or their
// defaults.
func NewTemplate(doc Tree, name string, values map[string]string) Template {
	t := Template{doc, name, map[string]string{}}
	for p, def := range Section(doc, "Parameters") {
		t.Values[p] = Text(def, "Default")
	}
	maps.Copy(t.Values, values)
	return t
}

// Resources returns the evaluated properties of the resources that the stack
// has, by logical ID.
func (t Template) Resources() map[string]Tree {
	all := map[string]Tree{}
	for id, r := range Section(t.Doc, "Resources") {
		if t.Includes(r) {
			all[id], _ = t.Value(At(r, "Properties")).(Tree)
		}
	}
	return all
}

// Type returns the type of a resource.
func (t Template) Type(id string) string {
	return Text(Section(t.Doc, "Resources")[id], "Type")
}

// Includes reports whether the condition of a resource or output holds.
func (t Template) Includes(r any) bool {
	name := Text(r, "Condition")
	return name == "" || t.holds(name)
}

// holds reports whether a condition of the template holds.
func (t Template) holds(condition string) bool {
	return t.Value(Section(t.Doc, "Conditions")[condition]) == true
}

// Failures returns the descriptions of the rules that the values violate,
// sorted.
func (t Template) Failures() (all []string) {
	for _, rule := range Section(t.Doc, "Rules") {
		// A rule whose condition does not hold asserts nothing.
		if condition := At(rule, "RuleCondition"); condition != nil && t.Value(condition) != true {
			continue
		}

		assertions, _ := At(rule, "Assertions").([]any)
		for _, a := range assertions {
			if t.Value(At(a, "Assert")) != true {
				all = append(all, Text(a, "AssertDescription"))
			}
		}
	}

	return slices.Sorted(slices.Values(all))
}

// noValue is the value of AWS::NoValue.
type noValue struct{}

// Value evaluates the functions in a part of the template.
func (t Template) Value(v any) any {
	switch v := v.(type) {
	case []any:
		list := []any{}
		for _, e := range v {
			// CloudFormation removes an element whose value is AWS::NoValue.
			if e := t.Value(e); e != (noValue{}) {
				list = append(list, e)
			}
		}
		return list
	case Tree:
		// A function is a mapping with nothing but its name.
		for name, argument := range v {
			if result, ok := t.call(name, argument); ok && len(v) == 1 {
				return result
			}
		}

		m := Tree{}
		for name, e := range v {
			if e := t.Value(e); e != (noValue{}) {
				m[name] = e
			}
		}
		return m
	}

	return v
}

// Placeholder matches a reference in an argument of Fn::Sub.
var Placeholder = regexp.MustCompile(`\$\{([^}]+)\}`)

// call evaluates a function. It returns false if name is not a function.
func (t Template) call(name string, argument any) (any, bool) {
	switch name {
	case "Ref":
		return t.ref(Text(argument)), true
	case "Condition":
		// Condition is a function with a name, but also the key of a
		// statement's conditions in a policy, whose value is no name.
		return t.holds(Text(argument)), Text(argument) != ""
	case "Fn::GetAtt":
		return strings.Join(Texts(argument), "."), true
	case "Fn::ImportValue":
		return "import " + Text(t.Value(argument)), true
	case "Fn::Sub":
		return Placeholder.ReplaceAllStringFunc(Text(argument), func(p string) string {
			return Text(t.ref(p[2 : len(p)-1]))
		}), true
	case "Fn::If":
		list, _ := argument.([]any)
		// Only the chosen branch counts. The other one may refer to resources
		// that the stack lacks.
		if t.holds(Text(list[0])) {
			return t.Value(list[1]), true
		}
		return t.Value(list[2]), true
	}

	list, _ := t.Value(argument).([]any)
	switch name {
	case "Fn::Equals":
		return list[0] == list[1], true

	case "Fn::Not":
		return list[0] == false, true
	case "Fn::And":
		return !slices.Contains(list, false), true
	case "Fn::Or":
		return slices.Contains(list, true), true
	case "Fn::Join":
		parts, _ := list[1].([]any)
		return strings.Join(Texts(parts), Text(list[0])), true
	case "Fn::Split":
		var parts []any
		for part := range strings.SplitSeq(Text(list[1]), Text(list[0])) {
			parts = append(parts, part)
		}
		return parts, true
	case "Fn::Select":
		i, _ := strconv.Atoi(Text(list[0]))
		parts, _ := list[1].([]any)
		return parts[i], true
	}

	return nil, false
}

// ref evaluates a reference to a parameter, a pseudo parameter or a resource.
func (t Template) ref(name string) any {
	switch name {
	case "AWS::NoValue":
		return noValue{}
	case "AWS::StackName":
		return t.Name
	case "AWS::Partition":
		return "aws"
	case "AWS::AccountId":
		return AccountID
	case "AWS::Region":
		return Region
	}

	if v, ok := t.Values[name]; ok {
		// A list comes as text, as in a request.
		if strings.HasPrefix(Text(Section(t.Doc, "Parameters")[name], "Type"), "List<") {
			var all []any
			for one := range strings.SplitSeq(v, ",") {
				all = append(all, one)
			}
			return all
		}
		return v
	}

	// Any other name belongs to a resource.
	return name
}
