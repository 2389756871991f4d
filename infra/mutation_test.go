package infra_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// mutant is a policy with one change.
type mutant struct {
	change string
	policy policy
}

// less are all ways to take something away from a policy: a statement, an
// action, a resource, or a value of a condition; also a whole condition, after
// which more is allowed.
func less(p policy) (all []mutant) {
	for i, s := range p {
		all = append(all, mutant{fmt.Sprintf("without statement %d", i), slices.Delete(slices.Clone(p), i, i+1)})
		for _, list := range []func(*statement) *[]string{(*statement).actionList, (*statement).resourceList} {
			for j, name := range *list(&s) {
				m := mutate(p, i, func(s *statement) { *list(s) = slices.Delete(slices.Clone(*list(s)), j, j+1) })
				all = append(all, mutant{"without " + name, m})
			}
		}
		for j, c := range s.conditions {
			m := mutate(p, i, func(s *statement) { s.conditions = slices.Delete(slices.Clone(s.conditions), j, j+1) })
			all = append(all, mutant{fmt.Sprintf("statement %d without %s", i, c.operator), m})
			for k, v := range c.values {
				if len(c.values) == 1 {
					continue // then it is the condition
				}
				m := mutate(p, i, func(s *statement) {
					s.conditions = slices.Clone(s.conditions)
					s.conditions[j].values = slices.Delete(slices.Clone(c.values), k, k+1)
				})
				all = append(all, mutant{"without the value " + v, m})
			}
		}
	}
	return all
}

// more are all ways to put a wildcard into a policy.
func more(p policy) (all []mutant) {
	for i, s := range p {
		for _, wide := range []string{"*", "dynamodb:*", "dynamodb:Delete*"} {
			m := mutate(p, i, func(s *statement) { s.actions = append(slices.Clone(s.actions), wide) })
			all = append(all, mutant{fmt.Sprintf("statement %d with the action %s", i, wide), m})
		}
		for _, wide := range []string{"*", s.resources[0] + "/*", table + "*"} {
			if !slices.Contains(s.resources, wide) {
				m := mutate(p, i, func(s *statement) { s.resources = append(slices.Clone(s.resources), wide) })
				all = append(all, mutant{fmt.Sprintf("statement %d on %s", i, wide), m})
			}
		}
		for j, c := range s.conditions {
			if c.operator == "ForAllValues:StringLike" {
				m := mutate(p, i, func(s *statement) {
					s.conditions = slices.Clone(s.conditions)
					s.conditions[j].values = append(slices.Clone(c.values), "*")
				})
				all = append(all, mutant{fmt.Sprintf("statement %d for all keys", i), m})
			}
		}
	}
	return all
}

// beyond are all ways to allow another action on the table, one that no
// statement allows.
func beyond(p policy) (all []mutant) {
	for i, s := range p {
		for action := range strings.FieldsSeq(universe[0].actions) {
			action = "dynamodb:" + action
			if !slices.Contains(s.resources, table) || slices.ContainsFunc(p, func(s statement) bool { return slices.Contains(s.actions, action) }) {
				continue
			}
			m := mutate(p, i, func(s *statement) { s.actions = append(slices.Clone(s.actions), action) })
			all = append(all, mutant{fmt.Sprintf("statement %d with the action %s", i, action), m})
		}
	}
	return all
}

func (s *statement) actionList() *[]string   { return &s.actions }
func (s *statement) resourceList() *[]string { return &s.resources }

// mutate is a copy of a policy with a change to one statement.
func mutate(p policy, i int, change func(*statement)) policy {
	p = slices.Clone(p)
	change(&p[i])
	return p
}

// Nothing in the policies is dispensable, and nothing can be added unnoticed:
// TestPermissions would fail after any of these changes.
func TestEveryWordOfThePoliciesCounts(t *testing.T) {
	recorded := recordedFile(t)
	tried := 0
	for _, tier := range tiers(t) {
		for _, m := range slices.Concat(less(tier.policy), more(tier.policy), beyond(tier.policy)) {
			tried++
			changed := tier
			changed.policy = m.policy
			if len(changed.problems(recorded)) == 0 {
				t.Errorf("%s %s: nobody notices", tier.name, m.change)
			}
		}
	}
	t.Logf("%d changes", tried)
}
