package rules

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Merged returns the config of a scope after a change. Nil limits and an empty
// mode keep the stored ones. Only the system has a mode.
func Merged(stored, change limiter.Config) limiter.Config {
	stored.Scope = change.Scope
	if change.Limits != nil {
		stored.Limits = Sorted(change.Limits)
	}
	if change.OnUnavailable != "" && change.Scope == (limiter.Scope{}) {
		stored.OnUnavailable = change.OnUnavailable
	}
	return stored
}

// Empty reports whether a config holds nothing. Stores do not keep such a config.
func Empty(cfg limiter.Config) bool { return len(cfg.Limits) == 0 && cfg.OnUnavailable == "" }

// ScopeName returns the name of a scope for an error text.
func ScopeName(s limiter.Scope) string {
	switch s.Level() {
	case "entity":
		return "entity " + s.Entity + " and resource " + s.Resource
	case "entity_default":
		return "entity " + s.Entity
	case "resource":
		return "resource " + s.Resource
	}
	return "the system"
}

// Defaults returns the limits of a bucket under the defaults of a charge: the
// defaults, which are sorted by name, and any other limits the bucket has. own
// holds the limits of the bucket, nil if it is new.
func Defaults(defaults, own []limiter.Limit) []limiter.Limit {
	// Programs with other defaults may share the bucket. Their limits stay.
	var kept []limiter.Limit
	for i, l := range own {
		if find(defaults, l.Name, i) < 0 {
			kept = append(kept, l)
		}
	}

	if kept == nil {
		return slices.Clone(defaults)
	}
	return Sorted(append(kept, defaults...))
}

// Follows reports whether a bucket with these limits has all the defaults of a
// charge. It returns false for empty defaults.
func Follows(own, defaults []limiter.Limit) bool {
	for i, l := range defaults {
		if j := find(own, l.Name, i); j < 0 || own[j] != l {
			return false
		}
	}
	// Without defaults, the charge has no limits here, whatever the defaults of an
	// earlier one have left in the bucket.
	return len(defaults) > 0
}

// Managed describes the scopes that a manifest manages.
type Managed struct {
	Scopes []limiter.Scope // by entity, then resource
	Hash   string          // of the manifest
	Owner  string          // "" for none
}

// Replace returns the record that follows m. If previous is not the hash of m,
// the error matches limiter.ErrConflict.
func (m Managed) Replace(previous, hash, owner string, scopes []limiter.Scope) (Managed, error) {
	if m.Hash != previous {
		return m, Overtaken()
	}
	return Managed{SortedScopes(scopes), hash, owner}, nil
}

// Overtaken returns the error for a record that another client has changed.
func Overtaken() error {
	return fmt.Errorf("the managed scopes have changed since they were read: %w", limiter.ErrConflict)
}

// SortedScopes returns a copy of scopes, sorted by entity, then resource.
func SortedScopes(scopes []limiter.Scope) []limiter.Scope {
	return slices.SortedFunc(slices.Values(scopes), func(a, b limiter.Scope) int {
		return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource))
	})
}
