package manifest

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// Export returns the limits stored in a namespace as a manifest. If the name is
// empty, it reads the namespace of repo. Applying the manifest changes nothing.
// Export finds the levels that the store lists and those that are managed. It
// returns the errors of [NewPlan], and a *limiter.CorruptError for a damaged level.
func Export(ctx context.Context, repo limiter.Repository, namespace string) (*Manifest, error) {
	t, err := newTarget(ctx, repo, namespace, nil)
	if err != nil {
		return nil, err
	}

	scopes, err := t.storedScopes(ctx)
	if err != nil {
		return nil, err
	}

	stored, err := t.readConfigs(ctx, scopes)
	if err != nil {
		return nil, err
	}

	m := &Manifest{Namespace: namespace}
	for _, cfg := range stored {
		if cfg.damaged != nil {
			return nil, cfg.damaged
		}
		if !isEmpty(cfg.Config) {
			m.Levels = append(m.Levels, cfg.Config)
		}
	}
	return m, nil
}

// storedScopes returns every scope that may have a level.
func (t *target) storedScopes(ctx context.Context) ([]limiter.Scope, error) {
	known, err := t.readState(ctx)
	if err != nil {
		return nil, err
	}

	// The system has no list, so its level is always read.
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
