package repotest

import (
	"fmt"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

var (
	someEntities  = []string{"alice", "bob", "carol", "key-1", "key-2", "key-3", "team"}
	someResources = []string{"gpt-4", "claude"}
	someLimits    = []string{"rpm", "tpm", "tpd"}
)

// answer is an outcome without the store's handles.
type answer struct {
	Admitted bool
	Payers   []balance
	Exempt   []string
}

type balance struct {
	Entity, Resource string
	Limits           []limiter.Limit
	Source           limiter.Scope
	Default          bool
	Tokens           []int64
	Ahead            time.Duration
	Detail           *limiter.Detail
}

// spares reports whether the charge spared limit i.
func (b balance) spares(i int) bool {
	return b.Detail != nil && b.Detail.Spared != nil && b.Detail.Spared[i]
}

func balanceOf(b limiter.Bucket, overridden bool) balance {
	// BucketsAt has no account where there is no bucket.
	if b.Account == nil {
		return balance{}
	}

	out := balance{
		b.Account.Entity, b.Account.Resource, b.Account.Limits, b.Account.Source, b.Account.Default, b.Tokens,
		b.Ahead, b.Detail,
	}

	if overridden {
		// The level is undefined for an override.
		out.Source, out.Default = limiter.Scope{}, false
	}
	return out
}

func answerOf(out limiter.Outcome, charge limiter.Charge) answer {
	overridden := charge.Limits != nil
	got := answer{Admitted: out.Admitted, Exempt: out.Exempt}
	for level, b := range out.Payers {
		got.Payers = append(got.Payers, balanceOf(b, overridden && level < 2))
	}
	return got
}

func (h *history) consume() {
	charge := h.charge()
	charge.Late = h.chance(5)
	h.consumeAt(h.clock(), charge)
}

// consumeBetween charges a bucket between changes of its limits, all at one
// time, and then advances the clock. Only the state of the bucket decides how
// it refills.
func (h *history) consumeBetween() {
	now, charge := h.clock(), h.charge()

	h.consumeAt(now, charge)

	for range 2 {
		if payers := h.observed[0].consume.out.Payers; len(payers) > 0 {
			h.setConfigAt(now, payers[0].Account.Source)
		}
		h.consumeAt(now, h.chargeOf(charge.Entity, charge.Resource))
	}

	h.now = h.now.Add(time.Duration(h.rng.Int64N(int64(time.Minute))))
}

// reshape charges a bucket, changes one of its limits and charges that limit, all at
// one time, and then advances the clock. A refill by what the bucket was before would
// be wrong for the limit.
func (h *history) reshape() {
	charge := h.charge()
	// An override would name no level.
	charge.Limits = nil
	h.consumeAt(h.clock(), charge)

	payers := h.observed[0].consume.out.Payers
	if len(payers) == 0 {
		return
	}
	account := payers[0].Account

	after := h.limitsOf(someLimits)
	at := h.rng.IntN(len(after))
	before := h.shapeBefore(after, at)

	of, borrowed := account.Source, account.Source.Entity == ""
	// A level that others share keeps its limits. A level of the entity alone
	// comes before it.
	if borrowed {
		of = limiter.Scope{Entity: charge.Entity}
	}

	h.putConfig(h.clock(), limiter.Config{Scope: of, Limits: before})

	// The pause is longer than the skew of the clocks, so no clock is behind
	// the bucket's own time afterwards.
	h.now = h.now.Add(2 * maxSkew)

	now := h.clock()
	charge.Amounts = h.partOf(before[min(at, len(before)-1)])
	h.consumeAt(now, charge)

	h.putConfig(now, limiter.Config{Scope: of, Limits: after})
	charge.Amounts = h.partOf(after[at])
	h.consumeAt(now, charge)

	h.now = h.now.Add(10*time.Second + time.Duration(h.rng.Int64N(int64(time.Minute))))

	if borrowed && h.chance(2) {
		h.consumeAt(h.clock(), charge)
		h.deleteConfigAt(h.clock(), of)
	}
}

// partOf returns an amount that a full limit covers.
func (h *history) partOf(l limiter.Limit) limiter.Amounts {
	return limiter.Tokens(l.Name, 1+h.rng.Int64N(l.Capacity))
}

// consumeAt charges both repositories.
func (h *history) consumeAt(now time.Time, charge limiter.Charge) {
	h.note("%s Consume %s", stamp(now), noted(charge))
	_, err := both(h, "Consume", func(_ int, repo limiter.Repository) (answer, error) {
		out, err := repo.Consume(h.ctx, now, charge)
		return answerOf(out, charge), err
	})

	h.leases = append(h.leases, h.consumed(now, charge, err)...)
	h.lastSwitch(charge, err)
}

func noted(c limiter.Charge) string {
	text := fmt.Sprintf("%s %s %s %v %v", c.Entity, c.Resource, c.Amounts, c.Limits, c.Defaults)

	if c.Strict {
		text += " strict"
	}
	if c.Late {
		text += " late"
	}
	return text
}

// consumed checks the charges of both repositories against the limits. It
// returns the payments of the accounts. If the answer was lost, the caller got
// err instead, and consumed returns none.
func (h *history) consumed(now time.Time, charge limiter.Charge, err error) (parts []*lease) {
	if h.fault == Before {
		return nil
	}

	first, second := h.observed[0].consume, h.observed[1].consume
	done := checkObserved(h, "what Consume did", charge, first, second)
	parts = h.entered(now, charge, done, first, second)

	// The caller got an error, so it has nothing to give back, although the
	// bucket may have paid.
	if err != nil {
		return nil
	}
	return parts
}

// entered enters what a charge did, and returns the payments of the accounts.
func (h *history) entered(now time.Time, charge limiter.Charge, done answer, first, second result) (parts []*lease) {
	h.oracle.outcome(h, now, charge, done, first.err)
	if first.err == nil && done.Admitted {
		h.checkChain(charge, done)
	}
	for _, b := range done.Payers {
		h.charged[entityKey{h.where, b.Entity}] = true
	}

	if first.err == nil && done.Admitted {
		for i := range first.out.Payers {
			parts = h.part(parts, charge.Amounts, first.out.Payers[i], second.out.Payers[i])
		}
	}
	return parts
}

// checkObserved compares the recorded outcomes of both repositories and
// returns their answer.
func checkObserved(h *history, what string, charge limiter.Charge, first, second result) answer {
	h.Helper()

	seen := [2]answer{answerOf(first.out, charge), answerOf(second.out, charge)}
	compareAnswers(h, what, seen, [2]error{first.err, second.err})
	return seen[0]
}

func (h *history) part(parts []*lease, amounts limiter.Amounts, first, second limiter.Bucket) []*lease {
	if first.Account == nil {
		return parts
	}

	l := &lease{
		in: h.where, accounts: [2]*limiter.Account{first.Account, second.Account}, amounts: amounts,
		spared: sparedOf(first),
	}

	if l.record = h.oracle.records[keyOf(h.where, first.Account)]; l.record != nil {
		l.expiry = l.record.expiry
	}
	return append(parts, l)
}

// sparedOf returns the names of the limits that a charge spared.
func sparedOf(b limiter.Bucket) (names []string) {
	if b.Detail == nil {
		return nil
	}
	for i, spared := range b.Detail.Spared {
		if spared {
			names = append(names, b.Account.Limits[i].Name)
		}
	}
	return names
}

// credit gives back a part of a lease, takes more, or both.
func (h *history) credit() {
	if len(h.leases) == 0 {
		return
	}
	i := h.rng.IntN(len(h.leases))
	l := h.leases[i]

	if len(h.leases) > 50 || h.chance(2) {
		h.leases = slices.Delete(h.leases, i, i+1)
	}

	h.where = l.in

	var amounts limiter.Amounts
	for limit, n := range l.amounts.All() {
		switch h.rng.IntN(4) {
		case 0: // give back all of it
			amounts = amounts.And(limit, n)
		case 1:
			amounts = amounts.And(limit, h.rng.Int64N(n+1))
		case 2: // the estimate was too low
			amounts = amounts.And(limit, -h.rng.Int64N(3*n+2))
		}
	}

	now := h.clock()
	h.note("%s Credit %s %s %s, spared %v", stamp(now), l.accounts[0].Entity, l.accounts[0].Resource, amounts, l.spared)
	_, err := both(h, "Credit", func(side int, repo limiter.Repository) (struct{}, error) {
		return struct{}{}, repo.Credit(h.ctx, now, limiter.Credit{
			Account: l.accounts[side], Amounts: amounts, Spared: l.spared,
		})
	})

	// A credit whose answer was lost was executed. One for a deleted entity has
	// no effect.
	if !l.gone && (err == nil || h.fault == After) {
		h.oracle.credit(h, l, now, amounts, l.spared)
	}
}

// charge returns a random charge: mostly small, at times for nothing, for too
// much, or for a limit that does not exist.
func (h *history) charge() limiter.Charge {
	if h.last == (limiter.Scope{}) || !h.chance(3) {
		h.last = limiter.Scope{Entity: pick(h.rng, someEntities), Resource: pick(h.rng, someResources)}
	}
	return h.chargeOf(h.last.Entity, h.last.Resource)
}

// chargeOf returns a random charge of an entity for a resource.
func (h *history) chargeOf(entity, resource string) limiter.Charge {
	c := limiter.Charge{Entity: entity, Resource: resource}

	for _, i := range h.rng.Perm(len(someLimits))[:1+h.rng.IntN(2)] {
		n := h.rng.Int64N(12)
		if h.chance(40) {
			n = h.rng.Int64N(1000)
		}
		c.Amounts = c.Amounts.And(someLimits[i], n)
	}

	if h.chance(15) && h.overrides {
		c.Limits = h.limits()
	}

	if h.chance(6) {
		c.Defaults = h.limits()
	}

	c.Strict = h.chance(25)
	return c
}

func stamp(t time.Time) string { return t.Format("2006-01-02T15:04:05.000") }
