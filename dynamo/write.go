package dynamo

import (
	"fmt"
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// A debit is one of two writes. A plain one leaves the refill time alone, which
// is right only while the bucket cannot have filled up since: time spent full
// must not be credited later. A locked one refills every limit up to the time
// of the charge, and nobody else may have done so since the image.

// maxLimits is how many limits a bucket may have: the conditions for each add
// up, and an expression may have 300 operators.
const maxLimits = 24

// checkLimits refuses more limits than a bucket may have.
func checkLimits(n int) error {
	if n <= maxLimits {
		return nil
	}
	return &limiter.InvalidError{
		Field: "limits", Value: fmt.Sprintf("%d limits", n),
		Reason: fmt.Sprintf("must be at most %d for one bucket on DynamoDB, with those that the bucket has", maxLimits),
	}
}

// slack is the part of the capacity that a plain write may overlook, if the
// bucket was refilled so lately that no limit can have gained more.
const slack = 0.02

// recent is the time from which on a refill is within the slack, and whether
// there is any slack.
func (p *payer) recent() (int64, bool) {
	if p.repo.opts.Exact {
		return 0, false
	}
	span := int64(slack * float64(p.known.image.shortest()))
	return p.plan.at - span, span > 0
}

// mode is how a debit is written.
type mode int

const (
	modeLocked mode = iota
	modePlain       // the image shows that nothing is full
	modeSlack       // only the slack allows it
)

// mode picks the write that fits the image.
func (p *payer) mode(amounts *limiter.Amounts) mode {
	img := p.known.image
	if p.plan.recreate || p.plan.repair || img.refill < p.known.seen || p.override && !p.overridesNothing() {
		return modeLocked
	}
	exactly, enough := true, true
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		c := img.find(name)
		if c == nil {
			continue
		}
		enough = enough && c.tokens >= bucket.Thousandths(n) && c.tokens <= c.rate.Capacity
		exactly = exactly && c.tokens <= p.room(c)
	}
	since, lenient := p.recent()
	switch {
	case enough && exactly:
		return modePlain
	case enough && lenient && img.refill >= since:
		return modeSlack
	}
	return modeLocked
}

// overridesNothing tells whether the bucket has every limit of the override as
// it is.
func (p *payer) overridesNothing() bool {
	for _, l := range p.account.Limits {
		if c := p.known.image.find(l.Name); c == nil || c.rate != rateOf(l) {
			return false
		}
	}
	return true
}

// room is what a limit may hold at most for its bucket not to have been full
// between the image's refill and the charge.
func (p *payer) room(c *cell) int64 {
	return bucket.Sub(c.rate.Capacity, bucket.Accrued(p.plan.base, p.plan.at, c.rate))
}

// plain is the plain debit of a charge.
func (p *payer) plain(amounts *limiter.Amounts, m mode) *update {
	u, img := newUpdate(), p.known.image
	refill := u.attr(attrRefill)
	since, lenient := p.recent()
	var exactly, leniently []byte
	if m == modePlain {
		exactly = and(nil, refill, ">=", u.number(p.plan.base))
	}
	if lenient {
		leniently = and(nil, refill, ">=", u.number(since))
	}
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		c := img.find(name)
		if c == nil {
			continue
		}
		tokens, amount := u.attr(bucketAttr(name, fieldTokens)), u.number(n*bucket.Milli)
		u.addTo(tokens, -n*bucket.Milli)
		u.addValue(u.attr(bucketAttr(name, fieldTotal)), amount)
		capacity := u.sameRate(c)
		if m == modePlain {
			exactly = and(exactly, tokens, "BETWEEN", amount, "AND", u.number(p.room(c)))
		}
		if lenient { // Python leaves more than the capacity when it cuts that, and it must not be spent
			leniently = and(leniently, tokens, "BETWEEN", amount, "AND", capacity)
		}
	}
	switch {
	case m == modeSlack:
		u.when(string(leniently))
	case lenient:
		u.when("(" + string(exactly) + " OR " + string(leniently) + ")")
	default:
		u.when(string(exactly))
	}
	if img.ttl != 0 {
		u.setTo(u.attr(attrTTL), number(p.expiry()))
	}
	return u
}

// sameRate is the condition that a limit still is what the image shows. Its
// capacity can be used again, by the placeholder.
func (u *update) sameRate(c *cell) (capacity string) {
	capacity = u.number(c.rate.Capacity)
	u.when(u.attr(bucketAttr(c.name, fieldCapacity)), "=", capacity)
	u.when(u.attr(bucketAttr(c.name, fieldAmount)), "=", u.number(c.rate.Amount))
	u.when(u.attr(bucketAttr(c.name, fieldPeriod)), "=", u.number(c.rate.Period))
	return capacity
}

// expiry is the ttl of the bucket after the write: when it has idled, and is
// full, so that nothing is forgiven.
func (p *payer) expiry() int64 { return expiry(&p.plan.after) }

func expiry(b *rules.Bucket) int64 {
	const latest = 1 << 53 / bucket.Milli
	return min(ceilDiv(max(b.Expires, b.Full()), bucket.Milli), latest)
}

func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// lock is the locked write: it makes the item what the plan says, and takes the
// amounts, which may be none for a repair. With a floor it is refused if one of
// them is not there.
func (p *payer) lock(amounts *limiter.Amounts, floor bool) *update {
	u, img, after := newUpdate(), p.known.image, &p.plan.after
	refill := u.attr(attrRefill)
	u.when(refill, "=", u.number(img.refill))
	u.setTo(refill, number(max(after.At, img.refill)))
	shape := u.sameShape(img)
	reshaped := false
	for i, l := range after.Account.Limits {
		n, named := amounts.Lookup(l.Name)
		taken := bucket.Thousandths(n)
		if c := img.find(l.Name); c != nil {
			u.change(c, rateOf(l), bucket.Sub(after.Tokens[i], c.tokens), taken, taken, named && floor)
			reshaped = reshaped || c.rate != rateOf(l)
		} else {
			u.join(img, l, after.Tokens[i], taken)
			reshaped = true
		}
	}
	if p.leave(u) || reshaped {
		u.addTo(shape, 1)
	}
	p.renew(u)
	return u
}

// leave removes the limits that are not in force. One whose tokens have changed
// since the image is not removed: it may be back in force and charged, and would
// join again, full. It reports whether any limit is removed.
func (p *payer) leave(u *update) (removed bool) {
	img, after := p.known.image, &p.plan.after
	keep := p.keeps && len(after.Account.Limits)+len(img.cells) <= maxLimits
	gone := func(name string) bool {
		return !slices.ContainsFunc(after.Account.Limits, func(l limiter.Limit) bool { return l.Name == name })
	}
	for i := range img.cells {
		c := &img.cells[i]
		switch {
		case !gone(c.name):
		case keep:
			gained := bucket.Sub(bucket.Advance(c.tokens, p.plan.base, after.At, c.rate), c.tokens)
			u.change(c, c.rate, gained, 0, 0, false)
		default:
			u.when(u.attr(bucketAttr(c.name, fieldTokens)), "=", u.number(c.tokens))
			u.drop(c.name)
			removed = true
		}
	}
	for _, c := range img.damaged {
		if gone(c.name) {
			u.drop(c.name)
			removed = true
		}
	}
	return removed
}

// sameShape is the condition that no limit joined, left or changed since the
// image, for writes that move the time of the refill: a limit that they do not
// know of would lose what it gained until then. That time itself does not tell
// where a clock is behind.
func (u *update) sameShape(img *image) (shape string) {
	shape = u.attr(attrShape)
	if img.shape == 0 {
		u.when("attribute_not_exists(" + shape + ")")
	} else {
		u.when(shape, "=", u.number(img.shape))
	}
	return shape
}

// change moves a limit that the item has by delta, and its total by total. What
// is left must not be above the capacity even without what was taken, nor, if
// the limit was named, below zero.
func (u *update) change(c *cell, r bucket.Rate, delta, total, taken int64, named bool) {
	tokens := u.attr(bucketAttr(c.name, fieldTokens))
	u.addTo(tokens, delta)
	u.addTo(u.attr(bucketAttr(c.name, fieldTotal)), total)
	u.sameRate(c)
	if most := bucket.Sub(r.Capacity, bucket.Add(delta, taken)); most > c.tokens {
		u.when(tokens, "<=", u.number(most))
	} else { // it is cut at the capacity: what others took meanwhile would be lost
		u.when(tokens, "=", u.number(c.tokens))
	}
	if named {
		u.when(tokens, ">=", u.number(-delta))
	}
	if c.rate != r {
		u.setRate(c.name, r)
	}
}

func (u *update) setRate(limit string, r bucket.Rate) {
	u.setTo(u.attr(bucketAttr(limit, fieldCapacity)), number(r.Capacity))
	u.setTo(u.attr(bucketAttr(limit, fieldAmount)), number(r.Amount))
	u.setTo(u.attr(bucketAttr(limit, fieldPeriod)), number(r.Period))
}

// join gives the item a limit that it does not have, or only a damaged one.
func (u *update) join(img *image, l limiter.Limit, tokens, taken int64) {
	attr := u.attr(bucketAttr(l.Name, fieldTokens))
	u.setTo(attr, number(tokens))
	u.setTo(u.attr(bucketAttr(l.Name, fieldTotal)), number(taken))
	u.setRate(l.Name, rateOf(l))
	for _, c := range img.damaged {
		if c.name == l.Name {
			u.when(attr, "=", u.number(c.tokens))
			return
		}
	}
	u.when("attribute_not_exists(" + attr + ")")
}

// drop removes a limit from the item.
func (u *update) drop(limit string) {
	for _, field := range []string{fieldTokens, fieldCapacity, fieldAmount, fieldPeriod, fieldTotal} {
		u.removed(bucketAttr(limit, field))
	}
}

// renew brings the expiry and the facts about the entity up to date.
func (p *payer) renew(u *update) {
	img := p.known.image
	switch {
	case p.plan.after.Idle > 0:
		u.setTo(u.attr(attrTTL), number(p.expiry()))
	case img.ttl != 0:
		u.removed(attrTTL)
	}
	if p.override && !p.plan.recreate {
		return
	}
	if img.cascade != p.cascade {
		u.setTo(u.attr(attrCascade), truth(p.cascade))
	}
	switch {
	case img.parent == p.parent:
	case p.parent == "":
		u.removed(attrParent)
	default:
		u.setTo(u.attr(attrParent), text(p.parent))
	}
}

// create is the item of a new bucket, charged.
func (p *payer) create(amounts *limiter.Amounts) item {
	it, after := newItem(p.repo.ns, p.key), &p.plan.after
	resource := p.account.Resource
	it[attrEntity], it[attrResource] = text(p.entity), text(resource)
	it[attrGSI2PK], it[attrGSI2SK] = text(resourcePK(p.repo.ns, resource)), text(bucketGSIPrefix+p.entity)
	it[attrRefill], it[attrCascade] = number(after.At), truth(p.cascade)
	if p.parent != "" {
		it[attrParent] = text(p.parent)
	}
	if after.Idle > 0 {
		it[attrTTL] = number(p.expiry())
	}
	for i, l := range after.Account.Limits {
		n, _ := amounts.Lookup(l.Name)
		r := rateOf(l)
		for _, part := range []struct {
			field string
			n     int64
		}{
			{fieldTokens, after.Tokens[i]},
			{fieldCapacity, r.Capacity},
			{fieldAmount, r.Amount},
			{fieldPeriod, r.Period},
			{fieldTotal, bucket.Thousandths(n)},
		} {
			it[bucketAttr(l.Name, part.field)] = number(part.n)
		}
	}
	return it
}
