// Package manifest declares the limits of a namespace in a file. [Parse] reads
// a manifest, [NewPlan] compares it with the store, [Plan.Apply] makes the
// changes through a limiter.RateLimiter, and [Export] writes the stored limits
// as a manifest. [WhatIf] replays recent usage against a manifest before it is
// applied.
//
// Applying a manifest makes its levels managed: the store keeps a list of them
// (see limiter.ManagedStore). A managed level that is no longer declared is
// deleted. Levels that were never declared are left alone.
package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// Manifest declares the limits of one namespace.
type Manifest struct {
	// Namespace is the name of the namespace, or "" if the manifest names none.
	Namespace string
	// Levels holds the declared levels, each scope once. A level without limits
	// is declared to have none.
	Levels []limiter.Config
}

// defaultResource is the key for all resources of an entity.
const defaultResource = "_default_"

// Validate returns an error that describes the first problem of a manifest. A
// manifest that Parse returned is valid.
func (m *Manifest) Validate() error {
	if m.Namespace != "" {
		if err := (limiter.Namespace{Name: m.Namespace}).Validate(); err != nil {
			return err
		}
	}

	seen := map[limiter.Scope]bool{}
	for _, level := range m.Levels {
		if err := validateLevel(level); err != nil {
			return fmt.Errorf("%s: %w", levelName(level.Scope), err)
		}
		if seen[level.Scope] {
			return fmt.Errorf("%s is declared twice; declare it once", levelName(level.Scope))
		}
		seen[level.Scope] = true
	}
	return nil
}

func validateLevel(level limiter.Config) error {
	s := level.Scope
	if s.Entity != "" {
		if err := (limiter.Entity{ID: s.Entity}).Validate(); err != nil {
			return err
		}
	}
	if s.Resource != "" {
		if err := validateResource(s.Resource); err != nil {
			return err
		}
	}

	switch mode := level.OnUnavailable; {
	case mode == "":
	case s != limiter.Scope{}:
		return errors.New("on_unavailable belongs to the system alone")
	case !validMode(mode):
		return fmt.Errorf("on_unavailable is %q, but must be %s", mode, modes)
	}

	names := map[string]bool{}
	for _, l := range level.Limits {
		if err := l.Validate(); err != nil {
			return err
		}
		if names[l.Name] {
			return fmt.Errorf("limit %s is declared twice; declare it once", l.Name)
		}
		names[l.Name] = true
	}
	return nil
}

const modes = "allow or block"

func validMode(mode limiter.OnUnavailable) bool {
	return mode == limiter.Allow || mode == limiter.Block
}

func validateResource(name string) error {
	if name == "" { // elsewhere, "" means all resources
		return &limiter.InvalidError{Field: "resource", Reason: "must not be empty"}
	}
	return limiter.UsageQuery{Entity: "any", Resource: name}.Validate()
}

// sorted returns a copy with the levels in scope order and their limits by name.
func (m *Manifest) sorted() *Manifest {
	out := &Manifest{Namespace: m.Namespace, Levels: slices.Clone(m.Levels)}
	for i := range out.Levels {
		out.Levels[i].Limits = sortLimits(out.Levels[i].Limits)
	}
	slices.SortFunc(out.Levels, func(a, b limiter.Config) int { return compareScopes(a.Scope, b.Scope) })
	return out
}

func sortLimits(limits []limiter.Limit) []limiter.Limit {
	return slices.SortedFunc(slices.Values(limits), func(a, b limiter.Limit) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// scopes returns the scope of each level.
func (m *Manifest) scopes() []limiter.Scope {
	all := make([]limiter.Scope, len(m.Levels))
	for i, level := range m.Levels {
		all[i] = level.Scope
	}
	return all
}

// compareScopes orders the system before resources, and resources before
// entities.
func compareScopes(a, b limiter.Scope) int {
	return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(resourceKey(a), resourceKey(b)))
}

// resourceKey returns the key of a scope's resource in a manifest.
func resourceKey(s limiter.Scope) string {
	if s.Entity != "" && s.Resource == "" {
		return defaultResource
	}
	return s.Resource
}

// Level returns the kind of level that s is: "system", "resource" or "entity".
func Level(s limiter.Scope) string {
	switch {
	case s.Entity != "":
		return "entity"
	case s.Resource != "":
		return "resource"
	}
	return "system"
}

// Target returns the name of s within its level: "" for the system, the name of
// a resource, or "entity/resource".
func Target(s limiter.Scope) string {
	if s.Entity != "" {
		return s.Entity + "/" + resourceKey(s)
	}
	return s.Resource
}

// levelName returns the level and the target, such as "resource gpt-4".
func levelName(s limiter.Scope) string { return strings.TrimSpace(Level(s) + " " + Target(s)) }
