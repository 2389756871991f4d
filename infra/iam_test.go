package infra_test

import (
	"slices"
	"strings"
	"testing"
)

// policy is all statements that apply to a principal.
type policy []statement

type statement struct {
	actions, resources []string
	conditions         []condition
}

// condition is one line of a condition block: an operator, such as "Null", the
// key it looks at, and what it compares with.
type condition struct {
	operator, key string
	values        []string
}

// request is what a principal asks for. Resources are written as in stack.
type request struct {
	action, resource string
	keys             []string // values of dynamodb:LeadingKeys; empty if the request has none
	attributes       []string // values of dynamodb:Attributes, likewise
	tag              string   // that of the principal, its namespace; "" if it has none
}

// statements reads the statements of a policy document. It knows what the
// template uses of IAM, and fails the test if that is more.
func statements(tb testing.TB, doc any) (p policy) {
	tb.Helper()
	list, _ := at(doc, "Statement").([]any)
	if at(doc, "Version") != "2012-10-17" { // an older one knows no tag of the principal
		tb.Fatalf("the version of a policy is %v", at(doc, "Version"))
	}
	hasOnly(tb, doc, "Version", "Statement")
	for _, s := range list {
		hasOnly(tb, s, "Sid", "Effect", "Action", "Resource", "Condition")
		read := statement{texts(at(s, "Action")), texts(at(s, "Resource")), nil}
		block, _ := at(s, "Condition").(tree)
		for operator := range block {
			if !slices.Contains([]string{"ForAllValues:StringLike", "ForAllValues:StringNotLike", "Null", "StringNotEquals"}, operator) {
				tb.Fatalf("what does %s mean?", operator)
			}
			for key, values := range section(block, operator) {
				read.conditions = append(read.conditions, condition{operator, key, texts(values)})
			}
		}
		if at(s, "Effect") != "Allow" || len(read.actions) == 0 || len(read.resources) == 0 {
			tb.Fatalf("what does this statement mean? %v", s)
		}
		p = append(p, read)
	}
	return p
}

// hasOnly fails the test if a mapping says more than that.
func hasOnly(tb testing.TB, mapping any, names ...string) {
	tb.Helper()
	m, _ := mapping.(tree)
	for name := range m {
		if !slices.Contains(names, name) {
			tb.Fatalf("what does %s mean? %v", name, mapping)
		}
	}
}

func (p policy) allows(r request) bool {
	return slices.ContainsFunc(p, func(s statement) bool { return s.allows(r) })
}

func (s statement) allows(r request) bool {
	for _, c := range s.conditions {
		if !c.holds(r) {
			return false
		}
	}
	return likeAny(s.actions, r.action) && likeAny(s.resources, r.resource)
}

const namespaceTag = "aws:PrincipalTag/zael_namespace_id"

func (c condition) holds(r request) bool {
	var given []string
	switch {
	case c.key == "dynamodb:LeadingKeys":
		given = r.keys
	case c.key == "dynamodb:Attributes":
		given = r.attributes
	case c.key == namespaceTag && r.tag != "":
		given = []string{r.tag}
	}
	matches := func(value string) bool {
		return slices.ContainsFunc(c.values, func(pattern string) bool {
			pattern, resolved := resolve(pattern, r.tag)
			return resolved && like(pattern, value)
		})
	}
	switch c.operator {
	case "Null":
		return (len(given) == 0) == (c.values[0] == "true")
	case "ForAllValues:StringLike":
		return !slices.ContainsFunc(given, func(v string) bool { return !matches(v) })
	default: // both mean that none is like it
		return !slices.ContainsFunc(given, matches)
	}
}

// resolve puts the tag into a pattern. A pattern that needs one that is not
// there matches nothing.
func resolve(pattern, tag string) (resolved string, ok bool) {
	variable := "${" + namespaceTag + "}"
	if !strings.Contains(pattern, variable) {
		return pattern, true
	}
	return strings.ReplaceAll(pattern, variable, tag), tag != ""
}

func likeAny(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return like(p, s) })
}

// like compares with a pattern in which * is any text and ? any character.
func like(pattern, s string) bool {
	literal, rest, wild := strings.Cut(pattern, "*")
	if len(s) < len(literal) || !wild && len(s) > len(literal) {
		return false
	}
	for i := range len(literal) {
		if literal[i] != '?' && literal[i] != s[i] {
			return false
		}
	}
	if !wild {
		return true
	}
	for i := len(literal); i <= len(s); i++ {
		if like(rest, s[i:]) {
			return true
		}
	}
	return false
}

// The judge has to be right before it judges.
func TestJudge(t *testing.T) {
	own := condition{"ForAllValues:StringLike", "dynamodb:LeadingKeys", []string{"${" + namespaceTag + "}/*", "_/*"}}
	some := condition{"Null", "dynamodb:LeadingKeys", []string{"false"}}
	not := condition{"ForAllValues:StringNotLike", "dynamodb:LeadingKeys", []string{"_/*"}}
	proper := condition{"StringNotEquals", namespaceTag, []string{"_"}}
	noLimits := condition{"ForAllValues:StringNotLike", "dynamodb:Attributes", []string{"l_*"}}
	named := condition{"Null", "dynamodb:Attributes", []string{"false"}}
	for _, test := range []struct {
		name       string
		conditions []condition
		keys       string
		tag        string
		want       bool
		attributes string
	}{
		{"own", []condition{own}, "a/x", "a", true, ""},
		{"own and shared", []condition{own}, "a/x _/y", "a", true, ""},
		{"another's", []condition{own}, "b/x", "a", false, ""},
		{"one of two is another's", []condition{own}, "a/x b/x", "a", false, ""},
		{"a longer name", []condition{own}, "ab/x", "a", false, ""},
		{"no slash", []condition{own}, "a", "a", false, ""},
		{"no tag", []condition{own}, "a/x", "", false, ""},
		{"no tag, shared", []condition{own}, "_/x", "", true, ""},
		{"no keys match everything", []condition{own}, "", "a", true, ""},
		{"unless there have to be some", []condition{own, some}, "", "a", false, ""},
		{"none is like it", []condition{not}, "a/x b/x", "", true, ""},
		{"one is like it", []condition{not}, "a/x _/x", "", false, ""},
		{"tag", []condition{proper}, "", "a", true, ""},
		{"wrong tag", []condition{proper}, "", "_", false, ""},
		{"without a tag it is not the wrong one", []condition{proper}, "", "", true, ""},
		{"attributes of a bucket", []condition{noLimits, named}, "", "", true, "PK SK b_rpm_tk rf"},
		{"an attribute of limits", []condition{noLimits, named}, "", "", false, "PK SK l_rpm_cp"},
		{"among others", []condition{noLimits, named}, "", "", false, "PK b_rpm_tk l_rpm_cp"},
		{"no attributes match everything", []condition{noLimits}, "", "", true, ""},
		{"unless some have to be named", []condition{noLimits, named}, "", "", false, ""},
	} {
		p := policy{{[]string{"dynamodb:Get*"}, []string{"T.Arn", "T.Arn/index/?"}, test.conditions}}
		r := request{"dynamodb:GetItem", "T.Arn/index/1", strings.Fields(test.keys), strings.Fields(test.attributes), test.tag}
		if got := p.allows(r); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
		for _, other := range []request{
			{"dynamodb:PutItem", r.resource, r.keys, r.attributes, r.tag},
			{r.action, "T.Arn/index/10", r.keys, r.attributes, r.tag},
			{r.action, "U.Arn", r.keys, r.attributes, r.tag},
		} {
			if p.allows(other) {
				t.Errorf("%s: allows %v", test.name, other)
			}
		}
	}
}
