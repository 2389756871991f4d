package dynamo

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/chain"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// payer is one bucket's part in a charge: the limits in force, the image, and
// the plan that follows from both. payer_write.go carries the plan out.
type payer struct {
	repo     *Repository
	entity   string
	key      key
	account  *limiter.Account // with the limits in force
	override bool
	strict   bool            // shadow limits refuse as well
	defaults []limiter.Limit // of the charge, if no level stores limits

	// The entity is above the parent of the charge's, so that only limits stored for
	// itself count. If there are none, it is exempt: only its switches count.
	ownOnly, exempt bool

	// How long the bucket is kept without a write; 0 means forever.
	idle  int64
	place chain.Place // of the entity

	// Limits, switches and entity were read at one moment, no earlier than the
	// image.
	fresh   bool
	off     *limiter.Switch // refuses every charge; nil if no level is off
	offRead bool            // this call has read the switches

	// An error if no level stores limits and the charge has no defaults.
	noLimits error
	// The limits in force behind an override; nil if they are not known.
	stored *[]limiter.Limit

	cached           cachedBucket
	changes          uint64 // cached.changes when the call began
	verified         bool   // this call has read an image
	namespaceChecked bool   // this call has seen that the namespace is active

	// What this call read, if this process has learned of a later image since.
	overtaken *cachedBucket

	plan plan
	paid bool
}

// plan is the effect of a charge on a bucket, by its image.
type plan struct {
	now      int64          // time of the charge, which is the time of quotas
	at       int64          // time of rates, not before that of earlier writes
	base     int64          // time up to which the image is refilled
	view     limiter.Bucket // for the caller; take charges it before the write is sent
	turn     rules.Turn
	after    rules.Bucket  // what a locked write leaves; before take, what a repair leaves
	recreate bool          // there is no bucket, or it has expired
	repair   bool          // the item differs from the limits in force or the entity's record
	spared   []string      // shadow limits whose tokens do not pay
	counts   bool          // the write counts the spared limits
	fill     *limiter.Fill // what the write resets or tops up; nil for a charge
}

// owes reports whether the payer has not paid yet.
func (p *payer) owes() bool { return !p.paid }

// gatherPayer returns the payer of a charge of an entity, which is at a level of the
// chain. Cached records are no older than maxAge. The bucket is read if its image is not
// cached, or if read is set.
func (r *Repository) gatherPayer(
	ctx context.Context, now int64, entity string, level int, charge *limiter.Charge, maxAge time.Duration, read bool,
) (*payer, error) {
	p := &payer{
		repo: r, entity: entity, key: bucketKey(r.ns, entity, charge.Resource), strict: charge.Strict,
		ownOnly: level >= rules.OwnLimitsFrom,
	}
	p.override = charge.Limits != nil && !p.ownOnly

	p.cached = r.images.get(p.key, r.moment(now))
	p.changes = p.cached.changes

	// An ancestor without limits has no bucket to be read either.
	if p.ownOnly && p.cached.image == nil && !read && p.knowsFacts(now, charge, maxAge) {
		facts, _, _, err := p.lookup(ctx, now, charge, maxAge, false, r.getAll)
		if err == nil {
			err = p.apply(charge, facts, nil)
		}
		if err != nil || p.exempt {
			return p, err
		}
	}

	read = read || p.cached.image == nil || r.opts.NoSpeculation

	// Where a read is due, switches of the last second may refuse without it,
	// so that a level that is off costs a read a second at most. A late charge
	// is not refused.
	if read && maxAge > 0 && !charge.Late {
		if p.off = r.recentlyOff(now, entity, charge.Resource); p.off != nil {
			return p, nil
		}
	}

	facts, items, _, err := p.lookup(ctx, now, charge, maxAge, read, r.getAll)
	if err != nil {
		return nil, err
	}

	if err := p.apply(charge, facts, items); err != nil {
		return nil, err
	}
	return p, nil
}

// refresh reads all levels of limits, the entity and, unless this call has read
// it, the bucket at one moment. A repair from records older than the image would
// undo what others did to the bucket since, and a batch read does not show which
// of its items is older.
func (p *payer) refresh(ctx context.Context, now int64, charge *limiter.Charge) error {
	readBucket := !p.verified || p.cached.image == nil

	getTogether := func(ctx context.Context, keys []key) (found map[key]item, err error) {
		err = retry(ctx, func(err error, _ int) bool { return retryable(err) }, func() error {
			found, err = p.repo.getTogether(ctx, keys)
			// Writes of a busy bucket may cancel the transaction each time.
			// Facts that are read after its image suffice, so the next try
			// leaves the bucket out.
			if err != nil && p.cached.image != nil {
				keys = slices.DeleteFunc(keys, func(k key) bool { return k == p.key })
				readBucket = false
			}
			return err
		})
		return found, err
	}

	facts, items, all, err := p.lookup(ctx, now, charge, 0, readBucket, getTogether)
	if err != nil {
		return err
	}
	// Without the bucket among the items, apply would conclude that there is
	// none.
	if !readBucket {
		items = nil
	}

	err = p.apply(charge, facts, items)
	// If the image is overtaken, the facts may be older than the cached one.
	p.fresh = all && (items == nil || p.overtaken == nil)
	if err == nil {
		err = p.noLimits
	}
	return err
}

// firstLevel is the index of the most specific level in the facts of a charge:
// those of the namespace, of the entity, and of both kinds of switches precede it.
const firstLevel = 4

// lookup returns the facts that a charge needs, no older than maxAge, and reports
// whether it read all of them. With readBucket set it also reads the bucket, its
// namespace and the switches and returns them as items.
func (p *payer) lookup(
	ctx context.Context, now int64, charge *limiter.Charge, maxAge time.Duration, readBucket bool, get getter,
) (facts []*fact, items map[key]item, all bool, err error) {
	r := p.repo
	var more []key
	if readBucket {
		more = []key{p.key, namespaceIDKey(r.ns), switchKey(r.ns, p.entity), switchKey(r.ns, "")}
	}

	return r.lookupWith(ctx, now, maxAge, p.factKeys(charge), more, get)
}

// factKeys returns the keys of the facts that a charge needs.
func (p *payer) factKeys(charge *limiter.Charge) []factKey {
	r := p.repo
	keys := append(make([]factKey, 0, firstLevel+4), r.namespaceFact(), r.entityFact(p.entity),
		r.switchFact(p.entity), r.switchFact(""))
	if !p.override {
		keys = p.appendLevels(keys, charge.Resource)
	}
	return keys
}

// knowsFacts reports whether the facts that a charge needs are cached and no older than
// maxAge.
func (p *payer) knowsFacts(now int64, charge *limiter.Charge, maxAge time.Duration) bool {
	at := p.repo.moment(now)
	return !slices.ContainsFunc(p.factKeys(charge), func(k factKey) bool {
		return p.repo.cache.recent(at, maxAge, k) == nil
	})
}

// apply takes over facts and, if items is not nil, the bucket in it. A bucket
// must not be created in a namespace that is being purged, nor below a level that
// is off, so namespace and switches are checked as they were read with the bucket.
func (p *payer) apply(charge *limiter.Charge, facts []*fact, items map[key]item) error {
	if err := p.repo.namespaceError(facts[0]); err != nil {
		return err
	}

	p.place = facts[1].place
	own, all := facts[2].off, facts[3].off

	if items != nil {
		namespace := p.repo.namespaceFact()
		if f, _ := namespace.decode(items[namespace.key()]); !f.active {
			p.repo.cache.evict(namespace)
			return p.repo.namespaceError(f)
		}

		img, err := decodeImage(items[p.key])
		if err != nil {
			return err
		}

		p.observe(img)
		p.namespaceChecked = true
		own, all = p.repo.readSwitches(p.entity, own, items), p.repo.readSwitches("", all, items)
		p.offRead = true
	}

	p.off = refusing(own, all, p.entity, charge.Resource)
	p.noLimits = p.resolveLimits(charge, facts[firstLevel:])
	return nil
}

// observe takes over the image in the response to a request of this call, nil
// for none.
func (p *payer) observe(img *image) {
	read := p.cached
	read.image = img
	p.cached, p.verified, p.overtaken, p.fresh = p.repo.images.observe(p.key, img, &p.cached), true, nil, false
	if p.cached.image != img {
		p.overtaken = &read
	}
}

// readBucket reads the image.
func (p *payer) readBucket(ctx context.Context) error {
	it, err := p.repo.get(ctx, p.key)
	if err != nil {
		return err
	}
	img, err := decodeImage(it)
	if err != nil {
		return err
	}
	p.observe(img)
	return nil
}

// decide makes the plan of a charge at now.
func (p *payer) decide(now int64) {
	// In a bucket that Python made, a quota has no window yet.
	if p.cached.image != nil && !p.override {
		p.cached.image = p.cached.image.adopt(p.account.Limits)
	}

	img := p.cached.image
	p.plan = plan{now: now, at: max(now, p.cached.lastWrite)}
	pl := &p.plan
	// A client with a slow clock may have written an earlier refill time. A
	// refill from there would give the same time twice.
	if img != nil {
		pl.base = max(img.refill, p.cached.maxRefill)
	}

	pl.recreate = img == nil || p.cached.expired(now, p.repo.ttl)

	if p.defaults != nil {
		var own []limiter.Limit // of the bucket, which keeps them
		if !pl.recreate {
			own = img.limits()
		}
		p.setLimits(rules.Defaults(p.defaults, own), p.account.Resource, limiter.Scope{})
	}

	if pl.recreate {
		pl.at = now
		pl.after = rules.New(now, p.account, p.idle)
		pl.repair = img != nil && p.differs(img)
	} else {
		p.follow(img)
	}

	pl.turn = rules.BeginAt(&pl.after, pl.at, now)
	if p.override {
		pl.turn = rules.BeginOverride(&pl.after, pl.at, now, p.account.Limits)
	}

	pl.at = max(pl.at, pl.after.At)
	pl.view = pl.turn.View
	pl.view.Ahead = rules.Ahead(pl.at, now)
}

// follow makes the plan's bucket from the image, under the limits in force.
func (p *payer) follow(img *image) {
	pl := &p.plan
	pl.repair = p.differs(img)

	if p.override {
		own := &limiter.Account{
			Entity: p.entity, Resource: p.account.Resource, Limits: img.limits(), Ref: p.account.Ref,
		}
		pl.after = img.bucket(own, pl.base, p.cached.idle(p.repo.ttl))

		// The limits of the bucket were in force until this process last wrote
		// it.
		refillRates(&pl.after, p.cached.lastWrite)
		if p.stored != nil {
			// FollowOverride fails only if the book does, and NoBook does not.
			_ = pl.after.FollowOverride(pl.at, pl.now, p.account.Limits, *p.stored, rules.NoBook)
		}
		return
	}

	if img.hasExactly(p.account.Limits) {
		pl.after = img.bucket(p.account, pl.base, p.idle)
		// A plain write leaves the refill time alone, which makes the bucket
		// look idle for longer than it was.
		pl.after.Expires = max(pl.after.Expires, bucket.Add(p.cached.lastWrite, p.idle))
		return
	}

	pl.after = img.bucket(&limiter.Account{Limits: img.limits()}, pl.base, p.idle)
	refillRates(&pl.after, pl.at)
	_, _ = pl.after.Repair(pl.now, p.account, p.idle, rules.NoBook)
}

// mayFollow reports whether the bucket follows the override unless a level holds its
// limits, which are not known yet.
func (p *payer) mayFollow() bool {
	return p.override && p.stored == nil && !p.plan.recreate && rules.OverridesQuota(p.cached.image.limits(),
		p.account.Limits)
}

// differs reports whether the item has other limits than those in force, another
// parent than the entity's record, or the copy of a switch although no level is
// off.
func (p *payer) differs(img *image) bool {
	return p.hasStrayCopy(img) || !p.override &&
		(!img.hasExactly(p.account.Limits) || (img.ttl != 0) != (p.idle != 0) || img.cascade != p.place.Cascade ||
			img.parent != p.place.Parent)
}

// covers reports whether the bucket has enough of each of its limits that refuse.
func (p *payer) covers(amounts *limiter.Amounts) bool {
	for i, l := range p.plan.view.Account.Limits {
		if l.IsShadow && !p.strict {
			continue
		}
		if n, named := amounts.Lookup(l.Name); named && p.plan.view.Tokens[i] < bucket.Thousandths(n) {
			return false
		}
	}
	return true
}

// take takes the amounts in the plan, and spares shadow limits that do not cover
// theirs.
func (p *payer) take(amounts *limiter.Amounts) {
	pl := &p.plan
	pl.turn.Pay(amounts)

	_ = pl.turn.Commit(amounts, rules.NoBook) // cannot fail without a book
	if pl.view.Detail = pl.turn.View.Detail; pl.view.Detail == nil {
		return
	}

	for i, spared := range pl.view.Detail.Spared {
		if spared {
			pl.spared, pl.counts = append(pl.spared, pl.view.Account.Limits[i].Name), true
		}
	}
}

// untake adds to the view what undo gives back.
func (p *payer) untake(amounts *limiter.Amounts) {
	view := &p.plan.view
	tokens := make([]int64, len(view.Tokens))
	for i, l := range view.Account.Limits {
		n, _ := amounts.Lookup(l.Name)
		if p.spares(l.Name) {
			n = 0
		}
		tokens[i] = min(view.Tokens[i]+n*bucket.Milli, l.Capacity*bucket.Milli)
	}

	view.Tokens = tokens
	if view.Detail != nil && view.Detail.Spared != nil {
		detail := *view.Detail
		detail.Spared = nil
		if view.Detail = &detail; detail.Starts == nil {
			view.Detail = nil
		}
	}
}

// provesRefusal reports whether what this call has read suffices to refuse. An
// overtaken image lacks what accrued between its refill time and the later one.
// It proves a refusal only if it refuses from its own refill time.
func (p *payer) provesRefusal(now int64, amounts *limiter.Amounts) bool {
	if p.overtaken == nil {
		return p.verified
	}

	q := *p
	q.cached = *p.overtaken
	q.decide(now)
	return !q.covers(amounts)
}

// refusedRecently reports whether the last refusal may be repeated without a
// request.
func (p *payer) refusedRecently(now int64) bool {
	last := p.cached.refused
	return !p.repo.opts.NoRejectionMemory && !last.clock.IsZero() && !last.olderThan(rejectionLife, p.repo.moment(now))
}

// needsRepair reports whether a bucket exists that differs from the limits in
// force.
func (p *payer) needsRepair(now int64) bool {
	if p.cached.image == nil {
		return false
	}
	p.decide(now)
	return p.plan.repair && !p.plan.recreate
}
