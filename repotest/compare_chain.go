package repotest

import (
	"errors"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// checkChain checks that an admitted charge was paid by the entities that have to pay
// it, by the records and the limits that are stored. It shares no code with the stores.
func (h *history) checkChain(charge limiter.Charge, got answer) {
	h.Helper()

	var reached, want, have []string
	last := limiter.MaxLevels
	for id := charge.Entity; len(reached) < last; {
		if len(reached) < 2 || h.hasOwnLimits(id, charge.Resource) {
			want = append(want, id)
		}
		reached = append(reached, id)

		e, err := h.stored(id)
		if errors.Is(err, limiter.ErrNotFound) || !e.Cascade || slices.Contains(reached, e.Parent) {
			break
		}
		// A record of an older release passes charges to the parent and no further.
		if e.Generation == 0 {
			last = min(last, len(reached)+1)
		}
		id = e.Parent
	}

	for _, b := range got.Payers {
		have = append(have, b.Entity)
	}
	if !slices.Equal(want, have) {
		h.fail("a charge of %s was paid by %v, and the stored trees and limits say %v", charge.Entity, have, want)
	}
}

// stored returns the record of an entity. The read is no part of the history, so it does
// not fail.
func (h *history) stored(id string) (limiter.Entity, error) {
	h.Helper()
	h.fault = None
	e, err := h.where.repos[0].Entity(h.ctx, id)
	if err != nil && !errors.Is(err, limiter.ErrNotFound) {
		h.fail("Entity %s: %v", id, err)
	}
	return e, err
}

// hasOwnLimits reports whether limits of an entity itself hold for a resource.
func (h *history) hasOwnLimits(id, resource string) bool {
	h.Helper()
	h.fault = None
	for _, s := range []limiter.Scope{{Entity: id, Resource: resource}, {Entity: id}} {
		cfg, err := h.where.repos[0].Config(h.ctx, s)
		if err != nil {
			h.fail("Config %v: %v", s, err)
		}
		if len(cfg.Limits) > 0 {
			return true
		}
	}
	return false
}

// generation returns the generation of a new entity: none at times, as older releases
// and the Python library store it.
func (h *history) generation(ev limiter.AuditEvent) int64 {
	if h.chance(4) {
		return 0
	}
	return ev.At.UnixMilli()
}
