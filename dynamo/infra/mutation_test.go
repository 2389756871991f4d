package infra_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/dynamo/infra/internal/fakeaws"
)

// mutant is a policy with one change.
type mutant struct {
	change string
	policy fakeaws.Policy
}

// removals returns all mutants without one statement, action, resource, condition or
// value of a condition.
func removals(p fakeaws.Policy) (all []mutant) {
	for i, s := range p {
		all = append(all, mutant{fmt.Sprintf("without statement %d", i), slices.Delete(slices.Clone(p), i, i+1)})
		for _, list := range []func(*fakeaws.Statement) *[]string{actions, resources} {
			for j, name := range *list(&s) {
				m := mutate(p, i, func(s *fakeaws.Statement) {
					*list(s) = slices.Delete(slices.Clone(*list(s)), j, j+1)
				})
				all = append(all, mutant{"without " + name, m})
			}
		}
		for j, c := range s.Conditions {
			m := mutate(p, i, func(s *fakeaws.Statement) {
				s.Conditions = slices.Delete(slices.Clone(s.Conditions), j, j+1)
			})
			all = append(all, mutant{fmt.Sprintf("statement %d without %s", i, c.Operator), m})
			for k, v := range c.Values {
				if len(c.Values) == 1 {
					continue // same as without the condition
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

// wildcards returns all mutants with one more wildcard.
func wildcards(p fakeaws.Policy) (all []mutant) {
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

// additions returns all mutants with an action on the table that no statement
// allows.
func additions(p fakeaws.Policy) (all []mutant) {
	for i, s := range p {
		for action := range strings.FieldsSeq(universe[0].actions) {
			action = "dynamodb:" + action
			if !slices.Contains(s.Resources, fakeaws.TableARN) || slices.ContainsFunc(p,
				func(s fakeaws.Statement) bool {
					return slices.Contains(s.Actions, action)
				}) {
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

// mutate returns a copy of a policy with one statement changed.
func mutate(p fakeaws.Policy, i int, change func(*fakeaws.Statement)) fakeaws.Policy {
	p = slices.Clone(p)
	change(&p[i])
	return p
}

// TestPermissions fails on every mutant: the policies have no superfluous part.
func TestPolicyMutantsAreDetected(t *testing.T) {
	recorded := readCalls(t)
	tried := 0
	for _, tier := range tiers(t) {
		for _, m := range slices.Concat(removals(tier.policy), wildcards(tier.policy), additions(tier.policy)) {
			tried++
			changed := tier
			changed.policy = m.policy
			if len(changed.problems(recorded)) == 0 {
				t.Errorf("%s %s: not detected", tier.name, m.change)
			}
		}
	}
	t.Logf("%d changes", tried)
}
