package rules

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Managed is which scopes are ruled by a manifest, and what it was when they
// were recorded.
type Managed struct {
	Scopes []limiter.Scope // by entity, then resource
	Hash   string
	Owner  string // "" for nobody in particular
}

// Replace is what is stored next, if previous is what is stored now;
// ErrConflict.
func (m Managed) Replace(previous, hash, owner string, scopes []limiter.Scope) (Managed, error) {
	if m.Hash != previous {
		return m, Overtaken()
	}
	return Managed{SortedScopes(scopes), hash, owner}, nil
}

// Overtaken says that somebody else was faster.
func Overtaken() error {
	return fmt.Errorf("what is managed has changed since it was read: %w", limiter.ErrConflict)
}

// SortedScopes is a copy by entity, then resource.
func SortedScopes(scopes []limiter.Scope) []limiter.Scope {
	return slices.SortedFunc(slices.Values(scopes), func(a, b limiter.Scope) int {
		return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource))
	})
}
