package llm

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// share is the part of a lease that is charged to some of its limits, with an
// estimate of its own. The enforced limits of requests and tokens have one share,
// the enforced limit of cost has one, and each shadow limit has one, so that it
// takes what it would take if it were enforced, and changes nothing for the others.
type share struct {
	names    Limits
	estimate Usage
	taken    int64 // tokens of the answer that Write has taken beyond the estimate
}

// isMoney reports whether the share is charged to a limit of cost alone. Its
// estimate is a bound then.
func (s *share) isMoney() bool { return s.names.Cost != "" && s.names == Limits{Cost: s.names.Cost} }

// newLease returns a lease that has taken nothing, for a call where left is left of
// the budget.
func (l *Limiter) newLease(
	id bucketID, set limitSet, names Limits, req *Request, price Price, budget budget, left int64,
) (*Lease, error) {
	lease := &Lease{owner: l, entity: id.entity, request: req, price: price, budget: budget}

	bound, err := l.reserve(req, price, left)
	// An enforced limit needs a bound. A shadow limit refuses nothing, so it
	// needs none.
	switch {
	case budget.firm && err != nil:
		return nil, err
	case budget.firm:
		lease.reserved = bound
	}

	firm := enforced(set.limits)
	shadowed := func(name string) bool {
		return named(set.limits, name) && !named(firm, name)
	}

	first := share{
		names:    names.only(func(name string) bool { return !shadowed(name) && (!budget.firm || name != names.Cost) }),
		estimate: l.estimate(id.entity, req, price, names, firm),
	}
	// The caller writes this maximum into the request, so no answer is longer.
	if lease.reserved.maxOutput > 0 {
		first.estimate.Output = min(first.estimate.Output, bound.usage.Output)
		first.estimate.Cost = price.charge(first.estimate)
	}

	lease.shares = []share{first}
	if budget.firm {
		lease.shares = append(lease.shares, share{names: Limits{Cost: names.Cost}, estimate: bound.usage})
	}

	// Each shadow limit takes what it would take if it were enforced, where the
	// other shadow limits do not count.
	for name := range names.Amounts(0, Usage{}).All() {
		if !shadowed(name) {
			continue
		}

		inForce := slices.DeleteFunc(slices.Clone(set.limits), func(limit limiter.Limit) bool {
			return limit.IsShadow && limit.Name != name
		})

		own := share{
			names:    names.only(func(other string) bool { return other == name }),
			estimate: l.estimate(id.entity, req, price, names, inForce),
		}
		// As an enforced limit, it would take the whole reservation.
		if name == names.Cost && err == nil {
			own.estimate = bound.usage
		}
		lease.shares = append(lease.shares, own)
	}
	return lease, nil
}

// named reports whether limits has one with a name.
func named(limits []limiter.Limit, name string) bool {
	return slices.ContainsFunc(limits, func(limit limiter.Limit) bool { return limit.Name == name })
}

// grow returns the steps of the share by which an answer of output tokens has
// outgrown it, in tokens. With steps of 10, an answer that is 12 tokens too long takes
// 20.
func (s *share) grow(output, step int64) int64 {
	missing := output - s.estimate.Output - s.taken
	if missing <= 0 {
		return 0
	}
	return ((missing-1)/step + 1) * step
}

// cost returns the cost of the estimate with an answer that is longer by n tokens.
// The steps of a stream charge differences of it, so that their sum is rounded up
// once.
func (s *share) cost(price Price, n int64) int64 {
	if s.isMoney() {
		price = price.dearest()
	}
	return price.charge(Usage{Input: s.estimate.Input, Output: s.estimate.Output + n})
}
