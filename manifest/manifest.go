// Package manifest keeps the limits of a namespace in a file. [Parse] reads what
// is declared, [NewPlan] compares it with what is stored, [Plan.Apply] makes
// that so through the limiter's own methods, and [Export] writes what is stored
// as a manifest.
//
// What a manifest declares is managed from then on: a store remembers the list
// (see [limiter.ManagedStore]), and what is on it but no longer declared is deleted. What was
// never declared is not touched.
package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// Manifest declares limits of one namespace.
type Manifest struct {
	// Namespace is the one it is for; "" if it does not say.
	Namespace string
	// Levels are those it rules, each scope once. A level holds exactly what is
	// declared: without limits, it is declared to have none.
	Levels []limiter.Config
}

// defaultResource stands for all resources of an entity.
const defaultResource = "_default_"

// Validate is nil, or an error that says what is wrong with a manifest that
// was not made by Parse.
func (m *Manifest) Validate() error {
	if m.Namespace != "" {
		if err := (limiter.Namespace{Name: m.Namespace}).Validate(); err != nil {
			return err
		}
	}
	seen := map[limiter.Scope]bool{}
	for _, level := range m.Levels {
		if err := validLevel(level); err != nil {
			return fmt.Errorf("%s: %w", levelName(level.Scope), err)
		}
		if seen[level.Scope] {
			return fmt.Errorf("%s is declared twice; declare it once", levelName(level.Scope))
		}
		seen[level.Scope] = true
	}
	return nil
}

func validLevel(level limiter.Config) error {
	s := level.Scope
	if s.Entity != "" {
		if err := (limiter.Entity{ID: s.Entity}).Validate(); err != nil {
			return err
		}
	}
	if s.Resource != "" {
		if err := validResource(s.Resource); err != nil {
			return err
		}
	}
	switch mode := level.OnUnavailable; {
	case mode == "":
	case s != limiter.Scope{}:
		return errors.New("on_unavailable belongs to the system alone")
	case !validMode(mode):
		return fmt.Errorf("on_unavailable is %q, but it has to be %s", mode, modes)
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

func validResource(name string) error {
	if name == "" { // which elsewhere stands for all
		return &limiter.InvalidError{Field: "resource", Reason: "must not be empty"}
	}
	return limiter.UsageQuery{Entity: "any", Resource: name}.Validate()
}

// sorted is a copy with levels in order and limits by name.
func (m *Manifest) sorted() *Manifest {
	out := &Manifest{Namespace: m.Namespace, Levels: slices.Clone(m.Levels)}
	for i := range out.Levels {
		out.Levels[i].Limits = byName(out.Levels[i].Limits)
	}
	slices.SortFunc(out.Levels, func(a, b limiter.Config) int { return compareScopes(a.Scope, b.Scope) })
	return out
}

func byName(limits []limiter.Limit) []limiter.Limit {
	return slices.SortedFunc(slices.Values(limits), func(a, b limiter.Limit) int { return strings.Compare(a.Name, b.Name) })
}

// scopes are those of the levels.
func (m *Manifest) scopes() []limiter.Scope {
	all := make([]limiter.Scope, len(m.Levels))
	for i, level := range m.Levels {
		all[i] = level.Scope
	}
	return all
}

// compareScopes puts the system first, then resources, then entities.
func compareScopes(a, b limiter.Scope) int {
	return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(shownResource(a), shownResource(b)))
}

// shownResource is the resource of a scope as a manifest writes it.
func shownResource(s limiter.Scope) string {
	if s.Entity != "" && s.Resource == "" {
		return defaultResource
	}
	return s.Resource
}

// Level is "system", "resource" or "entity": where a manifest declares a scope.
func Level(s limiter.Scope) string {
	switch {
	case s.Entity != "":
		return "entity"
	case s.Resource != "":
		return "resource"
	}
	return "system"
}

// Target names a scope within its level: nothing for the system, a resource, or
// an entity and a resource with a slash between them.
func Target(s limiter.Scope) string {
	if s.Entity != "" {
		return s.Entity + "/" + shownResource(s)
	}
	return s.Resource
}

// levelName is both.
func levelName(s limiter.Scope) string { return strings.TrimSpace(Level(s) + " " + Target(s)) }
