package dynamo

import (
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// appendLevels appends the keys of the facts about the levels, the most specific
// first.
func (p *payer) appendLevels(keys []factKey, resource string) []factKey {
	for _, s := range limiter.Precedence(p.entity, resource) {
		// The wider levels follow those of the entity.
		if p.ownOnly && s.Entity == "" {
			break
		}
		keys = append(keys, p.repo.configFact(s))
	}
	return keys
}

// resolveLimits finds the limits in force: the override, the first level that
// stores limits, or the defaults of the charge.
func (p *payer) resolveLimits(charge *limiter.Charge, levels []*fact) error {
	if p.override {
		p.setLimits(rules.Sorted(charge.Limits), charge.Resource, limiter.Scope{})
		return nil
	}

	p.defaults, p.exempt = nil, false
	if i := firstWithLimits(levels); i >= 0 {
		limits := levels[i].config.Limits
		p.setLimits(limits, charge.Resource, limiter.Precedence(p.entity, charge.Resource)[i])
		return rules.CheckZones(limits)
	}

	if p.exempt = p.ownOnly; p.exempt {
		return nil
	}

	if len(charge.Defaults) == 0 {
		return rules.NoLimits(p.entity, charge.Resource)
	}

	p.defaults = charge.Defaults
	p.setLimits(rules.Defaults(charge.Defaults, nil), charge.Resource, limiter.Scope{})
	return nil
}

// firstWithLimits returns the index of the first level that stores limits, or -1.
func firstWithLimits(levels []*fact) int {
	return slices.IndexFunc(levels, func(f *fact) bool { return len(f.config.Limits) > 0 })
}

// setLimits sets the limits in force. An account that equals the cached one is
// shared with it.
func (p *payer) setLimits(limits []limiter.Limit, resource string, source limiter.Scope) {
	p.idle = rules.Idle(limits, source, p.repo.ttl)

	if a := p.cached.account; a != nil && !p.override && a.Ref == p.cached.ref && a.Source == source &&
		a.Default == (p.defaults != nil) && slices.Equal(a.Limits, limits) {
		p.account = a
		return
	}

	p.account = &limiter.Account{
		Entity: p.entity, Resource: resource, Limits: limits, Source: source, Default: p.defaults != nil,
	}

	if p.cached.ref != nil {
		p.account.Ref = p.cached.ref
	}
}

// maxLimits is how many limits a bucket may have: each adds conditions, and an
// expression may have 300 operators and 4 KB. TestLongestExpressions checks it.
const maxLimits = rules.MaxLimits

// checkLimits rejects more limits than a bucket may have.
func checkLimits(n int) error {
	if n <= maxLimits {
		return nil
	}
	return &limiter.InvalidError{
		Field: "limits", Value: fmt.Sprintf("%d limits", n),
		Reason: fmt.Sprintf("must be at most %d for one bucket on DynamoDB, including the limits that it already has",
			maxLimits),
	}
}

// limitCount returns how many limits the bucket has after the charge. Limits that
// only an override has join the bucket.
func (p *payer) limitCount() int {
	n := len(p.plan.after.Account.Limits)
	if !p.override || p.plan.recreate {
		return n
	}

	for _, l := range p.account.Limits {
		if p.cached.image.find(l.Name) == nil {
			n++
		}
	}
	return n
}
