package repotest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// The twins are two entities with the same limits and the same calls. The limits of
// the second are shadow limits: they would refuse exactly what those of the first
// refuse, and hold the same. A call names one limit, since a refusal protects the
// others, and the clock does not go back, since a refused call moves no bucket's
// time.
const twinReal, twinShadow = "twin-real", "twin-shadow"

type twins struct {
	limits []limiter.Limit // of the first; nil until they are set
	would  map[string]int64
	topUps int
	// made reports whether both have buckets, so that a change of limits
	// concerns both.
	made bool
}

// twinAnswer is what a call to both twins says.
type twinAnswer struct {
	Admitted, WouldRefuse bool
	Real, Shadow          []int64 // balances
	RealStarts            []int64
	ShadowStarts          []int64
}

// useTwins makes the same change or the same call to both twins.
func (h *history) useTwins() {
	h.where = h.main
	h.fault = None
	switch {
	case h.twins.limits == nil || h.twins.made && h.chance(15):
		h.setTwins()
	case !h.twins.made:
		h.makeTwins()
	case h.chance(20):
		h.fillTwins(h.chance(2))
	default:
		h.acquireTwins()
	}
}

// without calls both repositories without a fault, and compares the answers.
func without[T any](h *history, what string, call func(side int, repo limiter.Repository) (T, error)) (T, error) {
	h.Helper()
	var values [2]T
	var errs [2]error
	h.fault = None

	for i, repo := range h.where.repos {
		values[i], errs[i] = call(i, repo)
	}

	compareAnswers(h, what, values, errs)
	return values[0], errs[0]
}

// setTwins gives the twins other limits. They are limits of an entity and resource,
// so that no bucket expires. A top-up comes first: it stores the steps of quotas,
// which another window does not take, and a refused call has not stored.
func (h *history) setTwins() {
	if h.twins.limits == nil {
		h.twins = twins{limits: []limiter.Limit{h.rate("rpm"), h.quota("tpd")}, would: map[string]int64{}}
	} else {
		// Only stored steps count, so they are stored before the window
		// changes.
		h.fillTwins(true)

		i := h.rng.IntN(len(h.twins.limits))
		h.twins.limits = slices.Clone(h.twins.limits)
		h.twins.limits[i] = h.vary(h.twins.limits[i]).Enforced()
	}

	shadows := slices.Clone(h.twins.limits)
	for i := range shadows {
		shadows[i] = shadows[i].Shadow()
	}

	for entity, limits := range map[string][]limiter.Limit{twinReal: h.twins.limits, twinShadow: shadows} {
		cfg := limiter.Config{Scope: limiter.Scope{Entity: entity, Resource: model}, Limits: limits}
		ev := h.event(h.now, "limits_set", entity)
		h.note("%s SetConfig %v", stamp(h.now), cfg)

		_, err := without(h, "SetConfig of a twin", func(_ int, repo limiter.Repository) (struct{}, error) {
			return struct{}{}, repo.SetConfig(h.ctx, cfg, ev)
		})
		if err != nil {
			h.fail("SetConfig of a twin: %v", err)
		}
	}
}

// makeTwins makes the buckets of both, unless a level is off.
func (h *history) makeTwins() {
	h.note("%s Consume of the twins", stamp(h.now))

	for _, entity := range []string{twinReal, twinShadow} {
		_, err := without(h, "Consume of the twins", func(_ int, repo limiter.Repository) (bool, error) {
			out, err := repo.Consume(h.ctx, h.now, limiter.Charge{Entity: entity, Resource: model})
			return out.Admitted, err
		})
		h.twins.made = err == nil
	}
}

// fillTwins resets or tops up both.
func (h *history) fillTwins(topUp bool) {
	f := limiter.Fill{Resource: model, Limits: []string{pick(h.rng, h.twins.limits).Name}}

	if topUp {
		h.twins.topUps++
		f.Amounts, f.ID, f.Limits = limiter.Tokens(f.Limits[0],
			1+h.rng.Int64N(30)), fmt.Sprintf("twin-%d", h.twins.topUps), nil
	}

	for _, f.Entity = range []string{twinReal, twinShadow} {
		ev := h.event(h.now, "bucket_reset", f.Entity)
		h.note("%s Fill %s %v %s", stamp(h.now), f.Entity, f.Limits, f.Amounts)

		_, err := without(h, "Fill of a twin", func(_ int, repo limiter.Repository) (bool, error) {
			return repo.Fill(h.ctx, h.now, f, ev)
		})
		if err != nil {
			h.fail("Fill of a twin: %v", err)
		}
	}

	h.checkTwins("after a fill")
}

// acquireTwins makes the same request of both, and ends the leases in the same way.
// The lease of a shadow limit that was spared may do anything.
func (h *history) acquireTwins() {
	limit := pick(h.rng, h.twins.limits).Name
	amounts := limiter.Tokens(limit, h.rng.Int64N(25))

	ends := twinEnds{rollback: h.chance(3), adjust: h.rng.Int64N(30) - amounts.Get(limit)}

	if h.chance(3) {
		ends.adjust = 0
	}

	h.note("%s Acquire of the twins %s, %+v", stamp(h.now), amounts, ends)
	got, err := without(h, "Acquire of the twins", func(_ int, repo limiter.Repository) (twinAnswer, error) {
		return h.acquireTwin(repo, amounts, ends)
	})
	if err != nil {
		// A level that is off refuses both twins.
		if _, disabled := errors.AsType[*limiter.DisabledError](err); !disabled {
			h.fail("Acquire of the twins: %v", err)
		}
		return
	}

	if got.Admitted == got.WouldRefuse {
		h.fail("%s of %v: the limit admits: %v, its shadow would refuse: %v", amounts, h.twins.limits, got.Admitted,
			got.WouldRefuse)
	}

	if got.WouldRefuse {
		h.twins.would[limit]++
	}

	h.sameTwins("after a call", got)
}

// twinEnds says how leases of twins end.
type twinEnds struct {
	rollback bool
	adjust   int64
}

func (h *history) acquireTwin(
	repo limiter.Repository, amounts limiter.Amounts, ends twinEnds,
) (got twinAnswer, err error) {
	lim := h.limiter(repo, func() time.Time { return h.now }, limiter.Charge{})

	var open []*limiter.Lease
	limit, _ := amounts.At(0)

	for _, entity := range []string{twinReal, twinShadow} {
		lease, err := lim.Acquire(h.ctx, limiter.Request{
			Entity: entity, Resource: model, Consume: amounts, OnUnavailable: limiter.Block,
		})
		// A refusal of the first twin is an answer. The limits of the second
		// never refuse.
		if _, refused := errors.AsType[*limiter.ExceededError](err); refused && entity == twinReal {
			continue
		}

		if err != nil {
			return got, err
		}
		open = append(open, lease)

		if entity == twinReal {
			got.Admitted = true
			continue
		}

		for _, s := range lease.Decision().Statuses {
			got.WouldRefuse = got.WouldRefuse || s.WouldRefuse && s.Limit.Name == limit
		}
	}

	for _, lease := range open {
		if err := endTwin(h, lease, limit, ends); err != nil {
			return got, err
		}
	}

	return h.twinBalances(repo, got)
}

func endTwin(h *history, lease *limiter.Lease, limit string, ends twinEnds) error {
	if err := lease.Adjust(limiter.Tokens(limit, ends.adjust)); err != nil {
		return err
	}
	if ends.rollback {
		return lease.Rollback(h.ctx)
	}
	return lease.Commit(h.ctx)
}

// twinBalances adds the balances of both to an answer.
func (h *history) twinBalances(repo limiter.Repository, got twinAnswer) (twinAnswer, error) {
	for _, entity := range []string{twinReal, twinShadow} {
		out, err := repo.Peek(h.ctx, h.now, limiter.Charge{Entity: entity, Resource: model})
		if err != nil {
			return got, err
		}

		var starts []int64
		if out.Payers[0].Detail != nil {
			starts = out.Payers[0].Detail.Starts
		}

		if entity == twinReal {
			got.Real, got.RealStarts = out.Payers[0].Tokens, starts
		} else {
			got.Shadow, got.ShadowStarts = out.Payers[0].Tokens, starts
		}
	}
	return got, nil
}

func (h *history) checkTwins(when string) {
	got, err := without(h, "balances of the twins", func(_ int, repo limiter.Repository) (twinAnswer, error) {
		return h.twinBalances(repo, twinAnswer{})
	})
	if err == nil { // a level may be off
		h.sameTwins(when, got)
	}
}

func (h *history) sameTwins(when string, got twinAnswer) {
	if !slices.Equal(got.Real, got.Shadow) || !slices.Equal(got.RealStarts, got.ShadowStarts) {
		h.fail("%s: limits %v hold %v in windows %v, their shadows %v in %v", when, h.twins.limits, got.Real,
			got.RealStarts, got.Shadow, got.ShadowStarts)
	}
}

// countTwins checks that the usage counts each charge that the shadow limits would
// have refused.
func (h *history) countTwins() {
	if !h.countsUsage || h.twins.limits == nil {
		return
	}
	h.where = h.main

	counted := map[string]int64{}
	_, _ = without(h, "Usage of a twin", func(side int, repo limiter.Repository) ([]limiter.UsageSnapshot, error) {
		all, err := toSlice(repo.Usage(h.ctx, limiter.UsageQuery{Entity: twinShadow, Window: limiter.Monthly}))
		for _, s := range all {
			for limit, n := range s.WouldRefuse {
				// Both sides have the same answer, so one of them is counted.
				if side == 0 {
					counted[limit] += n
				}
			}
		}
		return all, err
	})

	for limit, n := range h.twins.would {
		if counted[limit] != n {
			h.fail("usage counts %d charges that the shadow of %s would have refused, want %d", counted[limit],
				limit, n)
		}
	}
}
