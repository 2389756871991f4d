package infra_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/internal/fakeaws"
)

// mutant is a policy with one change.
type mutant struct {
	change string
	policy fakeaws.Policy
}

// less are all ways to take something away from a policy: a statement, an
// action, a resource, or a value of a condition; also a whole condition, after
// which more is allowed.
func less(p fakeaws.Policy) (all []mutant) {
	for i, s := range p {
		all = append(all, mutant{fmt.Sprintf("without statement %d", i), slices.Delete(slices.Clone(p), i, i+1)})
		for _, list := range []func(*fakeaws.Statement) *[]string{actions, resources} {
			for j, name := range *list(&s) {
				m := mutate(p, i, func(s *fakeaws.Statement) { *list(s) = slices.Delete(slices.Clone(*list(s)), j, j+1) })
				all = append(all, mutant{"without " + name, m})
			}
		}
		for j, c := range s.Conditions {
			m := mutate(p, i, func(s *fakeaws.Statement) { s.Conditions = slices.Delete(slices.Clone(s.Conditions), j, j+1) })
			all = append(all, mutant{fmt.Sprintf("statement %d without %s", i, c.Operator), m})
			for k, v := range c.Values {
				if len(c.Values) == 1 {
					continue // then it is the condition
				}
				m := mutate(p, i, func(s *fakeaws.Statement) {
					s.Conditions = slices.Clone(s.Conditions)
					s.Conditions[j].Values = slices.Delete(slices.Clone(c.Values), k, k+1)
				})
				all = append(all, mutant{"without the value " + v, m})
			}
		}
	}
	return all
}

// more are all ways to put a wildcard into a policy.
func more(p fakeaws.Policy) (all []mutant) {
	for i, s := range p {
		for _, wide := range []string{"*", "dynamodb:*", "dynamodb:Delete*"} {
			m := mutate(p, i, func(s *fakeaws.Statement) { s.Actions = append(slices.Clone(s.Actions), wide) })
			all = append(all, mutant{fmt.Sprintf("statement %d with the action %s", i, wide), m})
		}
		for _, wide := range []string{"*", s.Resources[0] + "/*", fakeaws.TableARN + "*"} {
			if !slices.Contains(s.Resources, wide) {
				m := mutate(p, i, func(s *fakeaws.Statement) { s.Resources = append(slices.Clone(s.Resources), wide) })
				all = append(all, mutant{fmt.Sprintf("statement %d on %s", i, wide), m})
			}
		}
		for j, c := range s.Conditions {
			if c.Operator == "ForAllValues:StringLike" {
				m := mutate(p, i, func(s *fakeaws.Statement) {
					s.Conditions = slices.Clone(s.Conditions)
					s.Conditions[j].Values = append(slices.Clone(c.Values), "*")
				})
				all = append(all, mutant{fmt.Sprintf("statement %d for all keys", i), m})
			}
		}
	}
	return all
}

// beyond are all ways to allow another action on the table, one that no
// statement allows.
func beyond(p fakeaws.Policy) (all []mutant) {
	for i, s := range p {
		for action := range strings.FieldsSeq(universe[0].actions) {
			action = "dynamodb:" + action
			if !slices.Contains(s.Resources, fakeaws.TableARN) || slices.ContainsFunc(p, func(s fakeaws.Statement) bool { return slices.Contains(s.Actions, action) }) {
				continue
			}
			m := mutate(p, i, func(s *fakeaws.Statement) { s.Actions = append(slices.Clone(s.Actions), action) })
			all = append(all, mutant{fmt.Sprintf("statement %d with the action %s", i, action), m})
		}
	}
	return all
}

func actions(s *fakeaws.Statement) *[]string   { return &s.Actions }
func resources(s *fakeaws.Statement) *[]string { return &s.Resources }

// mutate is a copy of a policy with a change to one statement.
func mutate(p fakeaws.Policy, i int, change func(*fakeaws.Statement)) fakeaws.Policy {
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
