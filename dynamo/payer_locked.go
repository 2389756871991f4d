package dynamo

import (
	"crypto/rand"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

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
	// A slow clock must not move the refill time back: the same time would be
	// refilled again.
	u.setTo(refill, number(max(after.At, img.refill)))

	shape := u.requireShape(img)
	p.beginLife(u)

	reshaped := false
	for i, l := range after.Account.Limits {
		m := p.move(i, amounts, floor)
		if c := img.findAny(l.Name); c != nil {
			u.changeLimit(c, &m)
			reshaped = reshaped || !c.is(l)
		} else {
			u.addLimit(img, &m)
			reshaped = true
		}
	}

	// The write moves the refill time of the whole bucket, so limits that have
	// left gain up to then as well.
	after.RefillLeft(max(after.At, img.refill))
	left := u.leaveLimits(img, after.Left, after.Account.Limits, p.plan.recreate)

	if u.recallLimits(img, after.Left) || left || reshaped {
		u.addTo(shape, 1)
	}

	p.renew(u)
	return u
}

// beginLife gives the bucket another life if the write creates it again, or its
// first one if another program created it. A plain write needs none: its response
// shows which bucket paid.
func (p *payer) beginLife(u *update) {
	switch {
	case p.plan.recreate:
		u.setTo(u.attr(attrLife), nextLife(p.cached.image.life))
	case p.cached.image.life == "": // unless another process has given it one meanwhile
		attr := u.attr(attrLife)
		u.set = appendWords(u.set, ", ", attr, "=", "if_not_exists("+attr+",", u.value(newLife())+")")
	}
}

// newLife returns an identity that no other life of the bucket has.
func newLife() types.AttributeValue { return text(rand.Text()[:lifeLength]) }

// nextLife returns the identity of a bucket that is created again in the item of one that
// has expired. It begins like that of the first life, so that a lease can tell this from
// a bucket that was deleted: another process may have seen an earlier expiry.
func nextLife(life string) types.AttributeValue {
	if life == "" {
		return newLife()
	}
	return text(lineOf(life) + rand.Text()[:lifeLength])
}

// lineOf returns the part of an identity that lives in one item have in common.
func lineOf(life string) string { return life[:min(len(life), lifeLength)] }

// lifeLength is enough for 50 random bits. Only the lives of one bucket must differ.
const lifeLength = 10

// move returns what a locked write does to limit i of the plan.
func (p *payer) move(i int, amounts *limiter.Amounts, floor bool) move {
	after := &p.plan.after
	v := after.Level(i)
	m := move{to: v.Limit, rate: rateOf(v.Limit), tokens: v.Tokens, start: v.Start, peak: v.Peak, hidden: v.Hidden}
	var n int64
	n, m.named = amounts.Lookup(m.to.Name)
	m.used = bucket.Thousandths(n)

	if f := p.plan.fill; f != nil {
		// A top-up has an ID, and a reset has none.
		m.sets = f.ID == "" && (len(f.Limits) == 0 || slices.Contains(f.Limits, m.to.Name))
		_, m.adds = f.Amounts.Lookup(m.to.Name)
	}

	if p.override && n > 0 {
		m.reserve = p.reserve(m.to)
	}

	if p.spares(m.to.Name) {
		if p.plan.counts {
			// No balance covers more than the capacity, so there is nothing to
			// require then.
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

// leaveLimits writes the limits of an image that are not in force: those in left stay,
// refilled, and the others are removed. It reports whether one leaves or is removed. The
// removal of a limit requires the tokens of the image: a limit that is back in force
// and was charged since would otherwise join again, full. A bucket that is created again
// has only recalled limits in left.
func (u *update) leaveLimits(img *image, left []rules.Level, inForce []limiter.Limit, again bool) (changed bool) {
	has := func(name string) bool {
		return slices.ContainsFunc(inForce, func(l limiter.Limit) bool { return l.Name == name })
	}

	for c := range img.all() {
		if has(c.name) {
			continue
		}
		i := slices.IndexFunc(left, func(v rules.Level) bool { return v.Limit.Name == c.name })
		if i < 0 {
			u.when(u.attr(bucketAttr(c.name, fieldTokens)), "=", u.number(c.tokens))
			u.dropLimit(c)
			changed = true
			continue
		}

		m := c.leave(left[i])
		if again {
			m.named, m.used = true, recalled(left[i]).used
		}
		u.changeLimit(c, &m)
		changed = changed || c.extras&hasLeft == 0
	}

	for i := range img.damaged {
		if c := &img.damaged[i]; !has(c.name) {
			u.dropLimit(c)
			changed = true
		}
	}

	for i := range img.loose {
		if c := &img.loose[i]; !has(c.name) {
			u.dropExtras(c)
		}
	}
	return changed
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

	switch keep := p.plan.after.Keep; keep {
	case img.keep:
	case 0:
		u.removeAttr(attrKeep)
	default:
		u.setTo(u.attr(attrKeep), number(keep))
	}

	// An override judges one call, and changes nothing else of a bucket that
	// exists.
	if p.override && !p.plan.recreate {
		return
	}

	if img.cascade != p.place.Cascade {
		u.setTo(u.attr(attrCascade), truth(p.place.Cascade))
	}

	switch parent := p.place.Parent; parent {
	case img.parent:
	case "":
		u.removeAttr(attrParent)
	default:
		u.setTo(u.attr(attrParent), text(parent))
	}
}

// newItem returns the item of a new bucket, charged.
func (p *payer) newItem(amounts *limiter.Amounts) item {
	it, after := newItem(p.repo.ns, p.key), &p.plan.after

	resource := p.account.Resource
	it[attrEntity], it[attrResource] = text(p.entity), text(resource)
	it[attrGSI2PK], it[attrGSI2SK] = text(resourcePK(p.repo.ns, resource)), text(bucketGSIPrefix+p.entity)
	it[attrRefill], it[attrCascade], it[attrLife] = number(after.At), truth(p.place.Cascade), newLife()

	if p.place.Parent != "" {
		it[attrParent] = text(p.place.Parent)
	}

	// Only a late charge creates a bucket while a level of its entity is off.
	// It gets the mark that SetSwitch would have given it.
	if p.off != nil && p.off.Scope.Entity != "" {
		it[attrOff] = copyOf(*p.off, lateCopy)
	}

	if after.Idle > 0 {
		it[attrTTL] = number(expiry(after))
	}

	for i := range after.Account.Limits {
		m := p.move(i, amounts, false)
		it.putLimit(&m)
	}
	for _, v := range after.Left {
		m := recalled(v)
		it.putLimit(&m)
	}
	return it
}

// putLimit adds a limit of a new bucket.
func (it item) putLimit(m *move) {
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
		it[bucketAttr(m.to.Name, part.field)] = number(part.n)
	}

	if m.leaves {
		it[bucketAttr(m.to.Name, fieldLeft)] = truth(true)
	}
	if m.to.Window != 0 {
		it[bucketAttr(m.to.Name, fieldWindow)] = text(rules.WindowText(m.to))
		it[bucketAttr(m.to.Name, fieldStart)] = number(m.start)
		it[bucketAttr(m.to.Name, fieldPeak)] = text(m.peakText())
	}
	if m.to.IsShadow {
		it[bucketAttr(m.to.Name, fieldShadow)] = truth(true)
	}
	if m.spares != 0 {
		it[bucketAttr(m.to.Name, fieldSpared)] = number(m.spares)
	}
}
