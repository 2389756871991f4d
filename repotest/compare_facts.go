package repotest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// event is the next audit event, the same for both.
func (h *history) event(now time.Time, action, entity string) limiter.AuditEvent {
	h.events++
	return limiter.AuditEvent{
		ID: fmt.Sprintf("01%024d", h.events), Action: action, Entity: entity, Principal: "compare",
		At: now.Truncate(time.Second), Details: map[string]any{"n": int64(h.events), "list": []any{"a", nil, true}},
	}
}

func (h *history) scope() limiter.Scope {
	return pick(h.rng, []limiter.Scope{
		{},
		{Resource: pick(h.rng, someResources)},
		{Entity: pick(h.rng, someEntities)},
		{Entity: pick(h.rng, someEntities), Resource: pick(h.rng, someResources)},
	})
}

// changed runs a change of facts on both.
func (h *history) changed(what string, call func(repo limiter.Repository) error) error {
	h.note("%s", what)
	_, err := both(h, what, func(_ int, repo limiter.Repository) (struct{}, error) { return struct{}{}, call(repo) })
	h.promise.unsure(h.where)
	return err
}

func (h *history) setConfig() {
	cfg := limiter.Config{Scope: h.scope(), Limits: h.limits()}
	if cfg.Scope == (limiter.Scope{}) && h.chance(2) {
		cfg.OnUnavailable = pick(h.rng, []limiter.OnUnavailable{limiter.Allow, limiter.Block})
		if h.chance(2) {
			cfg.Limits = nil
		}
	}
	ev := h.event(h.clock(), "limits_set", "config")
	what := fmt.Sprintf("%s SetConfig %v", stamp(ev.At), cfg)
	_ = h.changed(what, func(repo limiter.Repository) error { return repo.SetConfig(h.ctx, cfg, ev) })
	h.synced(ev.At, cfg.Scope)
}

// synced is said after limits of an entity and resource changed, which their
// bucket follows at once.
func (h *history) synced(at time.Time, s limiter.Scope) {
	if h.fault == Before || s.Level() != "entity" {
		return
	}
	h.fault = None
	buckets, err := drained(h.where.repos[0].Buckets(h.ctx, at, s))
	if err != nil || len(buckets) == 0 {
		return
	}
	h.promise.synced(h, at, buckets[0].Account)
}

func (h *history) deleteConfig() {
	scope := h.scope()
	ev := h.event(h.clock(), "limits_deleted", "config")
	what := fmt.Sprintf("%s DeleteConfig %v", stamp(ev.At), scope)
	if h.changed(what, func(repo limiter.Repository) error { return repo.DeleteConfig(h.ctx, scope, ev) }) == nil || h.fault == After {
		h.synced(ev.At, scope)
	}
}

func (h *history) createEntity() {
	ev := h.event(h.clock(), "entity_created", pick(h.rng, someEntities))
	e := limiter.Entity{ID: ev.Entity, Name: "n", CreatedAt: ev.At}
	if h.chance(3) {
		e.Metadata = map[string]string{"tier": "gold"}
	}
	if p := pick(h.rng, someEntities); p != e.ID && !h.chance(4) {
		e.Parent, e.Cascade = p, !h.chance(4)
	}
	_ = h.changed(fmt.Sprintf("CreateEntity %v", e), func(repo limiter.Repository) error { return repo.CreateEntity(h.ctx, e, ev) })
}

func (h *history) deleteEntity() {
	now := h.clock()
	ev := h.event(now, "entity_deleted", pick(h.rng, someEntities))
	if h.onlyRemains(now, ev.Entity) {
		return
	}
	what := fmt.Sprintf("%s DeleteEntity %s", stamp(now), ev.Entity)
	_ = h.changed(what, func(repo limiter.Repository) error { return repo.DeleteEntity(h.ctx, ev.Entity, ev) })
	if h.fault == Before {
		return
	}
	h.promise.forget(h.where, ev.Entity)
	delete(h.charged, entityKey{h.where, ev.Entity})
	for _, l := range h.leases {
		if l.in == h.where && l.accounts[0].Entity == ev.Entity {
			l.gone = true
		}
	}
}

// onlyRemains tells whether nothing may be stored of an entity but a bucket that
// has expired. Usage says that there was one; where another program counts it,
// whether the remains are something to delete is for the store to say.
func (h *history) onlyRemains(now time.Time, entity string) bool {
	if h.countsUsage || !h.charged[entityKey{h.where, entity}] {
		return false
	}
	h.fault = None
	repo := h.where.repos[0]
	if _, err := repo.Entity(h.ctx, entity); err == nil {
		return false
	}
	for _, resource := range append([]string{""}, someResources...) {
		if cfg, err := repo.Config(h.ctx, limiter.Scope{Entity: entity, Resource: resource}); err == nil && len(cfg.Limits) > 0 {
			return false
		}
	}
	buckets, err := drained(repo.Buckets(h.ctx, now, limiter.Scope{Entity: entity}))
	return err == nil && len(buckets) == 0
}

func (h *history) readBuckets() {
	now, of := h.clock(), h.scope()
	h.note("%s Buckets %v", stamp(now), of)
	_, _ = both(h, "Buckets", func(_ int, repo limiter.Repository) ([]balance, error) {
		buckets, err := drained(repo.Buckets(h.ctx, now, of))
		var all []balance
		for _, b := range buckets {
			all = append(all, balanceOf(b, false))
		}
		return all, err
	})
}

func (h *history) readUsage() {
	q := limiter.UsageQuery{Entity: pick(h.rng, someEntities), Resource: pick(h.rng, someResources)}
	switch h.rng.IntN(3) {
	case 0:
		q.Entity = ""
	case 1:
		q.Resource = ""
	}
	if h.chance(2) {
		q.Window = pick(h.rng, []limiter.Window{limiter.Hourly, limiter.Daily, limiter.Monthly})
	}
	if h.chance(3) {
		q.From = h.now.Add(-time.Hour)
	}
	if !h.countsUsage {
		return
	}
	h.note("Usage %v", q)
	all, _ := both(h, "Usage", func(_ int, repo limiter.Repository) ([]limiter.UsageSnapshot, error) {
		return drained(repo.Usage(h.ctx, q))
	})
	if q.Window != "" || !q.From.IsZero() || h.fault != None {
		return
	}
	sums := map[limiter.Window]map[string]int64{limiter.Hourly: {}, limiter.Daily: {}, limiter.Monthly: {}}
	for _, s := range all[0] {
		for limit, n := range s.Counters {
			sums[s.Window][limit] += n
		}
	}
	for _, limit := range someLimits {
		if sums[limiter.Hourly][limit] != sums[limiter.Daily][limit] || sums[limiter.Daily][limit] != sums[limiter.Monthly][limit] {
			h.fail("Usage %v: hours, days and months do not add up to the same: %v", q, sums)
		}
	}
}

// readFacts reads one of the things that people store.
func (h *history) readFacts() {
	scope := h.scope()
	entity := pick(h.rng, someEntities)
	h.note("read facts %v %s", scope, entity)
	_, _ = both(h, "Config", func(_ int, repo limiter.Repository) (limiter.Config, error) { return repo.Config(h.ctx, scope) })
	_, _ = both(h, "Entity", func(_ int, repo limiter.Repository) (limiter.Entity, error) { return repo.Entity(h.ctx, entity) })
	for _, parent := range []string{"", entity} {
		_, _ = both(h, "Entities", func(_ int, repo limiter.Repository) ([]limiter.Entity, error) {
			return drained(repo.Entities(h.ctx, parent))
		})
	}
	_, _ = both(h, "ResourcesWithDefaults", func(_ int, repo limiter.Repository) ([]string, error) { return repo.ResourcesWithDefaults(h.ctx) })
	_, _ = both(h, "ResourcesWithLimits", func(_ int, repo limiter.Repository) ([]string, error) { return repo.ResourcesWithLimits(h.ctx) })
	_, _ = both(h, "EntitiesWithLimits", func(_ int, repo limiter.Repository) ([]string, error) {
		return drained(repo.EntitiesWithLimits(h.ctx, scope.Resource))
	})
	_, _ = both(h, "OnUnavailable", func(_ int, repo limiter.Repository) (limiter.OnUnavailable, error) {
		if _, err := repo.Config(h.ctx, limiter.Scope{}); err != nil {
			return "", err // not seen, so what is remembered may be old
		}
		return repo.OnUnavailable(), nil
	})
	_, _ = both(h, "AuditEvents", func(_ int, repo limiter.Repository) ([]limiter.AuditEvent, error) {
		events, err := drained(repo.AuditEvents(h.ctx, entity, ""))
		for i := range events {
			delete(events[i].Details, "records_deleted") // counts what the store has, expired or not
		}
		return events, err
	})
}

// changeNamespace moves a second and a third namespace through their lives.
func (h *history) changeNamespace() {
	h.where = h.main
	name := pick(h.rng, []string{"tenant-a", "tenant-b"})
	now := h.clock()
	var p *pair
	if len(h.spaces) > 0 {
		p = pick(h.rng, h.spaces)
	}
	switch n := h.rng.IntN(6); {
	case n < 2 || p == nil:
		h.registerNamespace(now, name)
	case n < 4:
		_ = h.changed("DeleteNamespace "+name, func(repo limiter.Repository) error { return repo.DeleteNamespace(h.ctx, now, name) })
	case n == 4:
		h.note("RecoverNamespace of %s", p.name)
		_, _ = both(h, "RecoverNamespace", func(side int, repo limiter.Repository) (string, error) {
			space, err := repo.RecoverNamespace(h.ctx, now, p.ids[side])
			return space.Name, err
		})
	default:
		h.note("PurgeNamespace of %s", p.name)
		_, _ = both(h, "PurgeNamespace", func(side int, repo limiter.Repository) (struct{}, error) {
			return struct{}{}, repo.PurgeNamespace(h.ctx, p.ids[side])
		})
	}
	_, _ = both(h, "Namespaces", func(_ int, repo limiter.Repository) ([]string, error) {
		spaces, err := drained(repo.Namespaces(h.ctx))
		var states []string
		for _, s := range spaces {
			if s.DeletedAt.IsZero() {
				states = append(states, s.Name+" active")
			}
		}
		return append(states, fmt.Sprint(len(spaces))), err
	})
}

func (h *history) registerNamespace(now time.Time, name string) {
	h.note("RegisterNamespace %s", name)
	p := &pair{h: h, name: name}
	_, err := both(h, "RegisterNamespace", func(side int, repo limiter.Repository) (string, error) {
		space, err := repo.RegisterNamespace(h.ctx, now, name)
		if err != nil {
			return "", err
		}
		p.ids[side] = space.ID
		p.repos[side], err = repo.Namespace(h.ctx, name)
		return space.Name, err
	})
	known := slices.ContainsFunc(h.spaces, func(other *pair) bool { return other.ids == p.ids })
	if err == nil && !known && len(h.spaces) < 6 {
		h.spaces = append(h.spaces, p)
	}
	_, err = both(h, "Namespace", func(_ int, repo limiter.Repository) (struct{}, error) {
		_, err := repo.Namespace(h.ctx, "nobody")
		return struct{}{}, err
	})
	if h.fault == None && !errors.Is(err, limiter.ErrNotFound) {
		h.fail("Namespace of a name nobody registered: %v", err)
	}
}
