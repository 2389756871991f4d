package fakeaws

import (
	"slices"
	"strings"
	"testing"
)

// Policy is the list of statements that apply to a principal.
type Policy []Statement

// Statement allows actions on resources under conditions.
type Statement struct {
	Actions, Resources []string
	Conditions         []Condition
}

// Condition is a line of a condition block: an operator such as "Null", the
// condition key, and the values to compare with.
type Condition struct {
	Operator, Key string
	Values        []string
}

// Access is an access to a resource that a principal requests. Resources are
// written as a Template evaluates them.
type Access struct {
	Action, Resource string
	Keys             []string // values of dynamodb:LeadingKeys; empty if the request has none
	Attributes       []string // values of dynamodb:Attributes, likewise
	Tag              string   // namespace tag of the principal; "" if it has none
}

// String returns the access as text, such as "dynamodb:GetItem on Table.Arn key".
func (a Access) String() string {
	return strings.Join(append([]string{formatAction(a.Action, a.Attributes), "on", a.Resource}, a.Keys...), " ")
}

// ParsePolicy parses a policy document. It supports what the template uses of
// IAM, and fails the test if the document uses more.
func ParsePolicy(tb testing.TB, doc any) (p Policy) {
	tb.Helper()

	list, _ := At(doc, "Statement").([]any)
	// Older versions have no policy variables.
	if At(doc, "Version") != "2012-10-17" {
		tb.Fatalf("unsupported policy version %v", At(doc, "Version"))
	}

	checkKeys(tb, doc, "Version", "Statement")

	for _, s := range list {
		checkKeys(tb, s, "Sid", "Effect", "Action", "Resource", "Condition")
		statement := Statement{Texts(s, "Action"), Texts(s, "Resource"), nil}

		block, _ := At(s, "Condition").(Tree)
		// An operator that Condition.holds does not know would count as one
		// that it does.
		for operator := range block {
			if !slices.Contains(
				[]string{"ForAllValues:StringLike", "ForAllValues:StringNotLike", "Null", "StringNotEquals"},
				operator,
			) {
				tb.Fatalf("unsupported condition operator %s", operator)
			}

			for key, values := range Section(block, operator) {
				statement.Conditions = append(statement.Conditions, Condition{operator, key, Texts(values)})
			}
		}

		if At(s, "Effect") != "Allow" || len(statement.Actions) == 0 || len(statement.Resources) == 0 {
			tb.Fatalf("unsupported statement %v", s)
		}

		p = append(p, statement)
	}
	return p
}

// checkKeys fails the test if a mapping has keys besides names.
func checkKeys(tb testing.TB, mapping any, names ...string) {
	tb.Helper()
	m, _ := mapping.(Tree)
	for name := range m {
		if !slices.Contains(names, name) {
			tb.Fatalf("unsupported key %s in %v", name, mapping)
		}
	}
}

// Allows reports whether a statement allows the access.
func (p Policy) Allows(a Access) bool {
	return slices.ContainsFunc(p, func(s Statement) bool { return s.allows(a) })
}

func (s Statement) allows(a Access) bool {
	for _, c := range s.Conditions {
		if !c.holds(a) {
			return false
		}
	}
	return matchAny(s.Actions, a.Action) && matchAny(s.Resources, a.Resource)
}

const namespaceTag = "aws:PrincipalTag/zael_namespace_id"

// holds reports whether the access satisfies the condition.
func (c Condition) holds(a Access) bool {
	var given []string

	switch {
	case c.Key == "dynamodb:LeadingKeys":
		given = a.Keys
	case c.Key == "dynamodb:Attributes":
		given = a.Attributes
	case c.Key == namespaceTag && a.Tag != "":
		given = []string{a.Tag}
	}

	matches := func(value string) bool {
		return slices.ContainsFunc(c.Values, func(pattern string) bool {
			pattern, ok := expand(pattern, a.Tag)
			return ok && match(pattern, value)
		})
	}

	switch c.Operator {
	// Null holds for "true" if the request lacks the key, and for "false" if it
	// has it.
	case "Null":
		return (len(given) == 0) == (c.Values[0] == "true")
	// As in AWS, an operator for all values holds without any value.
	case "ForAllValues:StringLike":
		return !slices.ContainsFunc(given, func(v string) bool { return !matches(v) })
	// Both other operators hold if no value matches.
	default:
		return !slices.ContainsFunc(given, matches)
	}
}

// expand replaces the policy variable in a pattern by tag. It returns false if
// the pattern has the variable and there is no tag: it matches nothing then.
func expand(pattern, tag string) (expanded string, ok bool) {
	variable := "${" + namespaceTag + "}"
	if !strings.Contains(pattern, variable) {
		return pattern, true
	}
	return strings.ReplaceAll(pattern, variable, tag), tag != ""
}

func matchAny(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, s) })
}

// match reports whether s matches a pattern, in which * matches any text and ?
// any character.
func match(pattern, s string) bool {
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

	// The text of a * may have any length, also none.
	for i := len(literal); i <= len(s); i++ {
		if match(rest, s[i:]) {
			return true
		}
	}
	return false
}
