package limiter

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"
)

// Names in audit events that are neither entities nor resources.
const (
	defaultResource = "_default_"  // the limits of an entity for all resources
	auditSystem     = "$SYSTEM"    // the entity of system events
	auditResource   = "$RESOURCE:" // the prefix of the entity of resource events
)

// SetLimits replaces the limits of an entity for a resource. If resource is "",
// they apply to every resource for which the entity has no limits of its own.
//
// The most specific level that holds limits provides all of them. The levels
// are, in this order: entity and resource, entity, resource, system.
func (l *RateLimiter) SetLimits(ctx context.Context, entity, resource string, limits ...Limit) error {
	s, err := entityScope(entity, resource)
	if err != nil {
		return err
	}
	return l.setLimits(ctx, s, limits)
}

// Limits returns the limits stored for exactly this entity and resource, ordered
// by name, or nil if there are none.
func (l *RateLimiter) Limits(ctx context.Context, entity, resource string) ([]Limit, error) {
	s, err := entityScope(entity, resource)
	if err != nil {
		return nil, err
	}
	cfg, err := l.config(ctx, s)
	return cfg.Limits, err
}

// DeleteLimits deletes the limits stored for exactly this entity and resource,
// so that the next level applies. It returns ErrNotFound if there are none.
func (l *RateLimiter) DeleteLimits(ctx context.Context, entity, resource string) error {
	s, err := entityScope(entity, resource)
	if err != nil {
		return err
	}
	return l.deleteConfig(ctx, s)
}

// SetResourceDefaults replaces the limits of a resource for entities without
// limits of their own.
func (l *RateLimiter) SetResourceDefaults(ctx context.Context, resource string, limits ...Limit) error {
	if err := validResource(resource); err != nil {
		return err
	}
	return l.setLimits(ctx, Scope{Resource: resource}, limits)
}

// ResourceDefaults returns the limits stored for a resource, ordered by name, or
// nil if there are none.
func (l *RateLimiter) ResourceDefaults(ctx context.Context, resource string) ([]Limit, error) {
	if err := validResource(resource); err != nil {
		return nil, err
	}
	cfg, err := l.config(ctx, Scope{Resource: resource})
	return cfg.Limits, err
}

// DeleteResourceDefaults deletes the limits of a resource. It returns ErrNotFound
// if there are none.
func (l *RateLimiter) DeleteResourceDefaults(ctx context.Context, resource string) error {
	if err := validResource(resource); err != nil {
		return err
	}
	return l.deleteConfig(ctx, Scope{Resource: resource})
}

// SetSystemDefaults replaces the limits that apply where no other level holds
// any. It does not change the stored mode.
func (l *RateLimiter) SetSystemDefaults(ctx context.Context, limits ...Limit) error {
	return l.setLimits(ctx, Scope{}, limits)
}

// SetSystem combines SetSystemDefaults and SetOnUnavailable in one write. An
// empty mode leaves the stored mode, and no limits leave the stored limits. With
// neither, the error is an *InvalidError.
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

	return l.setConfig(ctx, Config{OnUnavailable: mode, Limits: sortedByName(limits)})
}

// SystemDefaults returns the limits of the system, ordered by name, and the
// stored mode, or "" if none is stored.
func (l *RateLimiter) SystemDefaults(ctx context.Context) ([]Limit, OnUnavailable, error) {
	cfg, err := l.config(ctx, Scope{})
	return cfg.Limits, cfg.OnUnavailable, err
}

// DeleteSystemDefaults deletes the limits of the system and the stored mode. It
// returns ErrNotFound if there are none.
func (l *RateLimiter) DeleteSystemDefaults(ctx context.Context) error {
	return l.deleteConfig(ctx, Scope{})
}

// SetOnUnavailable stores the mode for limiters and requests that set none. It
// does not change the stored limits.
func (l *RateLimiter) SetOnUnavailable(ctx context.Context, mode OnUnavailable) error {
	if mode == "" {
		return invalid("on_unavailable", "", `must be "block" or "allow"`)
	}
	return l.SetSystem(ctx, mode)
}

// ResourcesWithDefaults returns the resources that have limits, sorted.
func (l *RateLimiter) ResourcesWithDefaults(ctx context.Context) ([]string, error) {
	var names []string
	err := callStore(ctx, "resources with defaults", "", "", func() (err error) {
		names, err = l.repo.ResourcesWithDefaults(ctx)
		return err
	})
	return names, err
}

// ResourcesWithLimits returns the resources for which an entity has limits of
// its own, sorted. "" stands for limits of an entity for all resources.
func (l *RateLimiter) ResourcesWithLimits(ctx context.Context) ([]string, error) {
	var names []string
	err := callStore(ctx, "resources with limits", "", "", func() (err error) {
		names, err = l.repo.ResourcesWithLimits(ctx)
		return err
	})
	return names, err
}

// EntitiesWithLimits iterates over the IDs of the entities with limits of their
// own for a resource, in order. If resource is "", it selects limits for all
// resources.
func (l *RateLimiter) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	if resource != "" {
		if err := validResource(resource); err != nil {
			return errorSeq[string](err)
		}
	}
	return translateErrors(ctx, "entities with limits", "", resource, l.repo.EntitiesWithLimits(ctx, resource))
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

func (l *RateLimiter) setLimits(ctx context.Context, s Scope, limits []Limit) error {
	if err := validLimits(limits); err != nil {
		return err
	}
	return l.setConfig(ctx, Config{Scope: s, Limits: sortedByName(limits)})
}

// sortedByName returns a sorted copy, or nil if limits is empty.
func sortedByName(limits []Limit) []Limit {
	return slices.SortedFunc(slices.Values(limits), func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
}

func (l *RateLimiter) setConfig(ctx context.Context, cfg Config) error {
	details := map[string]any{}
	var list []any
	for _, limit := range cfg.Limits {
		list = append(list, limit.details())
	}
	// An event without limits says that only the mode changes.
	if list != nil {
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

	return callStore(ctx, "set limits", cfg.Scope.Entity, cfg.Scope.Resource, func() error {
		return l.repo.SetConfig(ctx, cfg, ev)
	})
}

// details returns the limit as a detail of an audit event.
func (l Limit) details() map[string]any {
	m := map[string]any{
		"name": l.Name, "capacity": l.Capacity,
		"refill_amount": l.Refill, "refill_period_seconds": int64(l.Period / time.Second),
	}

	if l.Window != 0 {
		m["window"] = l.Window.String()
	}
	if l.Zone != "" {
		m["zone"] = l.Zone
	}
	if l.IsShadow {
		m["shadow"] = true
	}
	return m
}

func (l *RateLimiter) config(ctx context.Context, s Scope) (Config, error) {
	var cfg Config
	err := callStore(ctx, "limits", s.Entity, s.Resource, func() (err error) {
		cfg, err = l.repo.Config(ctx, s)
		return err
	})
	return cfg, err
}

func (l *RateLimiter) deleteConfig(ctx context.Context, s Scope) error {
	ev, err := l.configEvent("limits_deleted", s, map[string]any{})
	if err != nil {
		return err
	}
	return callStore(ctx, "delete limits", s.Entity, s.Resource, func() error {
		return l.repo.DeleteConfig(ctx, s, ev)
	})
}

func (l *RateLimiter) configEvent(action string, s Scope, details map[string]any) (AuditEvent, error) {
	switch {
	case s.Entity != "" && s.Resource == "":
		return l.newEvent(action, s.Entity, defaultResource, details)
	case s.Entity != "":
		return l.newEvent(action, s.Entity, s.Resource, details)
	case s.Resource != "":
		return l.newEvent(action, auditResource+s.Resource, s.Resource, details)
	}
	return l.newEvent(action, auditSystem, "", details)
}
