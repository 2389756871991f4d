package repotest

import (
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go"
)

// maxOff is the number of levels that are off at one time, so that most charges
// pass.
const maxOff = 3

// changeSwitch turns a level off, or one that is off on.
func (h *history) changeSwitch() {
	off := h.readSwitches()

	if h.fault != None {
		return
	}

	if len(off) > 0 && (len(off) >= maxOff || !h.chance(3)) {
		h.enable(pick(h.rng, off).Scope)
		return
	}

	now := h.clock()
	s := limiter.Switch{Scope: h.scope(), Reason: pick(h.rng, []string{"", "abuse", "unpaid"}), Since: now}
	// A level without an entity refuses the charges of many, so few of those
	// are off.
	if s.Scope.Entity == "" && !h.chance(4) {
		s.Scope.Entity = pick(h.rng, someEntities)
	}

	ev := h.event(now, "disabled", auditEntity(s.Scope))
	_ = h.change(fmt.Sprintf("%s SetSwitch %v", stamp(now), s), func(repo limiter.Repository) error {
		return repo.SetSwitch(h.ctx, s, ev)
	})
}

// enable turns a level on, or at times one that is not off.
func (h *history) enable(of limiter.Scope) {
	if h.chance(10) {
		of = h.scope()
	}

	ev := h.event(h.clock(), "enabled", auditEntity(of))
	_ = h.change(fmt.Sprintf("DeleteSwitch %v", of), func(repo limiter.Repository) error {
		return repo.DeleteSwitch(h.ctx, of, ev)
	})
}

// readSwitches compares the levels that are off.
func (h *history) readSwitches() []limiter.Switch {
	h.note("Switches")

	all, _ := both(h, "Switches", func(_ int, repo limiter.Repository) ([]limiter.Switch, error) {
		return toSlice(repo.Switches(h.ctx))
	})
	return all[0]
}

// lastSwitch compares the state that an outage would use, after a charge that read
// it.
func (h *history) lastSwitch(charge limiter.Charge, err error) {
	// A namespace that is gone has no state, and a lost answer leaves it open
	// which one was read.
	if h.fault != None || !h.chance(4) || errors.Is(err, limiter.ErrNotFound) {
		return
	}

	var seen [2]*limiter.Switch
	for i, repo := range h.where.repos {
		seen[i] = repo.LastSwitch(charge.Entity, charge.Resource)
	}

	compareAnswers(h, "LastSwitch", seen, [2]error{})
}
