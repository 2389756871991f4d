package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Switches holds the levels of a namespace that are off.
type Switches map[limiter.Scope]limiter.Switch

// Refusing returns the switch that refuses a charge of a resource, or nil. The chain
// is the entity and the ancestors that its charges cascade to, from the parent up.
func (s Switches) Refusing(chain []string, resource string) *limiter.Switch {
	if len(s) == 0 {
		return nil
	}

	// The error names the most specific level, and the entity's before those of its
	// ancestors.
	for _, entity := range chain {
		for _, of := range limiter.Precedence(entity, resource) {
			if found, off := s[of]; off {
				return &found
			}
		}
	}
	return nil
}

// Set turns a level off. A level that is off keeps its time.
func (s Switches) Set(off limiter.Switch) {
	off.Since = WholeSecond(off.Since)
	// The level has refused since then. Only the reason is new.
	if before, ok := s[off.Scope]; ok {
		off.Since = before.Since
	}
	s[off.Scope] = off
}

// Sorted returns the switches by entity, then resource.
func (s Switches) Sorted() []limiter.Switch {
	return slices.SortedFunc(maps.Values(s), CompareSwitches)
}

// CompareSwitches orders switches by entity, then resource.
func CompareSwitches(a, b limiter.Switch) int {
	return cmp.Or(cmp.Compare(a.Scope.Entity, b.Scope.Entity), cmp.Compare(a.Scope.Resource, b.Scope.Resource))
}

// NotOff returns the error for a level that is turned on and was not off.
func NotOff(of limiter.Scope) error {
	return fmt.Errorf("switch of %s: %w", of, limiter.ErrNotFound)
}
