package telemetry

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// NamespaceID returns the ID of the namespace, or "" if the store has none.
func (r *Repository) NamespaceID() string {
	if store, ok := limiter.Optional[limiter.NamespaceIdentifier](r.Repository); ok {
		return store.NamespaceID()
	}
	return ""
}

// Managed calls Managed of the store. It returns errors.ErrUnsupported if the
// store is no limiter.ManagedStore.
func (r *Repository) Managed(ctx context.Context) (scopes []limiter.Scope, hash, owner string, err error) {
	err = r.managed(ctx, opManaged, func(ctx context.Context, store limiter.ManagedStore) (err error) {
		scopes, hash, owner, err = store.Managed(ctx)
		return err
	})

	return scopes, hash, owner, err
}

// SetManaged calls SetManaged of the store. It returns errors.ErrUnsupported if
// the store is no limiter.ManagedStore.
func (r *Repository) SetManaged(
	ctx context.Context, now time.Time, previous, hash, owner string, scopes []limiter.Scope,
) error {
	return r.managed(ctx, opSetManaged, func(ctx context.Context, store limiter.ManagedStore) error {
		return store.SetManaged(ctx, now, previous, hash, owner, scopes)
	})
}

// ReplaceConfig calls ReplaceConfig of the store. It returns errors.ErrUnsupported
// if the store is no limiter.ManagedStore.
func (r *Repository) ReplaceConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	return r.managed(ctx, opReplaceConfig, func(ctx context.Context, store limiter.ManagedStore) error {
		return store.ReplaceConfig(ctx, cfg, ev)
	}, cfg.Scope.Entity, cfg.Scope.Resource)
}

// managed makes a call of a limiter.ManagedStore.
func (r *Repository) managed(
	ctx context.Context, op int, do func(context.Context, limiter.ManagedStore) error, about ...string,
) error {
	return observeError(ctx, r, op, func(ctx context.Context) error {
		store, ok := limiter.Optional[limiter.ManagedStore](r.Repository)
		if !ok {
			return errors.ErrUnsupported
		}

		return do(ctx, store)
	}, about...)
}

// ConfigListed calls ConfigListed of the store. If the store is no
// limiter.ConfigLister, its lists are complete.
func (r *Repository) ConfigListed(ctx context.Context, s limiter.Scope) (cfg limiter.Config, listed bool, err error) {
	err = observeError(ctx, r, opConfigListed, func(ctx context.Context) (err error) {
		if store, ok := limiter.Optional[limiter.ConfigLister](r.Repository); ok {
			cfg, listed, err = store.ConfigListed(ctx, s)
			return err
		}

		listed = true
		cfg, err = r.Repository.Config(ctx, s)
		return err
	}, s.Entity, s.Resource)
	return cfg, listed, err
}

// CheckManaged calls CheckManaged of the store, if it is a limiter.ManagedChecker.
func (r *Repository) CheckManaged(scopes []limiter.Scope) error {
	if store, ok := limiter.Optional[limiter.ManagedChecker](r.Repository); ok {
		return store.CheckManaged(scopes)
	}
	return nil
}

// Statistics iterates over the values that the store reports, if any.
func (r *Repository) Statistics() iter.Seq[limiter.Statistic] { return statisticsOf(r.Repository) }

func statisticsOf(repo limiter.Repository) iter.Seq[limiter.Statistic] {
	if store, ok := repo.(limiter.StatisticsReporter); ok {
		return store.Statistics()
	}
	return func(func(limiter.Statistic) bool) {}
}
