package escrow

import (
	"math"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// check checks the books of every account, and the rules of every pot.
func (a *auditor) check() {
	if err := a.escrow.janitor.flush(a.Context()); err != nil {
		a.Error(err)
	}
	held, sizes, below := map[lentKey]int64{}, map[lentKey]int64{}, map[*descendants]int64{}
	eighths := map[lentKey]int64{} // of the capacities
	for _, p := range a.escrow.pots.each() {
		p.mu.Lock()
		sums := make([]int64, len(p.slots))
		for _, g := range p.grants {
			a.checkGrant(p, g)
			for j, n := range g.held {
				sums[j] += n
				for _, at := range g.slots[j].places {
					k := key(g.payers[at.payer], g.slots[j].name)
					held[k] += n
					sizes[k] += g.size[j]
					eighths[k] = g.limit(at).Capacity / share
					if at.payer > 0 {
						a.checkLatest(g, j, at)
					}
				}
				for _, d := range g.loans[j] {
					below[d] += n
				}
			}
		}
		a.checkOldest(p)
		if len(p.slots) > 0 && !slices.Equal(sums, p.held) {
			a.Errorf("%v: holds %v, and its grants %v", p.key, p.held, sums)
		}
		p.mu.Unlock()
	}
	for k, n := range sizes {
		if n > eighths[k] {
			a.Errorf("%v: the grants have %d tokens, more than an eighth of the capacity, %d", k, n, eighths[k])
		}
	}
	a.checkLent(sizes, below)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.countDropped()
	least, most := a.countLost(held)
	for k, paid := range a.paid {
		if paid != a.used[k]+held[k]+a.dropped[k]+a.lost[k] {
			a.Errorf("%v: the store has paid %d tokens; %d were used, %d are held and %d were dropped", k, paid,
				a.used[k], held[k], a.dropped[k]+a.lost[k])
		}
	}
	if n := a.escrow.Stats().Dropped - a.droppedIn; n < least || n > most {
		a.Errorf("%d tokens were dropped and %d to %d lost, and the counter is %d", a.droppedIn, least, most,
			a.droppedIn+n)
	}
	if a.spares != a.spared {
		a.Errorf("the store spared %d charges, and the client saw %d", a.spares, a.spared)
	}
}

// countLost books the tokens of quotas that are gone since the last check, if an
// hour has begun since. It returns the number of lost tokens, with those of a chain
// of payers as one or each by itself: a clock that is ahead begins the windows of
// some buckets earlier.
func (a *auditor) countLost(held map[lentKey]int64) (least, most int64) {
	const apart = 3 * time.Second // the clocks of callers
	now := time.Now()
	begun := now.Add(apart).Truncate(time.Hour).After(a.last.Add(-apart))
	a.last = now
	for k, paid := range a.paid {
		if !a.metered || k.account.Resource != "slow" || k.limit != "rpm" {
			continue
		}
		if missing := paid - a.used[k] - held[k] - a.dropped[k]; missing > a.lost[k] && begun {
			a.lost[k] = missing
		}
		if most += a.lost[k]; k.account.Entity == a.top || k.account.Entity == "alone" {
			least += a.lost[k]
		}
	}
	return least, most
}

// checkOldest checks that no grant is forgotten.
func (a *auditor) checkOldest(p *pot) {
	for j := range p.slots {
		for _, g := range p.grants[:min(p.oldest[j], len(p.grants))] {
			if g.held[j] > 0 {
				a.Errorf("%v: a grant with %d tokens is behind the oldest", p.key, g.held[j])
			}
		}
	}
}

// checkLatest checks that what a grant holds of an ancestor counts, unless a later
// window has begun.
func (a *auditor) checkLatest(g *grant, j int, at place) {
	all := a.escrow.pots
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	k := key(g.payers[at.payer], g.slots[j].name)
	if l := all.lent[k]; g.held[j] > 0 && (l == nil || l.descendants == nil ||
		!slices.Contains(g.loans[j], l.descendants) &&
			windowAt(g.windows[at.payer], at.limit) >= l.descendants.window) {
		a.Errorf("%v: a descendant holds %d tokens, and refusals show %+v", k, g.held[j], l)
	}
}

// checkLent checks the sums of what grants have borrowed, and of what pots hold of
// the latest windows of ancestors.
func (a *auditor) checkLent(sizes map[lentKey]int64, below map[*descendants]int64) {
	all := a.escrow.pots
	all.lentMu.Lock()
	defer all.lentMu.Unlock()
	for k, n := range sizes {
		if l := all.lent[k]; n > 0 && l == nil {
			a.Errorf("%v: the grants have %d tokens, and none are lent", k, n)
		}
	}
	for k, l := range all.lent {
		if l.tokens != sizes[k] {
			a.Errorf("%v: the grants have %d tokens, and %d are lent", k, sizes[k], l.tokens)
		}
		if l.descendants == nil {
			continue
		}
		if n := l.descendants.tokens.Load(); n != below[l.descendants] {
			a.Errorf("%v: descendants hold %d tokens, and refusals show %d", k, below[l.descendants], n)
		}
	}
}

// countDropped books what ended grants could not return, because the clock of a
// caller was ahead by two holds.
func (a *auditor) countDropped() {
	for g := range a.checked {
		if !g.ended {
			continue
		}
		delete(a.checked, g)
		if !g.late {
			continue
		}
		g.seen = math.MinInt64 // all of it was dropped, whatever its windows
		credits, _ := g.credits(math.MinInt64)
		tokens := g.tokens()
		a.droppedIn += tokens
		for _, c := range credits {
			each(c.Amounts, []*limiter.Account{c.Account}, func(k lentKey, n int64) { a.dropped[k] += n })
		}
	}
}

// checkGrant checks the age of a grant, that it is not overfull, and once that it
// is not larger than what was spent.
func (a *auditor) checkGrant(p *pot, g *grant) {
	if age := a.escrow.machine() - g.at.machine; age > g.hold {
		a.Errorf("%v: a grant is %v old, and its hold is %v", p.key, age, g.hold)
	}
	for j := range g.held {
		if g.held[j] < 0 || g.held[j] > g.size[j] {
			a.Errorf("%v: holds %d tokens of a grant of %d", p.key, g.held[j], g.size[j])
		}
		if !a.checked[g] {
			a.checkSize(g, j)
		}
	}
	a.checked[g] = true
}

func (a *auditor) checkSize(g *grant, j int) {
	for _, at := range g.slots[j].places {
		payer := g.payers[at.payer]
		k, l := key(payer, g.slots[j].name), g.limit(at)
		if spent := since(a.spendings[k], g.at.machine-g.hold); at.payer == 0 && g.size[j] > max(0, spent) {
			a.Errorf("%v: a grant leaves %d tokens, but only %d were spent in the last %v", k, g.size[j], spent, g.hold)
		}
		if l.IsQuota() && payer.Entity == "alone" && g.size[j] > 0 {
			a.checkLeft(payer, at.limit, *l)
		}
		if limit := l.Capacity / share; g.size[j] > limit {
			a.Errorf("%v: a grant leaves %d tokens, more than an eighth of the capacity, %d", k, g.size[j], limit)
		}
	}
}

// checkLeft checks that a new grant leaves enough of a quota.
func (a *auditor) checkLeft(account *limiter.Account, i int, l limiter.Limit) {
	out, err := a.Repository.Peek(a.Context(), time.Now(), limiter.Charge{
		Entity: account.Entity, Resource: account.Resource,
	})
	if err != nil {
		a.Fatal(err)
	}
	if left, least := out.Payers[0].Tokens[i]/1000, l.Capacity/share-l.Capacity/share/share; left < least {
		a.Errorf("%s: a grant leaves %d tokens in the store, want at least %d", account.Entity, left, least)
	}
}
