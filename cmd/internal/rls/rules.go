package rls

import (
	"math"
	"strings"

	descriptors "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/zeroae/zae-limiter-go"
)

// Rules turn descriptors into requests. The first rule that matches a descriptor
// applies. [ParseRules] creates them.
type Rules struct {
	rules   []rule
	headers bool // describe limits in response headers
}

// rule says what one kind of descriptor asks for.
type rule struct {
	line   int    // in the file
	domain string // "" matches every domain
	// match has the patterns by key; nil matches every descriptor.
	match    map[string]values
	entity   template
	resource template
	amounts  []amount
	// settle charges the hits of a descriptor even into debt.
	settle bool
	// giveBack lets negative hits give tokens back.
	giveBack bool
	// allowNoLimits admits a descriptor whose entity and resource have no limits.
	allowNoLimits bool
	answer        answer
}

// answer is the fixed answer of a rule.
type answer int

const (
	judge  answer = iota // ask the limiter
	allow                // admit without a charge
	refuse               // refuse
)

// amount is what a rule takes of one limit.
type amount struct {
	limit string
	fixed int64
	hits  bool // take the hits of the descriptor
}

// values holds patterns. One of them must match the value of an entry.
type values []string

func (v values) match(value string) bool {
	for _, pattern := range v {
		if prefix, wildcard := strings.CutSuffix(pattern, "*"); wildcard && strings.HasPrefix(value, prefix) ||
			pattern == value {
			return true
		}
	}
	return false
}

// find returns the rule for a descriptor, or nil.
func (r *Rules) find(domain string, entries []*descriptors.RateLimitDescriptor_Entry) *rule {
	for i := range r.rules {
		if r.rules[i].matches(domain, entries) {
			return &r.rules[i]
		}
	}
	return nil
}

// matches reports whether the entries have exactly the keys of the rule, in any
// order, with matching values.
func (r *rule) matches(domain string, entries []*descriptors.RateLimitDescriptor_Entry) bool {
	if r.domain != "" && r.domain != domain {
		return false
	}

	if r.match == nil {
		return true
	}

	// As many entries as keys, each with another key of the rule, are all keys
	// of the rule.
	if len(entries) != len(r.match) {
		return false
	}

	for i, e := range entries {
		v, ok := r.match[e.GetKey()]
		if !ok || !v.match(e.GetValue()) || repeats(entries[:i], e.GetKey()) {
			return false
		}
	}

	return true
}

// repeats reports whether an earlier entry has the key.
func repeats(earlier []*descriptors.RateLimitDescriptor_Entry, key string) bool {
	for _, e := range earlier {
		if e.GetKey() == key {
			return true
		}
	}
	return false
}

// hitsOf returns the hits of a descriptor. Its own number replaces that of the
// call, where 0 means 1.
func hitsOf(req *ratelimit.RateLimitRequest, d *descriptors.RateLimitDescriptor) int64 {
	// Its own number is an uint64, and need not fit.
	if own := d.GetHitsAddend(); own != nil {
		return int64(min(own.GetValue(), math.MaxInt64))
	}
	return int64(max(req.GetHitsAddend(), 1))
}

// call returns what the limiter is asked about a descriptor.
func (r *Rules) call(req *ratelimit.RateLimitRequest, d *descriptors.RateLimitDescriptor) call {
	found := r.find(req.GetDomain(), d.GetEntries())
	switch {
	case found == nil || found.answer == allow:
		return call{kind: unlimited, rule: found}
	case found.answer == refuse:
		return call{kind: refused, rule: found}
	}

	hits, negative := hitsOf(req, d), d.GetIsNegativeHits()
	c := call{rule: found, kind: acquire, request: limiter.Request{
		Entity:   found.entity.expand(d.GetEntries()),
		Resource: found.resource.expand(d.GetEntries()),
		// Envoy's failure mode decides in an outage, and needs the error.
		OnUnavailable: limiter.Block,
	}}

	switch {
	case negative && !found.giveBack:
		c.kind, c.negative = refused, true
		return c
	case negative:
		c.kind = giveBack
	case found.settle:
		c.kind = settle
	case hits == 0:
		c.kind = peek
	}

	if c.isLate() {
		hits = min(hits, maxLate)
	}

	c.request.Consume = found.consume(hits, negative)
	return c
}

// maxLate is the largest amount that RateLimiter.Adjust takes. More hits count as
// maxLate, because an error would charge nothing.
const maxLate = math.MaxInt64 / 1_000_000

// consume returns the amounts of a rule. Negative hits give back the limits that
// count hits, and leave the others.
func (r *rule) consume(hits int64, negative bool) (amounts limiter.Amounts) {
	for _, a := range r.amounts {
		switch {
		case a.hits && negative:
			amounts = amounts.And(a.limit, -hits)
		case a.hits:
			amounts = amounts.And(a.limit, hits)
		case !negative:
			amounts = amounts.And(a.limit, a.fixed)
		}
	}

	return amounts
}
