package dynamo

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// payer is one bucket's part in a charge: what is known of it, and what is to
// be done about it.
type payer struct {
	repo     *Repository
	entity   string
	key      key
	account  *limiter.Account // with the limits in force
	override bool
	idle     int64 // how long the bucket stays untouched, 0 for ever
	cascade  bool  // facts about the entity
	parent   string
	fresh    bool // the facts are of one moment, and no older than the image
	placed   bool // this call has seen that the namespace is active
	known    known
	verified bool   // an image was read by this call
	past     *known // what this call read, if this process has learned of something later since
	changes  uint64 // of the bucket by this process, before this call
	plan     plan
	paid     bool
	keeps    bool            // limits that are not in force stay: others still charge them
	defaults []limiter.Limit // of the charge, where no level holds limits
}

// plan is what a charge means for a bucket, by its image.
type plan struct {
	at       int64          // the time of the charge, in the bucket's terms
	base     int64          // up to when the image is refilled
	view     limiter.Bucket // for the caller; charged once it is paid
	turn     rules.Turn
	after    rules.Bucket // what a locked write leaves; before it is paid, what a repair leaves
	recreate bool         // there is no bucket, or one that is gone
	repair   bool         // limits or facts in the item are not those in force
}

// payer finds everything a charge of an entity needs, except that a bucket
// whose image is remembered is not read. Facts are no older than life.
func (r *Repository) payer(ctx context.Context, now int64, entity string, charge *limiter.Charge, life time.Duration, read bool) (*payer, error) {
	p := &payer{repo: r, entity: entity, key: bucketKey(r.ns, entity, charge.Resource), override: charge.Limits != nil}
	p.known = r.images.get(p.key, moment{r.clock(), now})
	p.changes = p.known.changes
	var beside map[key]item
	if read || p.known.image == nil || r.opts.NoSpeculation {
		beside = p.items()
	}
	if _, err := p.learn(ctx, now, charge, life, beside, r.getAll); err != nil {
		return nil, err
	}
	return p, nil
}

// items are the bucket, and the namespace it is in.
func (p *payer) items() map[key]item {
	return map[key]item{p.key: nil, namespaceIDKey(p.repo.ns): nil}
}

// refresh reads what a repair hangs on at one moment: all levels of limits, the
// entity, and the bucket if this call has not read it yet. Facts that are older
// than the image would undo what others did to the bucket since. A batch does
// not tell which of its items is older.
func (p *payer) refresh(ctx context.Context, now int64, charge *limiter.Charge) error {
	var beside map[key]item
	if !p.verified || p.known.image == nil {
		beside = p.items()
	}
	together := func(ctx context.Context, keys []key) (map[key]item, error) {
		for try := 0; ; try++ {
			found, err := p.repo.getTogether(ctx, keys)
			if err == nil || !retryable(err) || try == maxTries {
				return found, err
			}
			if p.known.image != nil { // a busy bucket may conflict for ever; facts that are read after its image will do
				keys = slices.DeleteFunc(keys, func(k key) bool { return k == p.key })
				clear(beside)
			}
			if err := pause(ctx, try+1); err != nil {
				return nil, err
			}
		}
	}
	fresh, err := p.learn(ctx, now, charge, 0, beside, together)
	p.fresh = fresh && (len(beside) == 0 || p.past == nil)
	return err
}

// learn finds facts that are no older than life, and reads the items in beside.
// It reports whether it read all of the facts.
func (p *payer) learn(ctx context.Context, now int64, charge *limiter.Charge, life time.Duration, beside map[key]item, get getter) (fresh bool, err error) {
	r := p.repo
	scopes := limiter.Precedence(p.entity, charge.Resource)
	keys := append(make([]factKey, 0, 6), r.namespaceFact(), r.entityFact(p.entity))
	if !p.override {
		for _, s := range scopes {
			keys = append(keys, r.configFact(s))
		}
	}
	facts, fresh, err := r.lookupBeside(ctx, now, life, keys, beside, get)
	if err != nil {
		return false, err
	}
	if err := r.namespaceError(facts[0]); err != nil {
		return false, err
	}
	p.cascade, p.parent = facts[1].cascade, facts[1].parent
	if len(beside) > 0 {
		if err := p.saw(beside); err != nil {
			return false, err
		}
	}
	return fresh, p.settleLimits(charge, scopes, facts[2:])
}

// saw takes in a bucket that was read, and whether its namespace is still
// there: one must not be made in a namespace that is being purged.
func (p *payer) saw(read map[key]item) error {
	space := factKey{ns: p.repo.ns, kind: factNamespace}
	if f, _ := space.decode(read[space.key()]); !f.active {
		p.repo.cache.evict(space)
		return p.repo.namespaceError(f)
	}
	img, err := decodeImage(read[p.key])
	if err != nil {
		return err
	}
	p.sees(img)
	p.placed = true
	return nil
}

// sees takes in the image that a request of this call was answered with, nil for
// none.
func (p *payer) sees(img *image) {
	past := p.known
	past.image = img
	p.known, p.verified, p.past, p.fresh = p.repo.images.saw(p.key, img, &p.known), true, nil, false
	if p.known.image != img {
		p.past = &past
	}
}

// proven reports whether a refusal can rest on what this call has read. An answer
// that this process has overtaken lacks what accrued between its refill time and
// the one seen since: it proves nothing unless it refuses by itself.
func (p *payer) proven(now int64, amounts *limiter.Amounts) bool {
	if p.past == nil {
		return p.verified
	}
	q := *p
	q.known = *p.past
	q.decide(now)
	return !q.covers(amounts)
}

// settleLimits finds the limits in force: the override, or the first level that
// holds some.
func (p *payer) settleLimits(charge *limiter.Charge, scopes [4]limiter.Scope, configs []*fact) error {
	if p.override {
		p.use(rules.Sorted(charge.Limits), charge.Resource, limiter.Scope{})
		return nil
	}
	p.defaults = nil
	for i, f := range configs {
		if len(f.config.Limits) > 0 {
			p.use(f.config.Limits, charge.Resource, scopes[i])
			return nil
		}
	}
	if len(charge.Defaults) == 0 {
		return rules.NoLimits(p.entity, charge.Resource)
	}
	p.defaults = charge.Defaults
	p.use(rules.Defaults(charge.Defaults, nil), charge.Resource, limiter.Scope{})
	return nil
}

// use makes limits those in force. Accounts are shared while they say the same.
func (p *payer) use(limits []limiter.Limit, resource string, source limiter.Scope) {
	p.idle = rules.Idle(limits, source, p.repo.ttl)
	if a := p.known.account; a != nil && !p.override && a.Ref == p.known.ref && a.Source == source && a.Default == (p.defaults != nil) && slices.Equal(a.Limits, limits) {
		p.account = a
		return
	}
	p.account = &limiter.Account{
		Entity: p.entity, Resource: resource, Limits: limits, Source: source, Default: p.defaults != nil,
	}
	if p.known.ref != nil {
		p.account.Ref = p.known.ref
	}
}

// decide makes the plan of a charge at now.
func (p *payer) decide(now int64) {
	img := p.known.image
	p.plan = plan{at: max(now, p.known.now)}
	pl := &p.plan
	if img != nil {
		pl.base = max(img.refill, p.known.seen)
	}
	gone := img == nil || img.gone(pl.base, now)
	if p.defaults != nil {
		p.useDefaults(img, gone)
	}
	if gone {
		pl.recreate, pl.at = true, now
		pl.after = rules.New(now, p.account, p.idle)
		pl.repair = img != nil && p.differs(img)
	} else {
		p.follow(img)
	}
	pl.turn = rules.Begin(&pl.after, pl.at)
	if p.override {
		pl.turn = rules.BeginOverride(&pl.after, pl.at, p.account.Limits)
	}
	pl.at = max(pl.at, pl.after.At)
	pl.view = pl.turn.View
	pl.view.Ahead = rules.Ahead(pl.at, now)
}

// useDefaults makes the defaults of the charge the limits in force, and with them
// what else the bucket has.
func (p *payer) useDefaults(img *image, gone bool) {
	var own []limiter.Limit
	if !gone {
		own = img.limits()
	}
	p.use(rules.Defaults(p.defaults, own), p.account.Resource, limiter.Scope{})
}

// follow makes the plan's bucket that of the image, under the limits in force.
func (p *payer) follow(img *image) {
	pl := &p.plan
	if p.override {
		own := &limiter.Account{Entity: p.entity, Resource: p.account.Resource, Limits: img.limits(), Ref: p.account.Ref}
		pl.after = img.bucket(own, pl.base, p.known.idle(p.repo.ttl))
		pl.after.Advance(p.known.now) // until then its own limits ruled
		return
	}
	pl.repair = p.differs(img)
	if img.has(p.account.Limits) {
		pl.after = img.bucket(p.account, pl.base, p.idle)
		pl.after.Expires = max(pl.after.Expires, bucket.Add(p.known.now, p.idle))
		return
	}
	pl.after = img.bucket(&limiter.Account{Limits: img.limits()}, pl.base, p.idle)
	_, _ = pl.after.Repair(pl.at, p.account, p.idle, rules.NoBook)
}

// count is how many limits the bucket has after the charge: those of an override
// that it does not have join it.
func (p *payer) count() int {
	n := len(p.plan.after.Account.Limits)
	if !p.override || p.plan.recreate {
		return n
	}
	for _, l := range p.account.Limits {
		if p.known.image.find(l.Name) == nil {
			n++
		}
	}
	return n
}

// differs tells whether the item has other limits than those in force, or other
// facts about the entity.
func (p *payer) differs(img *image) bool {
	return !p.override &&
		(!img.has(p.account.Limits) || (img.ttl != 0) != (p.idle != 0) || img.cascade != p.cascade || img.parent != p.parent)
}

// covers tells whether the bucket has enough of every limit it has.
func (p *payer) covers(amounts *limiter.Amounts) bool {
	for i, l := range p.plan.view.Account.Limits {
		if n, named := amounts.Lookup(l.Name); named && p.plan.view.Tokens[i] < bucket.Thousandths(n) {
			return false
		}
	}
	return true
}

// remembersRefusal tells whether to refuse without asking.
func (p *payer) remembersRefusal(now int64) bool {
	refused := p.known.refused
	return !p.repo.opts.NoRejectionMemory && !refused.clock.IsZero() && !refused.olderThan(rejectionLife, moment{p.repo.clock(), now})
}

// read makes sure of the image.
func (p *payer) read(ctx context.Context) error {
	it, err := p.repo.get(ctx, p.key)
	if err != nil {
		return err
	}
	img, err := decodeImage(it)
	if err != nil {
		return err
	}
	p.sees(img)
	return nil
}
