package llm

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// share is the part of a lease that is charged to some of its limits, with an
// estimate of its own. The enforced limits have one share, and each shadow limit
// has one, so that it takes what it would take if it were enforced, and changes
// nothing for the others.
type share struct {
	names    Limits
	estimate Usage
	taken    int64 // tokens of the answer that Write has taken beyond the estimate
}

// shares divides the limits in force, whose names are given. The share of the
// enforced limits comes first, also if there are none.
func (l *Limiter) shares(entity string, req *Request, price Price, names Limits, limits []limiter.Limit) []share {
	firm := enforced(limits)
	shadowed := func(name string) bool {
		return named(limits, name) && !named(firm, name)
	}
	all := []share{{
		names:    names.only(func(name string) bool { return !shadowed(name) }),
		estimate: l.estimate(entity, req, price, names, firm),
	}}
	for name := range names.Amounts(0, Usage{}).All() {
		if !shadowed(name) {
			continue
		}
		inForce := slices.DeleteFunc(slices.Clone(limits), func(limit limiter.Limit) bool { return limit.IsShadow && limit.Name != name })
		all = append(all, share{
			names:    names.only(func(other string) bool { return other == name }),
			estimate: l.estimate(entity, req, price, names, inForce),
		})
	}
	return all
}

// named reports whether limits has one with a name.
func named(limits []limiter.Limit, name string) bool {
	return slices.ContainsFunc(limits, func(limit limiter.Limit) bool { return limit.Name == name })
}

// grow returns the steps of the share by which an answer of output tokens has
// outgrown it, in tokens.
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
	return price.charge(Usage{Input: s.estimate.Input, Output: s.estimate.Output + n})
}
