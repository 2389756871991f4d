package llm

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Lease is the lease of a call. Answer attaches the answer to it, and Write reads
// the answer. Commit charges the usage. A lease ends once. All methods are safe
// for concurrent use.
type Lease struct {
	*limiter.Lease
	owner   *Limiter
	entity  string
	request *Request // nil for a call without tokens
	price   Price    // zero if there is none

	budget   budget
	reserved reservation      // zero unless the budget is enforced
	outcome  limiter.Decision // of Acquire

	mu      sync.Mutex
	answer  *Answer
	shares  []share // the first is of the enforced limits of requests and tokens
	settled bool    // the budget has what it gets back
}

// Estimate returns the tokens that Acquire took from limits of tokens, and what it
// reserved of money, which is the most that the call can cost. A shadow limit may
// have taken less, since its own size bounds what it takes.
func (l *Lease) Estimate() Usage {
	u := l.shares[0].estimate
	if l.budget.firm {
		u.Cost = l.reserved.usage.Cost
	}
	return u
}

// MaxOutput returns the maximum of tokens that the caller has to write into the
// request for each answer, or 0 if the request needs none. Acquire reserved money
// for such an answer. [Request.MaxOutputEdits] writes it.
func (l *Lease) MaxOutput() int64 { return l.reserved.maxOutput }

// HoldsMoney reports whether the lease reserved money of an enforced limit.
func (l *Lease) HoldsMoney() bool { return l.budget.firm && l.reserved.usage.Cost > 0 }

// take takes what the lease reserves.
func (l *Lease) take(ctx context.Context, id bucketID) error {
	amounts := l.amounts(func(s *share) Usage { return s.estimate })
	cost := l.reserved.usage.Cost

	// Until the store decides, calls beside this one count the amount as gone,
	// and ask for less.
	l.budget.ask(cost)
	lease, err := l.owner.lim.Acquire(ctx, limiter.Request{Entity: id.entity, Resource: id.resource, Consume: amounts})
	l.budget.ask(-cost)

	// A refusal shows the balance too, from which the next try chooses its
	// amount.
	if refusal, refused := errors.AsType[*limiter.ExceededError](err); refused {
		l.owner.observe(refusal.Decision, time.Now())
	}

	if err != nil {
		return err
	}

	l.Lease, l.outcome = lease, lease.Decision()
	l.owner.observe(l.outcome, time.Now())
	l.budget.reserve(cost)
	return nil
}

// settle ends the reservation of the lease in this process, once.
func (l *Lease) settle(used int64) {
	l.mu.Lock()
	before := l.settled
	l.settled = true
	l.mu.Unlock()

	if !before {
		l.budget.settle(l.reserved.usage.Cost, used)
	}
}

// Rollback ends the lease and gives everything back.
func (l *Lease) Rollback(ctx context.Context) error {
	err := l.Lease.Rollback(ctx)
	l.settle(0)
	return err
}

// charges reports whether the lease is charged to a limit.
func (l *Lease) charges(name string) bool {
	return slices.ContainsFunc(l.shares, func(s share) bool { return s.names.has(name) })
}

// amounts returns the amounts of one call, whose usage may differ between shares.
func (l *Lease) amounts(usage func(*share) Usage) limiter.Amounts {
	var all limiter.Amounts
	for i := range l.shares {
		s := &l.shares[i]
		for limit, n := range s.names.Amounts(1, usage(s)).All() {
			all = all.And(limit, n)
		}
	}
	return all
}

// Answer begins to read an answer with the given Content-Type and
// Content-Encoding, and returns l for a chained Write. Without it, Write expects
// plain JSON.
func (l *Lease) Answer(contentType, encoding string) *Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(contentType, encoding)
	return l
}

func (l *Lease) begin(contentType, encoding string) {
	if l.request != nil {
		l.answer = NewAnswer(l.request.Format, contentType, encoding, &AnswerOptions{MaxBytes: l.owner.opts.MaxBytes})
	}
}

// Write reads the next part of the answer. If Options.Step is set and the text of a
// stream has outgrown what the lease holds, Write takes more from the limits. If they
// have no room, it returns an *limiter.ExceededError, or a *limiter.DisabledError if
// a level is off, and the number of bytes up to the end of the event that did not fit.
// The caller should cut the answer there and commit the lease. Otherwise the error is
// nil.
func (l *Lease) Write(p []byte) (int, error) { return l.WriteContext(context.Background(), p) }

// WriteContext reads the next part of the answer, as Write does, with a context for
// the calls to the store.
func (l *Lease) WriteContext(ctx context.Context, p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.answer == nil {
		l.begin("application/json", "")
	}
	if l.answer == nil {
		return len(p), nil
	}

	if l.owner.opts.Step == 0 || !l.answer.stream {
		return l.answer.Write(p)
	}
	for n := 0; n < len(p); {
		n += l.answer.writeEvent(p[n:])
		if !l.answer.grown {
			// A report at the end of a stream must not cut it: the answer is
			// complete.
			continue
		}
		if err := l.extend(ctx); err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// extend takes the steps by which the answer has outgrown the lease, all or none.
// It takes nothing once the usage is final. An outage does not stop a stream: its
// answer is charged at the end.
func (l *Lease) extend(ctx context.Context) error {
	u, final := l.answer.Usage()
	if final {
		return nil
	}

	var amounts limiter.Amounts
	more := make([]int64, len(l.shares))
	for i := range l.shares {
		s := &l.shares[i]
		more[i] = s.grow(u.Output, l.owner.opts.Step)
		if more[i] == 0 {
			continue
		}
		// A step makes the answer longer, and takes no request and no prompt.
		names := Limits{Total: s.names.Total, Output: s.names.Output, Cost: s.names.Cost}
		cost := s.cost(l.price, s.taken+more[i]) - s.cost(l.price, s.taken)
		for limit, n := range names.Amounts(0, Usage{Output: more[i], Cost: cost}).All() {
			amounts = amounts.And(limit, n)
		}
	}

	if amounts.Len() == 0 {
		return nil
	}

	err := l.Consume(ctx, amounts)
	_, refused := errors.AsType[*limiter.ExceededError](err)
	_, disabled := errors.AsType[*limiter.DisabledError](err)
	if refused || disabled {
		return err
	}

	// Steps that an outage swallowed count as taken too, so that not every
	// event asks the store again. Commit charges them.
	for i := range l.shares {
		l.shares[i].taken += more[i]
	}
	return nil
}

// Usage returns the usage that Commit charges, and reports whether the answer
// reported it. If it did not, the estimate stays: the prompt counts as estimated
// unless the answer reported it, and the answer as estimated unless more of it
// has arrived.
func (l *Lease) Usage() (u Usage, reported bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usage()
}

func (l *Lease) usage() (u Usage, reported bool) {
	u, reported = l.usageOf(&l.shares[0])
	// The second share is the one of an enforced limit of cost.
	if l.budget.firm {
		money, _ := l.usageOf(&l.shares[1])
		u.Cost = money.Cost
	}
	return u, reported
}

// usageOf returns the usage that Commit charges to a share. Tokens of an answer that
// only the total of its usage shows are charged up to the maximum that money was
// reserved for: what has no name could be something else.
func (l *Lease) usageOf(s *share) (Usage, bool) {
	if l.answer == nil {
		return s.estimate, false
	}

	u, complete := l.answer.Usage()
	if most := l.reserved.usage.Output; most > 0 {
		u.Output -= min(l.answer.unnamed, max(0, u.Output-most))
	}
	if complete && l.request.Background && !l.answer.stream {
		// The work goes on, so what it used so far is not the truth.
		u, complete = Usage{Output: u.Output}, false
	}

	price := l.price
	if !complete {
		// Nothing says what the cache did with the prompt, so money keeps the
		// price that was reserved.
		if !l.answer.inputKnown() || l.request.Background {
			u.Input, u.Cached, u.Written = s.estimate.Input, 0, 0
			if s.isMoney() {
				price = price.dearest()
			}
		}
		u.Output = max(u.Output, s.estimate.Output)
	}

	u.Cost = price.charge(u)
	return u, complete
}

// Commit ends the answer and the lease, and charges one request and Usage. It
// remembers the length of a complete answer for later estimates.
func (l *Lease) Commit(ctx context.Context) error {
	l.mu.Lock()
	if l.answer != nil {
		_ = l.answer.Close()
	}

	u, reported := l.usage()
	used := l.amounts(func(s *share) Usage { u, _ := l.usageOf(s); return u })
	l.mu.Unlock()

	// An answer without a usage has no length to learn from.
	if reported && l.request != nil {
		l.owner.averages.learn(l.entity, l.request.Model, float64(u.Output)/float64(max(l.request.Choices, 1)))
	}

	err := l.commit(ctx, used)
	l.settle(u.Cost)
	return err
}

// CommitRequest ends the lease and charges one request, no tokens and no cost, for
// a call that the API refused. APIs count such calls and do not bill them.
func (l *Lease) CommitRequest(ctx context.Context) error {
	err := l.commit(ctx, l.amounts(func(*share) Usage { return Usage{} }))
	l.settle(0)
	return err
}

// commit ends the lease and charges what was used.
func (l *Lease) commit(ctx context.Context, used limiter.Amounts) error {
	// Adjust takes the difference to what the lease holds.
	for limit, n := range l.Consumed().All() {
		used = used.And(limit, -n)
	}
	// The lease has to end, even with an amount that cannot be corrected.
	if err := l.Adjust(used); err != nil {
		return errors.Join(err, l.Lease.Commit(ctx))
	}
	return l.Lease.Commit(ctx)
}
