package escrow

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// fly serves the queue, one request at a time, until it is empty.
func (p *pot) fly(store limiter.Repository) {
	for {
		f := p.board(store)
		if f == nil {
			return
		}
		f.run()
	}
}

// board starts the next request. It serves callers that the pot covers by now, and
// returns nil if no other caller is left.
func (p *pot) board(store limiter.Repository) *flight {
	p.mu.Lock()
	defer p.mu.Unlock()

	var batch []*waiter
	claims := make([]int64, len(p.slots))

	queue := p.queue
	p.queue = nil
	for i, w := range queue {
		switch {
		case w.over.Load(): // the caller has left
		// The first answer tells the pot its accounts. The others wait for it,
		// and may share the next request.
		case p.payers == nil:
			p.queue = queue[i+1:]
			return &flight{pot: p, store: store, batch: []*waiter{w}}
		case !p.serves(&w.charge):
			w.answer(result{alone: true})
		// Once a caller needs a request, what the pot holds is reserved for it.
		// A later caller with a smaller charge must not overtake it.
		case len(batch) == 0 && p.serve(w):
		case p.refuse(w, claims):
		default:
			batch = append(batch, w)
			// What earlier callers claim is not there for later ones: 20 tokens
			// cover two charges of 8, and not three.
			for j, n := range p.amounts(&w.charge.Amounts) {
				claims[j] = bucket.Add(claims[j], n)
			}
		}
	}

	if len(batch) == 0 {
		p.flying = false
		// Changes of limits wait in drain.
		if p.landed != nil {
			close(p.landed)
			p.landed = nil
		}
		return nil
	}

	return &flight{pot: p, store: store, batch: batch}
}

// serve answers a waiter from the pot, if that covers its charge.
func (p *pot) serve(w *waiter) bool {
	t := w.tick(p.machine())
	p.expire(t)

	out, ok := p.spend(&w.charge, t)
	if !ok {
		return false
	}

	// A caller that has left in the meantime must not pay.
	if !w.answer(result{outcome: out}) {
		p.putBack(w)
		p.local--
	}
	return true
}

// refuse answers a waiter, if the last refusal proves that its charge does not fit
// after the claims of others.
func (p *pot) refuse(w *waiter, claims []int64) bool {
	t := w.tick(p.machine())
	switch refused, through := p.refuses(&w.charge, t, claims); {
	case refused:
		w.answer(result{outcome: p.refuseLocally(&w.charge, t, claims)})
	case through:
		w.answer(result{through: true})
	default:
		return false
	}

	return true
}

// putBack deposits what a caller that left has taken from the pot.
func (p *pot) putBack(w *waiter) {
	for i := range w.charge.Amounts.Len() {
		name, n := w.charge.Amounts.At(i)
		p.deposit(p.slot(name, i), n)
	}
}

// flight is one batch of callers and the requests on their behalf.
type flight struct {
	*pot
	store    limiter.Repository
	batch    []*waiter
	now      time.Time // the latest of the callers
	at       tick      // when the last debit was sent
	reserved []int64   // from the pot, by slot
	claims   []claim   // the grants that reserved comes from
	granted  []int64   // from the store, by slot
	extra    []int64   // to take beyond the need of the callers, by slot
	clear    []bool    // slots that are not in debt
	windows  windows   // of granted
	moved    bool      // the accounts have changed
	last     limiter.Outcome
	err      error
}

// claim is a number of tokens of a slot that a flight has reserved.
type claim struct {
	grant *grant
	slot  int
	n     int64
}

// maxRounds bounds the requests of one flight. After a refusal, the balances of
// the answer decide which callers the next request is for.
const maxRounds = 3

// run makes the requests of the flight and answers its callers.
func (f *flight) run() {
	// A request has one time: the latest, since no charge can take effect
	// before the request is sent.
	machine := f.machine()
	for _, w := range f.batch {
		if now := w.later(machine); f.now.Before(now) {
			f.now = now
		}
	}

	ctx, cancel := f.context()
	defer cancel()

	// Only a flight sets the accounts, and there is one at a time, so this read
	// needs no lock.
	if f.payers == nil {
		f.introduce(ctx)
		return
	}

	charge := f.prepare()
	for round := 1; charge.Amounts.Len() > 0 && round <= maxRounds; round++ {
		out, err := f.send(ctx, charge)
		// Each of these answers or queues all callers, so nothing is left to learn
		// or to share.
		if f.landDisabled(err) || f.landSpared(&out, err) || f.strange(charge, &out, err) {
			return
		}
		charge = f.learn(charge, &out, err, round)
	}

	f.finish(ctx)
}

func (f *flight) send(ctx context.Context, charge limiter.Charge) (limiter.Outcome, error) {
	f.requests.Add(1)
	f.at = tick{f.now.UnixMilli(), f.machine()}
	out, err := f.store.Consume(ctx, f.now, charge)
	f.roundTrip = f.machine() - f.at.machine // only a flight uses it

	return out, err
}

// introduce sends the first charge of a pot as it is, to learn its accounts.
func (f *flight) introduce(ctx context.Context) {
	w := f.batch[0]
	out, err := f.send(ctx, w.charge)

	f.mu.Lock()
	defer f.mu.Unlock()

	// A refusal may leave out ancestors, so it does not show the accounts.
	if err == nil && out.Admitted {
		f.defaults = slices.Clone(w.charge.Defaults)
		f.adopt(&out)
		f.see(f.at, &out)
	}

	switch {
	case err != nil:
		w.answer(result{err: err})
		// In an outage, each caller in the queue would otherwise wait for a
		// failing request of its own.
		f.failQueue(ctx, err)
	case !out.Admitted:
		w.answer(result{outcome: f.withOthers(out, &w.charge.Amounts, f.pot)})
		f.refuseQueue(f.at.now, &out)
	default:
		f.deliver(&out)
	}
}

// amounts returns amounts by slot. It leaves out limits that the accounts lack.
func (a *accounts) amounts(of *limiter.Amounts) []int64 {
	n := make([]int64, len(a.slots))
	for i := range of.Len() {
		name, tokens := of.At(i)
		if j := a.slot(name, i); j >= 0 {
			n[j] = tokens
		}
	}
	return n
}

// spend counts amounts as spent.
func (f *flight) spend(amounts *limiter.Amounts) {
	for j, n := range f.amounts(amounts) {
		f.spent[j].add(f.elapsed, f.hold, n)
	}
}

// giveBack has tokens returned that a flight took and does not need.
func (f *flight) giveBack(a *accounts, tokens []int64) {
	f.janitor.give(&grant{
		accounts: *a, windows: f.windows, pots: f.pots, store: f.store, at: f.at, held: tokens, ended: true,
	})
}

// adopt makes the accounts of an answer those of the pot.
func (p *pot) adopt(out *limiter.Outcome) {
	// What the pot holds was taken from the old accounts, and goes back to
	// them.
	p.endAll()

	payers := make([]*limiter.Account, len(out.Payers))
	for i := range out.Payers {
		payers[i] = out.Payers[i].Account
	}

	p.accounts = newAccounts(payers, p.maxHold)
	p.held, p.oldest = make([]int64, len(p.slots)), make([]int, len(p.slots))
	p.spent, p.back = make([]spending, len(p.slots)), make([]spending, len(p.slots))
	p.image, p.refusal = image{payers: make([]balances, len(payers))}, refusal{}
}

// learn records an answer. It returns the next charge if another request can admit
// more callers, and an empty one otherwise.
func (f *flight) learn(charge limiter.Charge, out *limiter.Outcome, err error, round int) limiter.Charge {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.err = err
	if err != nil {
		// After an error it is unknown whether the store debited anything, so
		// nothing of it may be spent.
		f.dropExtra()
		return limiter.Charge{}
	}

	f.last = *out
	changed := !f.same(out)

	// A refusal by other accounts is about a single caller here, since strange
	// has sent the others back to the queue. The pot's grants belong to the old
	// accounts.
	if changed && !out.Admitted {
		f.dropExtra()
		f.endAll()
		return limiter.Charge{}
	}

	// Windows are in the order of the limits, so those of other accounts say
	// nothing about a step.
	stepped := !changed && f.stepped(out)
	switch {
	case changed:
		f.move(out)
	case stepped:
		f.step()
	}

	f.see(f.at, out)

	callers, hadExtra := f.batch, false
	if out.Admitted {
		f.windows = windowsOf(out)
		for j, n := range f.amounts(&charge.Amounts) {
			f.granted[j] += n
		}

		// A limit that covered an amount, even one of 0, is not in debt.
		for i := range charge.Amounts.Len() {
			name, _ := charge.Amounts.At(i)
			if j := f.slot(name, i); j >= 0 {
				f.clear[j] = true
			}
		}

		// The flight has kept all that it had, so this request was enough for
		// all callers that it was for. Where it gave something up, it has to
		// ask for that again.
		if !changed && !stepped {
			return limiter.Charge{}
		}
	} else {
		// The callers alone may fit without the extra.
		hadExtra = f.dropExtra()
	}

	fitting := f.fitting(callers)

	// If all callers seem to fit and nothing was given up, the store would only
	// refuse the same charge again. After a second refusal the flight gives up:
	// other processes take the tokens faster.
	if !changed && !stepped && !hadExtra && (round > 1 || len(fitting) == len(callers)) {
		return limiter.Charge{}
	}

	return f.charge(f.need(fitting))
}

// strange reports whether an answer comes from other accounts than the pot's and
// admits nothing: a refusal, or an error about a limit that is gone. Such an answer
// to a shared charge says nothing about each caller, so strange queues them all
// again, and the next flight learns the accounts.
func (f *flight) strange(charge limiter.Charge, out *limiter.Outcome, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()

	// The answer to a caller's own charge is that caller's answer in any case.
	if len(f.batch) == 1 && charge.Amounts.Equal(f.batch[0].charge.Amounts) {
		return false
	}

	// Only an unknown limit or a refusal by other accounts shows that the pot's
	// accounts are out of date. An admission by others moves the pot instead,
	// in learn.
	if _, invalid := errors.AsType[*limiter.InvalidError](err); !invalid && (err != nil || out.Admitted ||
		f.same(out)) {
		return false
	}

	f.dropExtra()
	f.unclaim(f.reserved)
	f.giveBack(&f.accounts, f.granted)
	f.endAll()

	// Without accounts, the next flight sends one charge as it is and learns
	// them.
	f.accounts, f.refusal = accounts{}, refusal{}

	// From here on the callers count as having waited, so that their charges
	// carry the time at which they are sent.
	for _, w := range f.batch {
		w.queued = true
	}
	f.queue = append(f.batch, f.queue...)
	return true
}

// move replaces the accounts of the pot by those of an admission. What the flight
// has from the old accounts goes back to them. The extra stays within the bounds
// of the new ones.
func (f *flight) move(out *limiter.Outcome) {
	old, extra := f.accounts, slices.Clone(f.extra)

	// The reservation of the extra was made in the names of the old accounts.
	f.dropExtra()
	f.unclaim(f.reserved)
	f.giveBack(&f.accounts, f.granted)

	f.adopt(out)
	f.reset()
	f.moved = true
	f.see(f.at, out)

	// The store has debited the extra from the new accounts, but their pot has
	// spent nothing before this call, so the extra is bounded again. The rest
	// goes back.
	spent, _ := f.need(f.batch)
	for i, n := range extra {
		if j := f.slot(old.slots[i].name, i); j >= 0 && f.hold > 0 && !f.nearEmpty(j, 0, f.at.now) {
			f.extra[j] = f.borrow(j, min(n, spent[j], f.left(j, f.at.now)/share))
		}
	}
}

// unclaim puts reserved tokens back into their grants.
func (f *flight) unclaim(tokens []int64) {
	// The oldest claims are spent first, so what is left belongs to the newest.
	for _, c := range slices.Backward(f.claims) {
		n := min(c.n, tokens[c.slot])
		if n == 0 {
			continue
		}

		tokens[c.slot] -= n
		if !c.grant.ended {
			// A grant that is still in the pot takes its tokens back. That may
			// make an older grant hold tokens again, so take has to start at
			// the first.
			f.put(c.grant, c.slot, n)
			f.oldest[c.slot] = 0
			continue
		}

		// The grant ended while the flight had its tokens. They go back as the
		// others of the grant did: with its windows, and by its deadline.
		late := make([]int64, len(c.grant.held))
		late[c.slot] = n
		f.janitor.give(&grant{
			accounts: c.grant.accounts, windows: c.grant.windows, pots: f.pots, store: c.grant.store, at: c.grant.at,
			held: late, ended: true, late: c.grant.late, seen: c.grant.seen,
		})
	}
}

// fitting returns the callers that the flight can serve with what it has and what
// the store has left by its last answer. Callers that came first go first.
func (f *flight) fitting(callers []*waiter) (fit []*waiter) {
	have := make([]int64, len(f.slots))
	for j := range have {
		have[j] = f.reserved[j] + f.granted[j] + f.left(j, f.at.now)
	}

	for _, w := range callers {
		// The accounts may have changed, and lack a limit of this charge.
		if f.serves(&w.charge) && f.pay(have, w, false) {
			fit = append(fit, w)
		}
	}
	return fit
}

// pay takes the charge of a caller from tokens, or nothing. If strict is set, an
// amount of 0 needs proof that the limit is not in debt.
func (f *flight) pay(tokens []int64, w *waiter, strict bool) bool {
	amounts := &w.charge.Amounts
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		j := f.slot(name, i)
		// A limit in debt refuses an amount of 0. Tokens at hand or an answer
		// of the store prove that it is not in debt.
		if tokens[j] < n || strict && n == 0 && tokens[j] == 0 && !f.clear[j] {
			return false
		}
	}

	// A second pass, so that a charge that does not fit leaves its tokens to
	// the next caller.
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		tokens[f.slot(name, i)] -= n
	}
	return true
}
