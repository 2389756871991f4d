package escrow

import (
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// share is the part of a bucket, and of a capacity, that may be held: one eighth.
const share = 8

// minHold is the shortest hold. For less, nothing is held: callers' times are in
// milliseconds, so a shorter hold would be over when it begins.
const minHold = time.Millisecond

// minQuotaHold is minHold beside a quota. A store that is busy for a moment misses a
// shorter hold, and nothing refills what a quota loses by that. A rate that fills in
// 2 s has a hold of 20 ms, so with a quota beside it nothing is held.
const minQuotaHold = 100 * time.Millisecond

// pot holds tokens of one bucket and, if its entity cascades, the same tokens of
// the buckets of its ancestors that pay.
type pot struct {
	*pots
	*shard
	key limiter.Scope
	accounts
	exempt   []string        // ancestors that pay nothing, as the last answer named them
	defaults []limiter.Limit // of the charges that it serves
	image    image
	refusal  refusal
	grants   []*grant      // oldest first
	common   period        // in which no hold of a grant has ended
	held     []int64       // by the grants together, by slot
	oldest   []int         // by slot: grants before this index hold nothing
	spent    []spending    // by slot and elapsed time
	back     []spending    // what was put back, by slot and machine time
	latest   tick          // of the charges so far, each clock by itself
	elapsed  time.Duration // by the faster of both clocks

	flying    bool          // a request is under way
	roundTrip time.Duration // of the last request
	queue     []*waiter     // callers of the next request
	landed    chan struct{} // closed when flying ends; nil if nothing waits for that
}

// accounts identifies the payers of a charge and their limits.
type accounts struct {
	// payers are the entity's account, then those of its ancestors, from the parent
	// up. The list is nil while they are unknown, and never changes.
	payers []*limiter.Account
	slots  []slot // the limits of all payers, each name once
	hold   time.Duration
}

// slot is a limit of one or more payers.
type slot struct {
	name   string
	places []place // by payer
}

// place is where a limit is: its index among the limits of a payer.
type place struct{ payer, limit int }

func newAccounts(payers []*limiter.Account, maxHold time.Duration) accounts {
	a := accounts{payers: payers, hold: maxHold}
	least := minHold
	for i, payer := range payers {
		for k, l := range payer.Limits {
			// A limit that several payers have is one slot: a token in it was
			// taken from each of them.
			j := a.slot(l.Name, k)
			if j < 0 {
				j = len(a.slots)
				a.slots = append(a.slots, slot{name: l.Name})
			}

			a.slots[j].places = append(a.slots[j].places, place{i, k})
			if l.IsQuota() {
				least = minQuotaHold
			}
		}
		a.hold = shortestHold(a.hold, payer.Limits)
	}

	if a.hold < least {
		a.hold = 0
	}
	return a
}

// limit returns the limit at a place.
func (a *accounts) limit(at place) *limiter.Limit { return &a.payers[at.payer].Limits[at.limit] }

// shortestHold returns 1 % of the shortest fill time of the rates among limits, and
// at most hold.
func shortestHold(hold time.Duration, limits []limiter.Limit) time.Duration {
	const percent = 100
	for _, l := range limits {
		// The longest fill times, which are in milliseconds, would overflow a
		// Duration.
		fill := min(bucket.FillTime(rules.RateOf(l)), math.MaxInt64/int64(time.Millisecond))
		hold = min(hold, time.Duration(fill)*time.Millisecond/percent)
	}
	return hold
}

// slot returns the index of a limit, or -1. The guess is likely to be right.
func (a *accounts) slot(name string, guess int) int {
	if guess < len(a.slots) && a.slots[guess].name == name {
		return guess
	}
	return slices.IndexFunc(a.slots, func(s slot) bool { return s.name == name })
}

// same reports whether an outcome has these accounts. A refusal may leave out
// ancestors.
func (a *accounts) same(out *limiter.Outcome) bool {
	shown := len(out.Payers)
	if shown == 0 || shown > len(a.payers) || out.Admitted && shown < len(a.payers) {
		return false
	}

	for i, payer := range a.payers[:shown] {
		found := out.Payers[i].Account
		if payer.Ref != found.Ref || !slices.Equal(payer.Limits, found.Limits) {
			return false
		}
	}
	return true
}

// see stores the balances of the answer to a request. The answer has the pot's
// accounts, but the level of their limits may have changed.
func (p *pot) see(at tick, out *limiter.Outcome) {
	// Once a bucket has refused, its later answers count as well: each shows how
	// little is left.
	p.refusal = refusal{p.refusal.known || !out.Admitted, len(out.Payers), at}

	p.exempt = out.Exempt
	// Grants share the list.
	p.payers, p.image.later = slices.Clone(p.payers), nil

	// A refusal may leave out ancestors, whose balances of an earlier answer then
	// stay.
	for i := range out.Payers {
		p.payers[i] = out.Payers[i].Account
		p.image.payers[i] = balancesOf(&out.Payers[i], at.now)
	}
}

// balance returns the thousandths of a limit in the store at now, by the last
// answer.
func (p *pot) balance(at place, now int64) int64 {
	return p.image.payers[at.payer].advanced(at.limit, *p.limit(at), now)
}

// left returns the whole tokens that the store has left of a slot at now, by the
// last answer.
func (p *pot) left(j int, now int64) int64 {
	left := int64(bucket.MaxTokens)
	for _, at := range p.slots[j].places {
		left = min(left, bucket.Whole(p.balance(at, now)))
	}
	return left
}

// idle reports whether the pot can be removed.
func (p *pot) idle(machine time.Duration) bool {
	// The next call of a removed pot has to learn the accounts with a request of its
	// own, and what it spent counts from 0.
	const idleTime = 10 * time.Second
	return len(p.grants) == 0 && !p.flying && len(p.queue) == 0 && machine-p.latest.machine > idleTime
}

// expire advances the pot to a moment and ends the grants whose hold is over.
func (p *pot) expire(t tick) {
	// The first call has no earlier one to measure from.
	if p.latest != (tick{}) {
		// Spending ages by the clock that went further. One that stands still
		// would keep it young, and let the pot hold more.
		p.elapsed += max(t.machine-p.latest.machine, time.Duration(t.now-p.latest.now)*time.Millisecond, 0)
	}

	p.latest = tick{max(t.now, p.latest.now), max(t.machine, p.latest.machine)}

	// As long as the earliest end has not come, no grant has to be checked.
	if p.common.has(t) {
		return
	}

	for i := 0; i < len(p.grants); {
		if g := p.grants[i]; g.over(t) {
			// By the clock of this call, it may be too late to return the
			// tokens, and the window of a quota may be over.
			g.late, g.seen = g.tooLate(t), t.now
			p.end(g)
		} else {
			i++
		}
	}
}

// arrange updates what the pot knows about its grants after one has come or gone.
// common is where the periods of all grants overlap, so that one comparison serves
// for all.
func (p *pot) arrange() {
	clear(p.oldest)
	p.common = period{math.MinInt64, math.MaxInt64, math.MaxInt64}
	for _, g := range p.grants {
		hold := holdFrom(g.at, g.hold)
		p.common = period{
			max(p.common.from, hold.from), min(p.common.until, hold.until, g.until),
			min(p.common.machine, hold.machine),
		}
	}
}

// end takes a grant out of the pot and has its tokens returned.
func (p *pot) end(g *grant) {
	p.grants = slices.DeleteFunc(p.grants, func(other *grant) bool { return other == g })
	p.arrange()

	for j := range g.size {
		p.held[j] -= g.held[j]
		for _, l := range g.loans[j] {
			l.tokens.Add(-g.held[j])
		}

		// The reservation was made for the whole grant, spent tokens included.
		p.release(&g.accounts, j, g.size[j])
	}

	// The flight may still have tokens of this grant. The field keeps it from
	// putting them back here.
	g.ended = true
	p.janitor.give(g)
}

// borrow reserves up to n tokens of a slot from its payers and returns how many.
func (p *pot) borrow(j int, n int64) int64 {
	places := p.slots[j].places
	for i, at := range places {
		lent := p.lend(p.lentKey(at), n, p.limit(at).Capacity)
		// This payer may lend less than those before it. The pot holds no more
		// than that, so they get the rest of their reservations back.
		for _, before := range places[:i] {
			p.unlend(p.lentKey(before), n-lent)
		}
		n = lent
	}
	return n
}

// release ends the reservation of n tokens of a slot.
func (p *pot) release(a *accounts, j int, n int64) {
	for _, at := range a.slots[j].places {
		p.unlend(a.lentKey(at), n)
	}
}

// spend admits a charge if the pot covers it: the pot has to hold every amount,
// and more than 0 of a limit whose amount is 0. The caller has called expire.
func (p *pot) spend(c *limiter.Charge, t tick) (out limiter.Outcome, ok bool) {
	// Only the store can answer a charge of nothing, and other defaults may give the
	// bucket other limits.
	if len(p.grants) == 0 || c.Amounts.Len() == 0 || !slices.Equal(p.defaults, c.Defaults) {
		return out, false
	}

	for i := range c.Amounts.Len() {
		name, n := c.Amounts.At(i)
		j := p.slot(name, i)
		if j < 0 {
			return out, false
		}

		// A pot that holds none of a limit cannot know whether the limit is in
		// debt, and then even an amount of 0 is refused.
		if held := p.held[j]; held == 0 || held < n {
			return out, false
		}
	}

	// A charge takes all amounts or none, so nothing is taken before the last
	// check.
	for i := range c.Amounts.Len() {
		name, n := c.Amounts.At(i)
		p.take(p.slot(name, i), n)
	}

	p.local++
	return p.outcome(true, t.now), true
}

// take spends n tokens of a slot, the oldest first.
func (p *pot) take(j int, n int64) {
	p.spent[j].add(p.elapsed, p.hold, n)
	for n > 0 {
		g := p.grants[p.oldest[j]]
		part := min(n, g.held[j])
		p.put(g, j, -part)
		if n -= part; n > 0 {
			p.oldest[j]++
		}
	}
}

// put changes what a grant holds of a slot by n tokens.
func (p *pot) put(g *grant, j int, n int64) {
	g.held[j] += n
	p.held[j] += n
	if n == 0 {
		return
	}
	for _, l := range g.loans[j] {
		l.tokens.Add(n)
	}
}

// deposit puts up to n tokens of a slot back, within the size of the grants, and
// returns how many.
func (p *pot) deposit(j int, n int64) (kept int64) {
	// The newest grant lasts longest, so tokens that come back go there first.
	for i, g := range slices.Backward(p.grants) {
		// Rule 3 of the package: a grant never holds more than it left over at
		// first.
		part := min(n-kept, g.size[j]-g.held[j])
		p.put(g, j, part)
		if part > 0 {
			// take must not skip an older grant that holds tokens again.
			p.oldest[j] = min(p.oldest[j], i)
		}
		if kept += part; kept == n {
			break
		}
	}

	// Tokens that were put back were not spent after all, so the next grant is
	// smaller.
	p.back[j].add(p.latest.machine, p.hold, kept)
	return kept
}

// netSpent returns at most what was spent of a slot in the last hold, less what was
// put back. What was spent ages by the faster of both clocks, and what was put back
// by the machine's alone. So a clock that is off makes the result smaller, never
// larger.
func (p *pot) netSpent(j int) int64 {
	return p.spent[j].atMost(p.elapsed, p.hold) - p.back[j].atLeast(p.latest.machine, p.hold)
}

// outcome returns the balances at now, with what the pot holds as available.
func (p *pot) outcome(admitted bool, now int64) limiter.Outcome {
	out := limiter.Outcome{
		Admitted: admitted, Payers: cloneBuckets(p.image.buckets(p.payers, now)), Exempt: p.exempt,
	}
	p.show(&out)
	return out
}

// show adds what the pot holds to the balances of an outcome with its accounts.
func (p *pot) show(out *limiter.Outcome) {
	for j := range p.slots {
		held := bucket.Thousandths(p.held[j])
		if held == 0 {
			continue
		}
		for _, at := range p.slots[j].places {
			// A refusal may leave out ancestors.
			if at.payer < len(out.Payers) {
				tokens := &out.Payers[at.payer].Tokens[at.limit]
				*tokens = addUpTo(*tokens, held, *p.limit(at))
			}
		}
	}
}

// addUpTo adds held thousandths to a balance, up to the capacity.
func addUpTo(tokens, held int64, l limiter.Limit) int64 {
	return max(tokens, min(bucket.Add(tokens, held), bucket.Thousandths(l.Capacity)))
}
