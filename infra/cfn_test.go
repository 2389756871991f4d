package infra_test

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/zeroae/zae-limiter-go/infra"
)

// tree is a part of a template. Leaves are text, functions are in their long
// form, such as {"Fn::GetAtt": ["Table", "Arn"]}.
type tree = map[string]any

// parsed is a template, or fails the test.
func parsed(tb testing.TB, text []byte) tree {
	tb.Helper()
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		tb.Fatal(err)
	}
	doc, ok := plain(n.Content[0]).(tree)
	if !ok {
		tb.Fatal("the template is no mapping")
	}
	return doc
}

// ours is the template of this package.
func ours(tb testing.TB) tree {
	tb.Helper()
	return parsed(tb, infra.Template())
}

func plain(n *yaml.Node) any {
	var v any = n.Value
	switch n.Kind {
	case yaml.MappingNode:
		m := tree{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plain(n.Content[i+1])
		}
		v = m
	case yaml.SequenceNode:
		list := []any{}
		for _, c := range n.Content {
			list = append(list, plain(c))
		}
		v = list
	}
	name, short := strings.CutPrefix(n.Tag, "!")
	switch {
	case !short || strings.HasPrefix(name, "!"):
		return v
	case name == "Ref" || name == "Condition":
		return tree{name: v}
	case name == "GetAtt":
		resource, attribute, _ := strings.Cut(n.Value, ".")
		v = []any{resource, attribute}
	}
	return tree{"Fn::" + name: v}
}

// at is what is found under names, one below the other; nil if nothing is.
func at(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(tree)
		v = m[name]
	}
	return v
}

// section is one part of a template, by name.
func section(doc tree, name string) tree {
	m, _ := doc[name].(tree)
	return m
}

// text is a leaf, "" if it is none.
func text(v any) string {
	s, _ := v.(string)
	return s
}

// texts are the leaves of a list, or of a list of one that is written without
// brackets.
func texts(v any) (all []string) {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	list, _ := v.([]any)
	for _, e := range list {
		all = append(all, text(e))
	}
	return all
}

// stack is a template with values for its parameters. Resources and what they
// are asked for stand for themselves: "RateLimitsTable", "RateLimitsTable.Arn".
type stack struct {
	doc    tree
	name   string
	values map[string]string
}

// newStack is a stack with the defaults, except for the values given.
func newStack(doc tree, name string, values map[string]string) stack {
	s := stack{doc, name, map[string]string{}}
	for p, def := range section(doc, "Parameters") {
		s.values[p] = text(at(def, "Default"))
	}
	maps.Copy(s.values, values)
	return s
}

// resources are the properties of what is made, by logical ID.
func (s stack) resources() map[string]tree {
	made := map[string]tree{}
	for id, r := range section(s.doc, "Resources") {
		if s.makes(r) {
			made[id], _ = s.value(at(r, "Properties")).(tree)
		}
	}
	return made
}

// makes tells whether the condition of a resource or output holds.
func (s stack) makes(r any) bool {
	name := text(at(r, "Condition"))
	return name == "" || s.holds(name)
}

func (s stack) holds(condition string) bool {
	return s.value(section(s.doc, "Conditions")[condition]) == true
}

// nothing is what AWS::NoValue is.
type nothing struct{}

// value is a part of the template with all functions evaluated.
func (s stack) value(v any) any {
	switch v := v.(type) {
	case []any:
		list := []any{}
		for _, e := range v {
			if e := s.value(e); e != (nothing{}) {
				list = append(list, e)
			}
		}
		return list
	case tree:
		for name, argument := range v {
			if result, ok := s.call(name, argument); ok && len(v) == 1 {
				return result
			}
		}
		m := tree{}
		for name, e := range v {
			if e := s.value(e); e != (nothing{}) {
				m[name] = e
			}
		}
		return m
	}
	return v
}

var placeholder = regexp.MustCompile(`\$\{([^}]+)\}`)

// call is the result of a function, if it is one.
func (s stack) call(name string, argument any) (any, bool) {
	switch name {
	case "Ref":
		return s.ref(text(argument)), true
	case "Condition":
		return s.holds(text(argument)), text(argument) != ""
	case "Fn::GetAtt":
		return strings.Join(texts(argument), "."), true
	case "Fn::Sub":
		return placeholder.ReplaceAllStringFunc(text(argument), func(p string) string {
			return text(s.ref(p[2 : len(p)-1]))
		}), true
	case "Fn::If":
		list, _ := argument.([]any)
		if s.holds(text(list[0])) {
			return s.value(list[1]), true
		}
		return s.value(list[2]), true
	}
	list, _ := s.value(argument).([]any)
	switch name {
	case "Fn::Equals":
		return list[0] == list[1], true
	case "Fn::Not":
		return list[0] == false, true
	case "Fn::And":
		return !slices.Contains(list, false), true
	case "Fn::Or":
		return slices.Contains(list, true), true
	case "Fn::Split":
		var parts []any
		for part := range strings.SplitSeq(text(list[1]), text(list[0])) {
			parts = append(parts, part)
		}
		return parts, true
	case "Fn::Select":
		i, _ := strconv.Atoi(text(list[0]))
		parts, _ := list[1].([]any)
		return parts[i], true
	}
	return nil, false
}

// ref is a parameter, a fact about the stack, or a resource's own name.
func (s stack) ref(name string) any {
	switch name {
	case "AWS::NoValue":
		return nothing{}
	case "AWS::StackName":
		return s.name
	case "AWS::Partition":
		return "aws"
	case "AWS::AccountId":
		return account
	}
	if v, ok := s.values[name]; ok {
		return v
	}
	return name
}

const account = "123456789012"
