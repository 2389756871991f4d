package repotest

import (
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// topUpKey identifies a top-up that a history has made.
type topUpKey struct {
	in               *pair
	entity, resource string
	id               string
}

// fill resets or tops up a bucket, often the one charged last.
func (h *history) fill() {
	now, of := h.clock(), h.last

	if of == (limiter.Scope{}) || h.chance(4) {
		of = limiter.Scope{Entity: pick(h.rng, someEntities), Resource: pick(h.rng, someResources)}
	}

	f := limiter.Fill{Entity: of.Entity, Resource: of.Resource}
	if h.chance(6) {
		f.Defaults = h.limits()
	}

	names := h.rng.Perm(len(someLimits))[:h.rng.IntN(len(someLimits))]
	action := "bucket_reset"

	if h.chance(3) {
		for _, i := range names {
			f.Limits = append(f.Limits, someLimits[i])
		}
	} else {
		action, f.ID = "bucket_topped_up", h.topUpID(now, of)
		f.Amounts = limiter.Tokens(pick(h.rng, someLimits), 1+h.rng.Int64N(30))
		for _, i := range names {
			f.Amounts = f.Amounts.And(someLimits[i], 1+h.rng.Int64N(30))
		}
	}

	if h.lastTopUp.ID != "" && h.where == h.toppedUp && h.chance(4) {
		// A repetition has no effect while the store remembers the ID.
		f, action = h.lastTopUp, "bucket_topped_up"
		if h.soonForgotten(now, topUpKey{h.where, f.Entity, f.Resource, f.ID}) {
			return
		}
	} else if f.ID != "" {
		h.lastTopUp, h.toppedUp = f, h.where
	}

	ev := h.event(now, action, f.Entity)
	h.note("%s Fill %s %s %v %s %q %v", stamp(now), f.Entity, f.Resource, f.Limits, f.Amounts, f.ID, f.Defaults)
	_, _ = both(h, "Fill", func(_ int, repo limiter.Repository) (bool, error) { return repo.Fill(h.ctx, now, f, ev) })

	if h.fault == Before {
		return
	}

	seen := [2]bool{h.observed[0].filled, h.observed[1].filled}
	compareAnswers(h, "what Fill did", seen, [2]error{h.observed[0].fillErr, h.observed[1].fillErr})
	h.filled(now, f)
}

// topUpID returns one of few IDs, so that repetitions are common. It returns a new
// one for an ID that is about to be forgotten, which a store may do within a second.
func (h *history) topUpID(now time.Time, of limiter.Scope) string {
	key := topUpKey{
		h.where, of.Entity, of.Resource,
		fmt.Sprintf("%s-%d", pick(h.rng, []string{"a", "b", "c"}), h.deletions),
	}
	if h.soonForgotten(now, key) {
		return fmt.Sprintf("new-%d", h.events)
	}
	return key.id
}

// soonForgotten reports whether the stores may differ about a top-up.
func (h *history) soonForgotten(now time.Time, key topUpKey) bool {
	used, known := h.topUps[key]
	// The clocks of the two clients differ by at most twice maxSkew, and a
	// store may keep whole seconds. Within that, either answer is right.
	age := now.Sub(used) - limiter.TopUpLife
	return known && age.Abs() < 2*maxSkew+time.Second
}

// filled records the effect of a Fill that both repositories have executed.
func (h *history) filled(now time.Time, f limiter.Fill) {
	if err := h.observed[0].fillErr; err != nil {
		if _, disabled := errors.AsType[*limiter.DisabledError](err); disabled {
			h.fail("Fill is refused by a switch: %v", err)
		}
		return
	}

	if f.ID != "" {
		key := topUpKey{h.where, f.Entity, f.Resource, f.ID}
		used, known := h.topUps[key]
		// A repetition within the life of the ID does nothing. Every other
		// top-up has its effect.
		if repeated := known && now.Sub(used) < limiter.TopUpLife; repeated == h.observed[0].filled {
			h.fail("Fill: top-up %s is carried out: %v; it was made before: %v, at %s", f.ID, h.observed[0].filled,
				known, stamp(used))
		}

		if !h.observed[0].filled {
			return
		}
		h.topUps[key] = now
	} else if !h.observed[0].filled {
		h.fail("Fill: a reset is not carried out")
	}

	// The read for the oracle is no part of the history, so it does not fail.
	fault := h.fault
	h.fault = None
	buckets, err := toSlice(h.where.repos[0].Buckets(h.ctx, now, limiter.Scope{Entity: f.Entity, Resource: f.Resource}))
	h.fault = fault

	if err == nil && len(buckets) == 1 {
		h.oracle.fill(h, now, f, buckets[0])
	}
}
