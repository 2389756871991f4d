package telemetry

import (
	"context"
	"iter"

	"github.com/zeroae/zae-limiter-go"
)

// CreateEntity calls CreateEntity of the store.
func (r *Repository) CreateEntity(ctx context.Context, e limiter.Entity, ev limiter.AuditEvent) error {
	return observeError(ctx, r, opCreateEntity, func(ctx context.Context) error {
		return r.Repository.CreateEntity(ctx, e, ev)
	}, e.ID, "")
}

// Entity calls Entity of the store.
func (r *Repository) Entity(ctx context.Context, id string) (limiter.Entity, error) {
	return observe(ctx, r, opEntity, func(ctx context.Context) (limiter.Entity, error) {
		return r.Repository.Entity(ctx, id)
	}, id, "")
}

// Entities iterates over the entities of the store.
func (r *Repository) Entities(ctx context.Context, parent string) iter.Seq2[limiter.Entity, error] {
	return observeAll(ctx, r, opEntities, func(ctx context.Context) iter.Seq2[limiter.Entity, error] {
		return r.Repository.Entities(ctx, parent)
	}, parent, "")
}

// DeleteEntity calls DeleteEntity of the store.
func (r *Repository) DeleteEntity(ctx context.Context, id string, ev limiter.AuditEvent) error {
	return observeError(ctx, r, opDeleteEntity, func(ctx context.Context) error {
		return r.Repository.DeleteEntity(ctx, id, ev)
	}, id, "")
}

// SetConfig calls SetConfig of the store.
func (r *Repository) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	return observeError(ctx, r, opSetConfig, func(ctx context.Context) error {
		return r.Repository.SetConfig(ctx, cfg, ev)
	}, cfg.Scope.Entity, cfg.Scope.Resource)
}

// Config calls Config of the store.
func (r *Repository) Config(ctx context.Context, s limiter.Scope) (limiter.Config, error) {
	return observe(ctx, r, opConfig, func(ctx context.Context) (limiter.Config, error) {
		return r.Repository.Config(ctx, s)
	}, s.Entity, s.Resource)
}

// DeleteConfig calls DeleteConfig of the store.
func (r *Repository) DeleteConfig(ctx context.Context, s limiter.Scope, ev limiter.AuditEvent) error {
	return observeError(ctx, r, opDeleteConfig, func(ctx context.Context) error {
		return r.Repository.DeleteConfig(ctx, s, ev)
	}, s.Entity, s.Resource)
}

// ResourcesWithDefaults calls ResourcesWithDefaults of the store.
func (r *Repository) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	return observe(ctx, r, opResourcesWithDefaults, r.Repository.ResourcesWithDefaults)
}

// ResourcesWithLimits calls ResourcesWithLimits of the store.
func (r *Repository) ResourcesWithLimits(ctx context.Context) ([]string, error) {
	return observe(ctx, r, opResourcesWithLimits, r.Repository.ResourcesWithLimits)
}

// EntitiesWithLimits iterates over the entities with limits for a resource.
func (r *Repository) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	return observeAll(ctx, r, opEntitiesWithLimits, func(ctx context.Context) iter.Seq2[string, error] {
		return r.Repository.EntitiesWithLimits(ctx, resource)
	}, "", resource)
}

// SetSwitch calls SetSwitch of the store.
func (r *Repository) SetSwitch(ctx context.Context, s limiter.Switch, ev limiter.AuditEvent) error {
	return observeError(ctx, r, opSetSwitch, func(ctx context.Context) error {
		return r.Repository.SetSwitch(ctx, s, ev)
	}, s.Scope.Entity, s.Scope.Resource)
}

// DeleteSwitch calls DeleteSwitch of the store.
func (r *Repository) DeleteSwitch(ctx context.Context, of limiter.Scope, ev limiter.AuditEvent) error {
	return observeError(ctx, r, opDeleteSwitch, func(ctx context.Context) error {
		return r.Repository.DeleteSwitch(ctx, of, ev)
	}, of.Entity, of.Resource)
}

// Switches iterates over the switches of the store.
func (r *Repository) Switches(ctx context.Context) iter.Seq2[limiter.Switch, error] {
	return observeAll(ctx, r, opSwitches, r.Repository.Switches)
}
