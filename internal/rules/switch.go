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

// Refusing returns the switch that refuses the charges of an entity and a
// resource, or nil. parent is the entity that they cascade to, "" for none.
func (s Switches) Refusing(entity, parent, resource string) *limiter.Switch {
	if len(s) == 0 {
		return nil
	}

	// The error names the most specific level, and the entity's before the
	// parent's.
	for _, of := range limiter.Precedence(entity, resource) {
		if found, off := s[of]; off {
			return &found
		}
	}

	if parent == "" {
		return nil
	}
	// A charge cascades to one parent, so the parent's own parent does not
	// matter.
	return s.Refusing(parent, "", resource)
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
