package limiter

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"
)

// Names of stored things that are not entities or resources.
const (
	defaultResource = "_default_"  // stands in audit events for limits of all resources
	auditSystem     = "$SYSTEM"    // the entity of system events
	auditResource   = "$RESOURCE:" // and of resource events
)

// SetLimits replaces the limits of an entity for a resource, or for every
// resource it has no own limits for if resource is "". The most specific level
// that holds limits gives all of them: entity and resource, entity, resource,
// system.
func (l *RateLimiter) SetLimits(ctx context.Context, entity, resource string, limits ...Limit) error {
	s, err := entityScope(entity, resource)
	if err != nil {
		return err
	}
	return l.set(ctx, s, limits)
}

// Limits are those stored for exactly this entity and resource, by name; nil if
// there are none.
func (l *RateLimiter) Limits(ctx context.Context, entity, resource string) ([]Limit, error) {
	s, err := entityScope(entity, resource)
	if err != nil {
		return nil, err
	}
	cfg, err := l.get(ctx, s)
	return cfg.Limits, err
}

// DeleteLimits removes them, so that the next level rules. ErrNotFound.
func (l *RateLimiter) DeleteLimits(ctx context.Context, entity, resource string) error {
	s, err := entityScope(entity, resource)
	if err != nil {
		return err
	}
	return l.remove(ctx, s)
}

// SetResourceDefaults replaces the limits of a resource for entities that have
// none of their own.
func (l *RateLimiter) SetResourceDefaults(ctx context.Context, resource string, limits ...Limit) error {
	if err := validResource(resource); err != nil {
		return err
	}
	return l.set(ctx, Scope{Resource: resource}, limits)
}

// ResourceDefaults are the limits stored for a resource, by name; nil if there
// are none.
func (l *RateLimiter) ResourceDefaults(ctx context.Context, resource string) ([]Limit, error) {
	if err := validResource(resource); err != nil {
		return nil, err
	}
	cfg, err := l.get(ctx, Scope{Resource: resource})
	return cfg.Limits, err
}

// DeleteResourceDefaults removes them. ErrNotFound.
func (l *RateLimiter) DeleteResourceDefaults(ctx context.Context, resource string) error {
	if err := validResource(resource); err != nil {
		return err
	}
	return l.remove(ctx, Scope{Resource: resource})
}

// SetSystemDefaults replaces the limits of everything that has no others. The
// stored mode stays as it is.
func (l *RateLimiter) SetSystemDefaults(ctx context.Context, limits ...Limit) error {
	return l.set(ctx, Scope{}, limits)
}

// SetSystem is SetSystemDefaults and SetOnUnavailable in one write. A mode of ""
// or no limits leave that part as stored; an *InvalidError if there is neither.
func (l *RateLimiter) SetSystem(ctx context.Context, mode OnUnavailable, limits ...Limit) error {
	if mode == "" && len(limits) == 0 {
		return invalid("limits", "", "must not be empty without a mode; give at least one limit, a mode or both")
	}
	if err := mode.validate(); err != nil {
		return err
	}
	if len(limits) > 0 {
		if err := validLimits(limits); err != nil {
			return err
		}
	}
	return l.store(ctx, Config{OnUnavailable: mode, Limits: byName(limits)})
}

// SystemDefaults are the limits of the system by name, and the stored mode, ""
// if none is set.
func (l *RateLimiter) SystemDefaults(ctx context.Context) ([]Limit, OnUnavailable, error) {
	cfg, err := l.get(ctx, Scope{})
	return cfg.Limits, cfg.OnUnavailable, err
}

// DeleteSystemDefaults removes the limits and the mode. ErrNotFound.
func (l *RateLimiter) DeleteSystemDefaults(ctx context.Context) error { return l.remove(ctx, Scope{}) }

// SetOnUnavailable stores what an outage means to limiters and requests that do
// not say so themselves. The limits stay as they are.
func (l *RateLimiter) SetOnUnavailable(ctx context.Context, mode OnUnavailable) error {
	if mode == "" {
		return invalid("on_unavailable", "", `must be "block" or "allow"`)
	}
	return l.SetSystem(ctx, mode)
}

// ResourcesWithDefaults are the resources that have limits, sorted.
func (l *RateLimiter) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	var names []string
	err := guarded(ctx, "resources with defaults", "", "", func() (err error) { names, err = l.repo.ResourcesWithDefaults(ctx); return err })
	return names, err
}

// ResourcesWithLimits are the resources for which some entity has limits of its
// own, sorted; "" stands for an entity's limits for all resources.
func (l *RateLimiter) ResourcesWithLimits(ctx context.Context) ([]string, error) {
	var names []string
	err := guarded(ctx, "resources with limits", "", "", func() (err error) { names, err = l.repo.ResourcesWithLimits(ctx); return err })
	return names, err
}

// EntitiesWithLimits are the ids of entities that have limits of their own for
// a resource, or for all resources if resource is "", sorted.
func (l *RateLimiter) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	if resource != "" {
		if err := validResource(resource); err != nil {
			return failed[string](err)
		}
	}
	return mapped(ctx, "entities with limits", "", resource, l.repo.EntitiesWithLimits(ctx, resource))
}

func entityScope(entity, resource string) (Scope, error) {
	if err := validEntity(entity); err != nil {
		return Scope{}, err
	}
	if resource != "" {
		if err := validResource(resource); err != nil {
			return Scope{}, err
		}
	}
	return Scope{entity, resource}, nil
}

func (l *RateLimiter) set(ctx context.Context, s Scope, limits []Limit) error {
	if err := validLimits(limits); err != nil {
		return err
	}
	return l.store(ctx, Config{Scope: s, Limits: byName(limits)})
}

// byName is a sorted copy, nil of nothing.
func byName(limits []Limit) []Limit {
	return slices.SortedFunc(slices.Values(limits), func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
}

func (l *RateLimiter) store(ctx context.Context, cfg Config) error {
	details := map[string]any{}
	var list []any
	for _, limit := range cfg.Limits {
		list = append(list, map[string]any{
			"name": limit.Name, "capacity": limit.Capacity,
			"refill_amount": limit.Refill, "refill_period_seconds": int64(limit.Period / time.Second),
		})
	}
	if list != nil { // a change of the mode alone leaves the limits
		details["limits"] = list
	}
	if cfg.Scope == (Scope{}) {
		details["on_unavailable"] = nil
		if cfg.OnUnavailable != "" {
			details["on_unavailable"] = string(cfg.OnUnavailable)
		}
	}
	ev, err := l.configEvent("limits_set", cfg.Scope, details)
	if err != nil {
		return err
	}
	return guarded(ctx, "set limits", cfg.Scope.Entity, cfg.Scope.Resource, func() error { return l.repo.SetConfig(ctx, cfg, ev) })
}

func (l *RateLimiter) get(ctx context.Context, s Scope) (Config, error) {
	var cfg Config
	err := guarded(ctx, "limits", s.Entity, s.Resource, func() (err error) { cfg, err = l.repo.Config(ctx, s); return err })
	return cfg, err
}

func (l *RateLimiter) remove(ctx context.Context, s Scope) error {
	ev, err := l.configEvent("limits_deleted", s, map[string]any{})
	if err != nil {
		return err
	}
	return guarded(ctx, "delete limits", s.Entity, s.Resource, func() error { return l.repo.DeleteConfig(ctx, s, ev) })
}

func (l *RateLimiter) configEvent(action string, s Scope, details map[string]any) (AuditEvent, error) {
	switch {
	case s.Entity != "" && s.Resource == "":
		return l.event(action, s.Entity, defaultResource, details)
	case s.Entity != "":
		return l.event(action, s.Entity, s.Resource, details)
	case s.Resource != "":
		return l.event(action, auditResource+s.Resource, s.Resource, details)
	}
	return l.event(action, auditSystem, "", details)
}
