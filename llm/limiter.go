package llm

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Limiter charges calls of language models. It is safe for concurrent use.
type Limiter struct {
	lim      *limiter.RateLimiter
	limits   Limits
	opts     Options
	averages averages
	inForce  *recent[bucketID, limitSet]
	purses   *recent[bucketID, *purse]
}

// Options configures New. The zero value of a field is its default.
type Options struct {
	// Limits names the limits that calls are charged to; default: "rpm" for
	// Requests and "tpm" for Total. With Prices, the default of Cost is "spend",
	// also beside other names. A call is charged to the limits that are in force
	// for its entity and resource, or for the parent; the other names are ignored.
	Limits Limits
	// Prices returns the price of a model, such as the method Price of a
	// [PriceList]; default: calls have no cost. The price at the time of Acquire
	// applies to a call until its end. A call of a model without a price is refused
	// where the limit of Cost is in force.
	Prices PriceFunc
	// MaxOutput bounds each answer to a request that sets no maximum, where a limit
	// of cost is in force; default 8192 tokens. Lease.MaxOutput returns the maximum
	// that the caller has to write into the request.
	MaxOutput int64
	// KeepRequests is for callers that do not write Lease.MaxOutput into requests. A
	// request without a maximum then reserves the longest answer of its model,
	// Price.MaxOutput, and is refused if that is not known.
	KeepRequests bool
	// Output is the estimate for an answer to a request that sets no maximum, for
	// an entity and model without earlier answers; default 512 tokens. It concerns
	// limits of tokens.
	Output int64
	// FullEstimate takes the whole maximum that a request sets from limits of tokens
	// too, so that its answer leaves no debt. A request whose maximum is above a
	// limit never fits then. By default, the estimate of an answer is at most a
	// quarter of the smallest limit of tokens. Limits of cost always reserve the
	// whole maximum.
	FullEstimate bool
	// Step, if above 0, is the number of tokens by which the lease of a stream is
	// extended with Consume when its answer outgrows the estimate. A stream whose
	// limit has no room for another step is refused in Lease.Write. A gzip stream
	// is not extended, since it is read at its end. By default, an answer may
	// exceed its estimate, and leaves debt.
	Step int64
	// MaxEntries bounds the entities and models whose average answer is
	// remembered, and the buckets whose limits are; default 10,000.
	MaxEntries int
	// MaxBytes bounds compressed answers, see AnswerOptions; default
	// DefaultMaxBytes.
	MaxBytes int64
	// Now returns the time at which a price applies; default time.Now.
	Now func() time.Time
}

// Spend is the default name of the limit of cost.
const Spend = "spend"

type bucketID struct{ entity, resource string }

// limitSet holds the limits in force for a bucket and its parent's.
type limitSet struct {
	limits  []limiter.Limit
	budgets []bucketID // buckets with an enforced limit of cost
	shadows []bucketID // buckets with a shadow limit of cost
	read    time.Time
}

const (
	defaultOutput     = 512
	defaultMaxEntries = 10_000
	limitsLife        = time.Minute // of a limitSet
)

// New returns a Limiter on lim. The error is a *limiter.InvalidError that names
// the wrong option.
func New(lim *limiter.RateLimiter, opts *Options) (*Limiter, error) {
	if opts == nil {
		opts = &Options{}
	}

	o := *opts
	if o.MaxOutput < 0 || o.Output < 0 || o.Step < 0 || o.MaxEntries < 0 || o.MaxBytes < 0 {
		return nil, &limiter.InvalidError{
			Field:  "llm.Options",
			Reason: "MaxOutput, Output, Step, MaxEntries and MaxBytes must not be negative",
		}
	}

	if o.Limits == (Limits{}) {
		o.Limits = Limits{Requests: limiter.RPM, Total: limiter.TPM}
	}

	switch {
	case o.Prices == nil && o.Limits.Cost != "":
		return nil, &limiter.InvalidError{
			Field: "llm.Options", Reason: "Limits.Cost needs Prices; read them with ParsePrices",
		}
	case o.Prices != nil:
		o.Limits.Cost = cmp.Or(o.Limits.Cost, Spend)
	}

	if o.Limits.mixes() {
		return nil, &limiter.InvalidError{
			Field: "limit of cost", Value: o.Limits.Cost,
			Reason: "is charged with cost and with calls or tokens; give the cost a limit of its own",
		}
	}

	if o.Now == nil {
		o.Now = time.Now
	}

	o.MaxOutput = min(cmp.Or(o.MaxOutput, defaultMaxOutput), maxTokens>>20)
	o.Output = cmp.Or(o.Output, defaultOutput)
	o.MaxEntries = cmp.Or(o.MaxEntries, defaultMaxEntries)

	return &Limiter{
		lim: lim, limits: o.Limits, opts: o, averages: newAverages(o.MaxEntries),
		inForce: newRecent[bucketID, limitSet](o.MaxEntries), purses: newRecent[bucketID, *purse](o.MaxEntries),
	}, nil
}

// Acquire takes the estimated cost of a call from the limits of an entity for a
// resource, which usually is the model. If req is nil, the call costs one request
// and no tokens. The caller must end the lease with Commit, CommitRequest or
// Rollback.
//
// Where a limit of cost is in force, Acquire reserves the most that the call can
// cost, so that the limit holds however many calls run in parallel. It reserves the
// whole maximum that the request sets. For a request without one it chooses a
// maximum, which the caller has to write into the request: see [Lease.MaxOutput].
//
// The errors are the same as for limiter.RateLimiter.Acquire. An
// *limiter.ExceededError for a limit of cost is wrapped in a *[SpendError]. The
// error is an *limiter.InvalidError if none of Options.Limits is in force. It
// matches ErrNoPrice if the limit of cost is in force and the model has no price,
// and ErrUnbounded if nothing bounds the cost of the call.
func (l *Limiter) Acquire(ctx context.Context, entity, resource string, req *Request) (*Lease, error) {
	id := bucketID{entity, resource}
	set, cached, err := l.limitsOf(ctx, id)
	if err != nil {
		return nil, err
	}

	lease, err := l.acquire(ctx, id, set, req)
	switch {
	// One of the remembered limits is gone. The store refused the whole charge,
	// so nothing has to go back.
	case cached && isUnknownLimit(err):
		l.inForce.remove(id)
		if set, _, err = l.limitsOf(ctx, id); err != nil {
			return nil, err
		}
	// The store has a limit to which the lease is not charged. The lease goes
	// back, and another one is charged to all.
	case err == nil && l.lacks(lease):
		set = l.remember(id, lease.outcome, time.Now())
		if err := lease.Rollback(ctx); err != nil {
			return nil, err
		}
	default:
		return lease, err
	}

	return l.acquire(ctx, id, set, req)
}

// isUnknownLimit reports whether a charge named a limit that is not in force.
func isUnknownLimit(err error) bool {
	bad, ok := errors.AsType[*limiter.InvalidError](err)
	return ok && bad.Field == "consume"
}

// lacks reports whether the store answered with a limit that the lease should have
// been charged to and was not, or with a limit of cost that the lease took for none
// or for a shadow limit.
func (l *Limiter) lacks(lease *Lease) bool {
	for i := range lease.outcome.Statuses {
		limit := &lease.outcome.Statuses[i].Limit
		if l.limits.has(limit.Name) && !lease.charges(limit.Name) || limit.Name == l.limits.Cost && !limit.IsShadow &&
			!lease.budget.firm {
			return true
		}
	}
	return false
}

func (l *Limiter) acquire(ctx context.Context, id bucketID, set limitSet, req *Request) (*Lease, error) {
	names, err := l.names(id, set)
	if err != nil {
		return nil, err
	}

	price, unpriced := l.price(req)
	if unpriced != nil && len(set.budgets) > 0 {
		return nil, cmp.Or(l.disabled(ctx, id), unpriced)
	}

	lease, err := l.reserveAll(ctx, id, set, names, req, price)
	if err != nil {
		return nil, err
	}

	// The limits that were known before the charge had no limit of cost: the
	// store did not answer then, or the limit is new. The call would be free.
	if unpriced != nil && capacity(enforced(limitsIn(lease.outcome)), l.limits.Cost) > 0 {
		return nil, errors.Join(unpriced, lease.Rollback(ctx))
	}

	// Every decision shows the limits in force, so a bucket in use needs no
	// other request for them.
	if now := time.Now(); now.Sub(set.read) > limitsLife/2 {
		l.remember(id, lease.outcome, now)
	}
	return lease, nil
}

// tries bounds how often a call that sets no maximum asks for less money, while
// calls beside it take what is left.
const tries = 4

// reserveAll takes the amounts of a call. Where the money does not suffice for the
// maximum that it chose, it asks again with a smaller one.
func (l *Limiter) reserveAll(
	ctx context.Context, id bucketID, set limitSet, names Limits, req *Request, price Price,
) (*Lease, error) {
	budget := l.budgetOf(set)
	for try := 1; ; try++ {
		left := l.moneyLeft(ctx, id, budget, req, price)
		if try == tries {
			// No money left stands for the smallest maximum.
			left = 0
		}

		lease, err := l.newLease(id, set, names, req, price, budget, left)
		if err != nil {
			return nil, cmp.Or(l.disabled(ctx, id), err)
		}

		err = lease.take(ctx, id)
		refusal, refused := errors.AsType[*limiter.ExceededError](err)
		switch {
		case err == nil:
			return lease, nil
		case !refused:
			return nil, err
		// A smaller maximum helps only against the limit of cost, and only
		// while there is a smaller one.
		case try == tries || lease.reserved.maxOutput <= leastOutput || !l.onlyCost(refusal.Decision):
			return nil, l.spendError(refusal, lease)
		}
	}
}

// onlyCost reports whether limits of cost alone refused a call.
func (l *Limiter) onlyCost(d limiter.Decision) bool {
	return !slices.ContainsFunc(d.Violations(), func(s limiter.Status) bool { return s.Limit.Name != l.limits.Cost })
}

// moneyLeft returns what is left for a call. It asks the store only if the money is
// scarce by an old answer.
func (l *Limiter) moneyLeft(ctx context.Context, id bucketID, budget budget, req *Request, price Price) int64 {
	left, age := budget.left(time.Now())
	if age < purseLife {
		return left
	}

	// If money is not what bounds the maximum, an old answer is good enough.
	if r, err := l.reserve(req, price, left); err != nil || !r.scarce {
		return left
	}

	d, err := l.lim.Explain(ctx, limiter.Request{Entity: id.entity, Resource: id.resource})
	if err != nil {
		// Acquire asks the store next, and reports the error.
		return left
	}

	now := time.Now()
	l.observe(d, now)
	left, _ = budget.left(now)
	return left
}

// disabled returns the *limiter.DisabledError of a bucket, or nil. It comes before
// a model without a price, as it comes before every limit.
func (l *Limiter) disabled(ctx context.Context, id bucketID) error {
	_, err := l.lim.Explain(ctx, limiter.Request{Entity: id.entity, Resource: id.resource})
	if off, ok := errors.AsType[*limiter.DisabledError](err); ok {
		return off
	}
	return nil
}

// price returns the price of a call now. A call that is not about a model has
// none, and costs nothing.
func (l *Limiter) price(req *Request) (Price, error) {
	if req == nil || l.opts.Prices == nil {
		return Price{}, nil
	}
	return l.opts.Prices(req.Model, l.opts.Now())
}

// names returns the names of the limits in force. If they are unknown, because
// the store did not answer, it returns all names.
func (l *Limiter) names(id bucketID, set limitSet) (Limits, error) {
	if set.limits == nil {
		return l.limits, nil
	}

	names := l.limits.only(func(name string) bool { return named(set.limits, name) })
	if names == (Limits{}) {
		var charged []string
		for name := range l.limits.Amounts(0, Usage{}).All() {
			charged = append(charged, name)
		}
		return names, &limiter.InvalidError{
			Field: "resource", Value: id.resource, Err: limiter.ErrNoLimits,
			Reason: "has limits, but none that calls are charged to; store one of " + strings.Join(charged, ", "),
		}
	}
	return names, nil
}

// enforced returns the limits that are not shadow limits.
func enforced(limits []limiter.Limit) []limiter.Limit {
	return slices.DeleteFunc(slices.Clone(limits), func(limit limiter.Limit) bool { return limit.IsShadow })
}

// capacity returns the smallest capacity of a limit, or 0 if it is not in force.
func capacity(limits []limiter.Limit, name string) int64 {
	var smallest int64
	for _, limit := range limits {
		if limit.Name == name && (smallest == 0 || limit.Capacity < smallest) {
			smallest = limit.Capacity
		}
	}
	return smallest
}

// limitsOf returns the limits in force, from memory if they were read recently.
// In an outage it returns none, so that Acquire decides what an outage means.
func (l *Limiter) limitsOf(ctx context.Context, id bucketID) (set limitSet, cached bool, err error) {
	now := time.Now()
	if set, ok := l.inForce.get(id); ok && now.Sub(set.read) < limitsLife {
		return set, true, nil
	}

	d, err := l.lim.Explain(ctx, limiter.Request{Entity: id.entity, Resource: id.resource})
	// The limits are then a guess, as cached ones are: Acquire reads them again
	// if a name turns out to be unknown.
	if _, outage := errors.AsType[*limiter.UnavailableError](err); outage {
		return limitSet{}, true, nil
	}

	if err != nil {
		return limitSet{}, false, err
	}
	return l.remember(id, d, now), false, nil
}

// limitsIn returns the limits of a decision.
func limitsIn(d limiter.Decision) []limiter.Limit {
	var limits []limiter.Limit
	for _, s := range d.Statuses {
		limits = append(limits, s.Limit)
	}
	return limits
}

// remember keeps the limits of a decision. A decision without limits, of a lease
// that was allowed in an outage, changes nothing.
func (l *Limiter) remember(id bucketID, d limiter.Decision, now time.Time) limitSet {
	set := limitSet{read: now, limits: limitsIn(d)}

	for i := range d.Statuses {
		s := &d.Statuses[i]
		switch id := (bucketID{s.Entity, s.Resource}); {
		case l.limits.Cost == "" || s.Limit.Name != l.limits.Cost:
		case s.Limit.IsShadow:
			set.shadows = append(set.shadows, id)
		default:
			set.budgets = append(set.budgets, id)
		}
	}

	l.observe(d, now)
	// In an outage there is nothing to remember.
	if set.limits != nil {
		l.inForce.update(id, func(limitSet, bool) limitSet { return set })
	}
	return set
}
