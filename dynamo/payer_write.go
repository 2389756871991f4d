package dynamo

import (
	"context"
	"math"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// A debit of an existing bucket is one of two writes. A plain write leaves the
// refill time alone. That is right only while the bucket cannot have filled up
// since: time spent full must not be credited later. A locked write refills every
// limit up to the time of the charge, on condition that the refill time is the
// image's.

// ifNoBucket is the condition under which a bucket is created: there is no item,
// or one without a refill time.
const ifNoBucket = "attribute_not_exists(" + attrPK + ") OR attribute_not_exists(" + attrRefill + ")"

// write sends the debit of the plan. Afterwards the payer has paid, or it has the
// image that refused the debit, or there is an error. The end of ctx ends the
// retries and not a try, whose response shows its outcome.
func (p *payer) write(ctx context.Context, amounts *limiter.Amounts) error {
	try := context.WithoutCancel(ctx)

	if p.cached.image == nil {
		return p.applyResponse(sendWrite(ctx, maxUnknown, func() (item, error) { return p.put(try, amounts) }))
	}

	var u *update
	switch m := p.mode(amounts); {
	case m == modeLocked:
		u = p.lockedWrite(amounts, true)
		p.dropStrayCopy(u)
	// The payer has none of the limits that the charge names, so it pays
	// nothing, and a write would cost a unit.
	case !rules.Pays(p.account.Limits, amounts):
		p.paid = true
		if !p.override {
			p.cached = p.repo.images.shareAccount(p.key, p.cached, p.account)
			p.plan.view.Account = p.cached.account
		}
		return nil
	default:
		u = p.plainWrite(amounts, m)
	}

	// Another process may have turned the level off since the image. Its mark
	// then refuses the write.
	if p.cached.image.off == nil {
		u.requireOn()
	}

	in := u.input(&p.repo.table, p.key)
	if err := p.applyResponse(sendWrite(ctx, maxUnknown, func() (item, error) {
		return p.repo.updateOnce(try, in)
	})); err != nil || !p.paid {
		return err
	}
	p.repo.extendTTL(ctx, p.key, p.cached.image, p.plan.at)
	return nil
}

// put creates the bucket of the plan, unless one exists, and returns its item.
func (p *payer) put(ctx context.Context, amounts *limiter.Amounts) (item, error) {
	in := &dynamodb.PutItemInput{
		TableName: &p.repo.table, Item: p.newItem(amounts), ConditionExpression: aws.String(ifNoBucket),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	_, err := p.repo.once.PutItem(ctx, in)
	return in.Item, err
}

// applyResponse takes over the response to a debit: the stored item, or an error.
// A refusal is no error of the charge.
func (p *payer) applyResponse(stored item, err error) error {
	if err != nil && resultOf(err) == refused {
		return p.applyRefusal(refusedItem(err))
	}
	if err != nil {
		return p.repo.explain(err)
	}

	img, err := decodeImage(stored)
	switch {
	case err != nil:
		return err
	case img == nil:
		return p.repo.explain(errNoItem)
	}

	p.paid = true
	view := &p.plan.view
	// The latest refill time that was known when the debit was sent.
	maxRefill := p.cached.maxRefill

	if p.override {
		p.cached = p.repo.images.observeWrite(p.key, img, &p.cached, &p.plan.after, p.plan.recreate)
		a := *view.Account
		a.Ref, view.Account = p.cached.ref, &a
		return nil
	}

	p.cached = p.repo.images.observeCharge(p.key, img, &p.cached, &p.plan.after, p.plan.recreate, p.account)
	view.Account = p.cached.account

	// Others may have charged the bucket between the image and the write, so
	// the caller sees the balance in the response.
	for i, l := range view.Account.Limits {
		c := img.find(l.Name)
		if c == nil {
			continue
		}

		view.Tokens[i] = c.tokensAt(max(img.refill, maxRefill), p.plan.at, p.plan.now)
		// The write requires no window of a quota that it does not name, and
		// another process may have stepped it.
		if l.Window != 0 && c.follows(l) && c.start > view.Detail.Starts[i] {
			if view.Detail.Starts[i] = c.start; view.Detail.Peaks != nil {
				view.Detail.Peaks[i] = c.peak
			}
		}
	}
	return nil
}

// applyRefusal takes over the item that failed the condition of a write.
func (p *payer) applyRefusal(stored item) error {
	img, err := decodeImage(stored)
	if err != nil {
		return err
	}
	p.observe(img)
	// The next write creates the bucket, which the state of the namespace has
	// to allow.
	if img == nil {
		p.namespaceChecked = false
	}
	return nil
}

// maxRepairs is how often repair tries again after others changed the bucket.
const maxRepairs = 3

// repair makes a bucket follow the limits in force at now without charging it.
// The charge does not depend on it, so repair returns no error: the next charge
// tries again.
func (p *payer) repair(ctx context.Context, now int64, charge *limiter.Charge) {
	for range maxRepairs {
		u := p.lockedWrite(&limiter.Amounts{}, true)
		p.dropStrayCopy(u)
		stored, err := p.repo.updateOnce(ctx, u.input(&p.repo.table, p.key))
		if err == nil {
			if img, err := decodeImage(stored); err == nil && img != nil {
				p.cached = p.repo.images.observeCharge(p.key, img, &p.cached, &p.plan.after, false, p.account)
			}
			return
		}

		// Another process has changed the bucket. The limits may have changed
		// with it, so they are read again before the next try.
		if resultOf(err) != refused || p.applyRefusal(refusedItem(err)) != nil ||
			!p.needsRepair(now) || p.refresh(ctx, now, charge) != nil || !p.needsRepair(now) || !p.fresh {
			return
		}
	}
}

// storeOverride makes a bucket follow the override that it refused. The next charge
// tries again if it fails.
func (p *payer) storeOverride(ctx context.Context) {
	u := p.lockedWrite(&limiter.Amounts{}, true)
	p.dropStrayCopy(u)
	stored, err := p.repo.updateOnce(ctx, u.input(&p.repo.table, p.key))
	if err != nil {
		return
	}

	if img, err := decodeImage(stored); err == nil && img != nil {
		p.cached = p.repo.images.observeWrite(p.key, img, &p.cached, &p.plan.after, false)
	}
}

// mode is the kind of write of a debit.
type mode int

const (
	modeLocked mode = iota
	modePlain       // the image shows that no limit has filled up
	modeSlack       // plain, and only the slack allows it
)

// slack is the part of the capacity that a plain write may ignore, if the bucket
// was refilled so recently that no limit can have gained more.
const slack = 0.02

// slackStart returns the earliest refill time within the slack, and reports
// whether there is any slack.
func (p *payer) slackStart() (int64, bool) {
	if p.repo.opts.Exact {
		return 0, false
	}
	span := int64(slack * float64(p.cached.image.shortestFill()))
	return p.plan.at - span, span > 0
}

// mode picks the write that fits the image.
func (p *payer) mode(amounts *limiter.Amounts) mode {
	img := p.cached.image
	// Only a locked write repairs, and only it moves a refill time forward that
	// a slow clock has written back. A plain write knows no limits but the
	// bucket's, so it cannot judge by an override.
	if p.plan.recreate || p.plan.repair || img.refill < p.cached.maxRefill || p.override && !p.overridesNothing() {
		return modeLocked
	}

	// Stepping a quota and dropping a limit that has left take a locked write.
	// A charge that takes nothing from the bucket leaves both to others.
	if rules.Pays(p.account.Limits, amounts) && (img.due(p.plan.now) ||
		img.outgrown(p.plan.base, p.plan.at, p.plan.now)) {
		return modeLocked
	}

	start, slack := p.slackStart()
	unfilled, enough := true, true
	for i := range amounts.Len() {
		name, n := amounts.At(i)
		c := img.find(name)
		if c == nil {
			continue
		}
		// Python has changed the capacity and left the tokens, which have to
		// move with it.
		if c.shift != 0 {
			return modeLocked
		}

		if p.spares(name) {
			unfilled = unfilled && c.tokens <= p.uncovered(c, n, p.plan.base)
			slack = slack && c.tokens <= p.uncovered(c, n, start)
			continue
		}

		enough = enough && c.tokens >= bucket.Thousandths(n) && c.tokens <= c.rate.Capacity
		unfilled = unfilled && c.tokens <= c.ceiling(p.plan.base, p.plan.at)
	}

	switch {
	case enough && unfilled:
		return modePlain
	case enough && slack && img.refill >= start:
		return modeSlack
	}
	return modeLocked
}

// spares reports whether the plan spares a limit.
func (p *payer) spares(limit string) bool { return slices.Contains(p.plan.spared, limit) }

// uncovered returns the largest stored balance of a spared limit that does not
// cover n tokens at the time of the charge, if the limit was refilled at the
// time refilled or later. If 10 tokens can accrue since then, and the amount is
// 30, that is just below 20. An amount above the capacity is not covered by any
// balance.
func (p *payer) uncovered(c *storedLimit, n, refilled int64) int64 {
	amount := bucket.Thousandths(n)
	if amount > c.rate.Capacity {
		return math.MaxInt64
	}

	if c.every != 0 { // it is not due
		return amount - 1
	}

	return bucket.Sub(amount-1, bucket.Accrued(refilled, p.plan.at, c.rate))
}

// overridesNothing reports whether the bucket has every limit of the override as
// it is.
func (p *payer) overridesNothing() bool {
	for _, l := range p.account.Limits {
		// Whether one is a shadow limit changes no write.
		if c := p.cached.image.find(l.Name); c == nil || c.rate != rateOf(l) {
			return false
		}
	}
	return true
}

// plainWrite returns the plain debit of a charge.
func (p *payer) plainWrite(amounts *limiter.Amounts, m mode) *update {
	u, img := newUpdate(), p.cached.image

	refill := u.attr(attrRefill)
	start, slack := p.slackStart()
	var unfilled, withinSlack []byte
	quota := false

	// The tokens must leave room for what has accrued since the image's refill
	// time, or the bucket may have been full for a while, which a later refill
	// would credit. That bound holds only if the stored refill time is no
	// earlier.
	if m == modePlain {
		unfilled = and(nil, refill, ">=", u.number(p.plan.base))
	}

	// A bucket that was refilled within the slack has lost little in any case,
	// so processes that share it need not know its latest image.
	if slack {
		withinSlack = and(nil, refill, ">=", u.number(start))
	}

	for i := range amounts.Len() {
		name, n := amounts.At(i)
		c := img.find(name)
		if c == nil {
			continue
		}
		quota = quota || c.every != 0

		tokens := u.attr(bucketAttr(name, fieldTokens))
		if p.spares(name) {
			u.countSpared(c, n)
			if m == modePlain {
				unfilled = and(unfilled, tokens, "<=", u.number(p.uncovered(c, n, p.plan.base)))
			}
			if slack {
				withinSlack = and(withinSlack, tokens, "<=", u.number(p.uncovered(c, n, start)))
			}
			continue
		}

		amount := u.number(n * bucket.Milli)
		u.addTo(tokens, -n*bucket.Milli)
		u.addValue(u.attr(bucketAttr(name, fieldTotal)), amount)
		capacity := u.requireRate(c)
		if m == modePlain {
			unfilled = and(unfilled, tokens, "BETWEEN", amount, "AND", u.number(c.ceiling(p.plan.base, p.plan.at)))
		}
		if slack {
			// Python leaves more than a lowered capacity, which must not be
			// spent.
			withinSlack = and(withinSlack, tokens, "BETWEEN", amount, "AND", capacity)
		}
	}

	switch {
	case m == modeSlack:
		u.when(string(withinSlack))
	case slack:
		u.when("(" + string(unfilled) + " OR " + string(withinSlack) + ")")
	default:
		u.when(string(unfilled))
	}

	if quota {
		u.requireShape(img)
	}

	if img.ttl != 0 {
		u.setTo(u.attr(attrTTL), number(expiry(&p.plan.after)))
	}
	return u
}

// countSpared counts the usage of a limit that does not pay, and that it was spared.
// The tokens stay, so that it does not matter whether the limit has filled up.
func (u *update) countSpared(c *storedLimit, n int64) {
	u.addTo(u.attr(bucketAttr(c.name, fieldTotal)), bucket.Thousandths(n))
	u.addTo(u.attr(bucketAttr(c.name, fieldSpared)), 1)
	u.requireRate(c)
}

// extendTTL moves the ttl of a bucket, which was written at a time, to when the
// bucket is full, if that is later. The write computed its ttl from an image,
// and others may have taken more since.
func (s *store) extendTTL(ctx context.Context, k key, img *image, at int64) {
	if img.ttl == 0 {
		return
	}

	left := img.bucket(&limiter.Account{Limits: img.limits()}, img.refill, 0)
	refillRates(&left, at)

	if end := expiry(&left); end > img.ttl {
		u := newUpdate()
		ttl := u.attr(attrTTL)
		u.setTo(ttl, number(end))
		u.when(ttl, "<", u.number(end))

		// A refusal means that a later ttl is stored already.
		_, _ = s.client.UpdateItem(ctx, u.input(&s.table, k))
	}
}
