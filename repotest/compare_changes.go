package repotest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// event returns the next audit event, which both repositories store.
func (h *history) event(now time.Time, action, entity string) limiter.AuditEvent {
	h.events++
	return limiter.AuditEvent{
		ID: fmt.Sprintf("01%024d", h.events), Action: action, Entity: entity, Principal: "compare",
		At: now, Details: map[string]any{"n": int64(h.events), "list": []any{"a", nil, true}},
	}
}

// scope returns a random scope, often one of the last charge.
func (h *history) scope() limiter.Scope {
	of := h.last
	if h.chance(2) {
		of = limiter.Scope{Entity: pick(h.rng, someEntities), Resource: pick(h.rng, someResources)}
	}
	return pick(h.rng, []limiter.Scope{{}, {Resource: of.Resource}, {Entity: of.Entity}, of})
}

// change makes a change of limits or entities in both repositories.
func (h *history) change(what string, call func(repo limiter.Repository) error) error {
	h.note("%s", what)
	_, err := both(h, what, func(_ int, repo limiter.Repository) (struct{}, error) { return struct{}{}, call(repo) })
	return err
}

func (h *history) setConfig() { h.setConfigAt(h.clock(), h.scope()) }

func (h *history) setConfigAt(now time.Time, s limiter.Scope) {
	cfg := limiter.Config{Scope: s, Limits: h.limits()}

	if h.chance(2) {
		cfg.Limits = h.varyLimits(cfg.Scope, cfg.Limits)
	}

	if cfg.Scope == (limiter.Scope{}) && h.chance(2) {
		cfg.OnUnavailable = pick(h.rng, []limiter.OnUnavailable{limiter.Allow, limiter.Block})
		// Nil limits leave the stored ones, so that the mode changes alone.
		if h.chance(2) {
			cfg.Limits = nil
		}
	}

	h.putConfig(now, cfg)
}

func (h *history) putConfig(now time.Time, cfg limiter.Config) {
	ev := h.event(now, "limits_set", "config")
	what := fmt.Sprintf("%s SetConfig %v", stamp(ev.At), cfg)
	_ = h.change(what, func(repo limiter.Repository) error { return repo.SetConfig(h.ctx, cfg, ev) })
	h.synced(ev.At, cfg.Scope, true)
}

// synced records that the bucket of an entity and resource has taken over
// limits, which it does at once.
func (h *history) synced(at time.Time, s limiter.Scope, sure bool) {
	// Only limits of an entity and resource reach their bucket at once. Other
	// levels wait for the next charge.
	if h.fault == Before || s.Level() != "entity" {
		return
	}

	// The read for the oracle is no part of the history, so it does not fail.
	h.fault = None
	buckets, err := toSlice(h.where.repos[0].Buckets(h.ctx, at, s))
	if err != nil || len(buckets) == 0 {
		return
	}

	h.oracle.synced(h, at, buckets[0], sure)
}

func (h *history) deleteConfig() { h.deleteConfigAt(h.clock(), h.scope()) }

func (h *history) deleteConfigAt(now time.Time, scope limiter.Scope) {
	ev := h.event(now, "limits_deleted", "config")
	what := fmt.Sprintf("%s DeleteConfig %v", stamp(ev.At), scope)

	err := h.change(what, func(repo limiter.Repository) error { return repo.DeleteConfig(h.ctx, scope, ev) })
	// If the answer was lost, there may have been nothing to delete.
	if err == nil || h.fault == After {
		h.synced(ev.At, scope, err == nil)
	}
}

func (h *history) createEntity() {
	ev := h.event(h.clock(), "entity_created", pick(h.rng, someEntities))
	e := limiter.Entity{
		ID: ev.Entity, Name: "n", CreatedAt: ev.At.Truncate(time.Second), Generation: h.generation(ev),
	}

	if h.chance(3) {
		e.Metadata = map[string]string{"tier": "gold"}
	}

	if p := pick(h.rng, someEntities); p != e.ID && !h.chance(4) {
		e.Parent, e.Cascade = p, !h.chance(4)
	}

	_ = h.change(fmt.Sprintf("CreateEntity %v", e), func(repo limiter.Repository) error {
		return repo.CreateEntity(h.ctx, e, ev)
	})
}

func (h *history) deleteEntity() {
	now := h.clock()
	ev := h.event(now, "entity_deleted", pick(h.rng, someEntities))
	// An expired bucket counts as something to delete or as nothing, so the
	// stores may differ.
	if h.onlyExpiredBucket(now, ev.Entity) {
		return
	}

	what := fmt.Sprintf("%s DeleteEntity %s", stamp(now), ev.Entity)
	_ = h.change(what, func(repo limiter.Repository) error { return repo.DeleteEntity(h.ctx, ev.Entity, ev) })

	// A call that did not arrive deletes nothing, nor does one that finds
	// nothing.
	if h.fault == Before || h.observed[0].deleteErr != nil {
		return
	}

	h.oracle.forget(h.where, ev.Entity)

	// A store may forget the IDs of the entity's top-ups or keep them, so the
	// next ones get new IDs.
	h.deletions++
	h.lastTopUp = limiter.Fill{}

	delete(h.charged, entityKey{h.where, ev.Entity})

	// A lease of a deleted entity gives nothing back, even if a bucket of that
	// name appears later.
	parts := slices.Clone(h.leases)
	for _, l := range h.held {
		parts = append(parts, l.parts...)
	}

	for _, l := range parts {
		if l.in == h.where && l.accounts[0].Entity == ev.Entity {
			l.gone = true
		}
	}
}

// onlyExpiredBucket reports whether an entity may have nothing but an expired
// bucket. DeleteEntity may find such an entity or not, unless usage shows that
// it was charged.
func (h *history) onlyExpiredBucket(now time.Time, entity string) bool {
	if !h.charged[entityKey{h.where, entity}] {
		return false
	}

	h.fault = None
	repo := h.where.repos[0]

	if _, err := repo.Entity(h.ctx, entity); err == nil {
		return false
	}

	for _, resource := range append([]string{""}, someResources...) {
		if cfg, err := repo.Config(
			h.ctx, limiter.Scope{Entity: entity, Resource: resource},
		); err == nil && len(cfg.Limits) > 0 {
			return false
		}
	}

	buckets, err := toSlice(repo.Buckets(h.ctx, now, limiter.Scope{Entity: entity}))
	if err != nil || len(buckets) > 0 || !h.countsUsage {
		return err == nil && len(buckets) == 0
	}

	usage, err := toSlice(repo.Usage(h.ctx, limiter.UsageQuery{Entity: entity}))
	return err == nil && len(usage) == 0
}

// changeNamespace registers, deletes, recovers or purges one of two more
// namespaces.
func (h *history) changeNamespace() {
	h.where = h.main
	name := pick(h.rng, []string{"tenant-a", "tenant-b"})

	now := h.clock()
	var p *pair
	if len(h.namespaces) > 0 {
		p = pick(h.rng, h.namespaces)
	}

	switch n := h.rng.IntN(6); {
	case n < 2 || p == nil:
		h.registerNamespace(now, name)
	case n < 4:
		_ = h.change("DeleteNamespace "+name, func(repo limiter.Repository) error {
			return repo.DeleteNamespace(h.ctx, now, name)
		})
	case n == 4:
		h.note("RecoverNamespace of %s", p.name)
		_, _ = both(h, "RecoverNamespace", func(side int, repo limiter.Repository) (string, error) {
			ns, err := repo.RecoverNamespace(h.ctx, now, p.ids[side])
			return ns.Name, err
		})
	default:
		h.note("PurgeNamespace of %s", p.name)
		_, _ = both(h, "PurgeNamespace", func(side int, repo limiter.Repository) (struct{}, error) {
			return struct{}{}, repo.PurgeNamespace(h.ctx, p.ids[side])
		})
	}

	// Each store makes its own IDs, so only the names and the number of
	// namespaces can agree.
	_, _ = both(h, "Namespaces", func(_ int, repo limiter.Repository) ([]string, error) {
		all, err := toSlice(repo.Namespaces(h.ctx))
		var states []string

		for _, s := range all {
			if s.DeletedAt.IsZero() {
				states = append(states, s.Name+" active")
			}
		}
		return append(states, fmt.Sprint(len(all))), err
	})
}

func (h *history) registerNamespace(now time.Time, name string) {
	h.note("RegisterNamespace %s", name)

	p := &pair{h: h, name: name}
	_, err := both(h, "RegisterNamespace", func(side int, repo limiter.Repository) (string, error) {
		ns, err := repo.RegisterNamespace(h.ctx, now, name)
		if err != nil {
			return "", err
		}
		p.ids[side] = ns.ID
		p.repos[side], err = repo.Namespace(h.ctx, name)
		return ns.Name, err
	})

	// A name that is active keeps its namespace, so the pair may be known
	// already.
	known := slices.ContainsFunc(h.namespaces, func(other *pair) bool { return other.ids == p.ids })
	if err == nil && !known && len(h.namespaces) < 6 {
		h.namespaces = append(h.namespaces, p)
	}

	// A read must not register the name.
	_, err = both(h, "Namespace", func(_ int, repo limiter.Repository) (struct{}, error) {
		_, err := repo.Namespace(h.ctx, "unregistered")
		return struct{}{}, err
	})

	if h.fault == None && !errors.Is(err, limiter.ErrNotFound) {
		h.fail("Namespace of an unregistered name: %v", err)
	}
}
