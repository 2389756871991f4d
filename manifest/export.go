package manifest

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Export is what is stored in a namespace, or in that of repo if the name is
// empty, as a manifest: applying it changes nothing. It finds what is in the
// lists of the store, and what is managed. The errors are those of [NewPlan],
// and *CorruptError.
func Export(ctx context.Context, repo limiter.Repository, namespace string) (*Manifest, error) {
	t, err := enter(ctx, repo, namespace, nil)
	if err != nil {
		return nil, err
	}
	scopes, err := t.scopes(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := t.read(ctx, scopes)
	if err != nil {
		return nil, err
	}
	m := &Manifest{Namespace: namespace}
	for _, cfg := range stored {
		if cfg.damaged != nil {
			return nil, cfg.damaged
		}
		if !empty(cfg.Config) {
			m.Levels = append(m.Levels, cfg.Config)
		}
	}
	return m, nil
}

// scopes are all that may hold something.
func (t *target) scopes(ctx context.Context) ([]limiter.Scope, error) {
	known, err := t.state(ctx)
	if err != nil {
		return nil, err
	}
	scopes := slices.Concat(known.scopes, []limiter.Scope{{}})
	resources, err := t.lim.ResourcesWithDefaults(ctx)
	if err != nil {
		return nil, err
	}
	for _, resource := range resources {
		scopes = append(scopes, limiter.Scope{Resource: resource})
	}
	limited, err := t.lim.ResourcesWithLimits(ctx)
	if err != nil {
		return nil, err
	}
	for _, resource := range limited {
		for entity, err := range t.lim.EntitiesWithLimits(ctx, resource) {
			if err != nil {
				return nil, err
			}
			scopes = append(scopes, limiter.Scope{Entity: entity, Resource: resource})
		}
	}
	slices.SortFunc(scopes, compareScopes)
	return slices.Compact(scopes), nil
}
