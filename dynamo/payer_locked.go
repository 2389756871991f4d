package dynamo

import (
	"slices"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// lockedWrite returns the write that makes the item what the plan says and takes
// the amounts, which are empty for a repair. With floor set, it is refused if an
// amount is not covered.
func (p *payer) lockedWrite(amounts *limiter.Amounts, floor bool) *update {
	u, img, after := newUpdate(), p.cached.image, &p.plan.after
	refill := u.attr(attrRefill)
	u.when(refill, "=", u.number(img.refill))
	u.setTo(refill, number(max(after.At, img.refill)))
	shape := u.requireShape(img)
	reshaped := false
	for i, l := range after.Account.Limits {
		m := p.move(i, amounts, floor)
		if c := img.find(l.Name); c != nil {
			u.changeLimit(c, &m)
			reshaped = reshaped || !c.is(l)
		} else {
			u.addLimit(img, &m)
			reshaped = true
		}
	}
	if p.dropLimits(u) || reshaped {
		u.addTo(shape, 1)
	}
	p.renew(u)
	return u
}

// move returns what a locked write does to limit i of the plan.
func (p *payer) move(i int, amounts *limiter.Amounts, floor bool) move {
	after := &p.plan.after
	m := newMove(after.Account.Limits[i], after.Tokens[i])
	if after.Starts != nil {
		m.start, m.whole = after.Starts[i], true
	}
	if after.Excess != nil {
		m.excess = after.Excess[i]
	}
	var n int64
	n, m.named = amounts.Lookup(m.to.Name)
	m.used = bucket.Thousandths(n)
	if f := p.plan.fill; f != nil {
		m.sets = f.ID == "" && (len(f.Limits) == 0 || slices.Contains(f.Limits, m.to.Name))
		_, m.adds = f.Amounts.Lookup(m.to.Name)
	}
	if p.override && n > 0 {
		m.reserve = p.reserve(m.to)
	}
	if p.spares(m.to.Name) {
		if p.plan.counts {
			m.spares, m.short = 1, n <= p.judgedCapacity(m.to.Name)
		}
		return m
	}
	m.taken, m.floor = m.used, m.named && floor
	return m
}

// reserve returns how many tokens of a limit an override must not take.
func (p *payer) reserve(own limiter.Limit) int64 {
	for _, l := range p.account.Limits {
		if l.Name == own.Name {
			return rules.OverrideReserve(own, l)
		}
	}
	return 0
}

// judgedCapacity returns the capacity by which a limit judges the charge. An override
// may have a smaller one than the bucket.
func (p *payer) judgedCapacity(limit string) int64 {
	for _, l := range p.plan.view.Account.Limits {
		if l.Name == limit {
			return l.Capacity
		}
	}
	return 0
}

// dropLimits removes limits that are not in force, and reports whether it removes
// any. The write requires the tokens of the image: a limit that is back in force
// and was charged since would otherwise join again, full.
func (p *payer) dropLimits(u *update) (dropped bool) {
	img, after := p.cached.image, &p.plan.after
	keep := p.keepDropped && len(after.Account.Limits)+len(img.cells) <= maxLimits
	inForce := func(name string) bool {
		return slices.ContainsFunc(after.Account.Limits, func(l limiter.Limit) bool { return l.Name == name })
	}
	for i := range img.cells {
		c := &img.cells[i]
		switch {
		case inForce(c.name):
		case keep && c.every != 0: // the refill time does not concern it
		case keep:
			refilled := c.stay(bucket.Advance(c.tokens, p.plan.base, after.At, c.rate))
			u.changeLimit(c, &refilled)
		default:
			u.when(u.attr(bucketAttr(c.name, fieldTokens)), "=", u.number(c.tokens))
			u.dropLimit(c)
			dropped = true
		}
	}
	for i := range img.damaged {
		if c := &img.damaged[i]; !inForce(c.name) {
			u.dropLimit(c)
			dropped = true
		}
	}
	for i := range img.loose {
		if c := &img.loose[i]; !inForce(c.name) {
			u.dropExtras(c)
		}
	}
	return dropped
}

// renew updates the expiry and the item's copy of the entity's record.
func (p *payer) renew(u *update) {
	img := p.cached.image
	switch {
	case p.plan.after.Idle > 0:
		u.setTo(u.attr(attrTTL), number(expiry(&p.plan.after)))
	case img.ttl != 0:
		u.removeAttr(attrTTL)
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
		u.removeAttr(attrParent)
	default:
		u.setTo(u.attr(attrParent), text(p.parent))
	}
}

// newItem returns the item of a new bucket, charged.
func (p *payer) newItem(amounts *limiter.Amounts) item {
	it, after := newItem(p.repo.ns, p.key), &p.plan.after
	resource := p.account.Resource
	it[attrEntity], it[attrResource] = text(p.entity), text(resource)
	it[attrGSI2PK], it[attrGSI2SK] = text(resourcePK(p.repo.ns, resource)), text(bucketGSIPrefix+p.entity)
	it[attrRefill], it[attrCascade] = number(after.At), truth(p.cascade)
	if p.parent != "" {
		it[attrParent] = text(p.parent)
	}
	if p.off != nil && p.off.Scope.Entity != "" { // the charge is late
		it[attrOff] = copyOf(*p.off, lateCopy)
	}
	if after.Idle > 0 {
		it[attrTTL] = number(expiry(after))
	}
	for i, l := range after.Account.Limits {
		m := p.move(i, amounts, false)
		it.setExtras(&m)
		for _, part := range []struct {
			field string
			n     int64
		}{
			{fieldTokens, m.tokens},
			{fieldCapacity, m.rate.Capacity},
			{fieldAmount, m.rate.Amount},
			{fieldPeriod, m.rate.Period},
			{fieldTotal, m.used},
		} {
			it[bucketAttr(l.Name, part.field)] = number(part.n)
		}
	}
	return it
}

// setExtras adds what makes a limit of a new bucket a quota or a shadow limit.
func (it item) setExtras(m *move) {
	if m.to.Window != 0 {
		it[bucketAttr(m.to.Name, fieldWindow)] = text(rules.WindowText(m.to))
		it[bucketAttr(m.to.Name, fieldStart)] = number(m.start)
	}
	if m.to.IsShadow {
		it[bucketAttr(m.to.Name, fieldShadow)] = truth(true)
	}
	if m.spares != 0 {
		it[bucketAttr(m.to.Name, fieldSpared)] = number(m.spares)
	}
}
