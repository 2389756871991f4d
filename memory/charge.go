package memory

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Consume takes every amount, or nothing.
func (r *Repository) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (out limiter.Outcome, err error) {
	if err := r.usable(ctx); err != nil {
		return out, err
	}
	ms := now.UnixMilli()
	if r.sweeper.due(ms) {
		r.sweeper.run(ms, r.machine)
	}
	if done, err := r.consumeKnown(ms, &charge, &out); done {
		return out, err
	}
	return r.charge(ms, &charge, true)
}

// Peek is the outcome Consume would have.
func (r *Repository) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	if err := r.usable(ctx); err != nil {
		return limiter.Outcome{}, err
	}
	return r.charge(now.UnixMilli(), &charge, false)
}

// consumeKnown is Consume in the common case: the bucket is there, it pays
// alone, and no entity or limit changed since it was looked up. One shard's
// lock is enough for that.
func (n *namespace) consumeKnown(now int64, charge *limiter.Charge, out *limiter.Outcome) (done bool, err error) {
	if charge.Limits != nil {
		return false, nil
	}
	s := n.shard(charge.Entity)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, local := n.live(s, limiter.Scope{Entity: charge.Entity, Resource: charge.Resource}, now, true)
	if e == nil || e.cascade || e.facts != n.facts.Load() || e.unlike(charge.Defaults) {
		return false, nil
	}
	return true, e.Charge(local, &charge.Amounts, s.book, out)
}

// side is one payer of a charge.
type side struct {
	shard *shard
	key   limiter.Scope
	entry *entry // a new one is not stored before it is charged
	turn  rules.Turn
	undo  func() // takes a repair back, nil if there was none
	now   int64  // the time of the call, in the bucket's terms
}

// live is the bucket at a key, nil if there is none or it has expired, with the
// time of the call in its terms. A bucket that is too far ahead is pulled back:
// the stored one, if something may be written.
func (n *namespace) live(s *shard, key limiter.Scope, now int64, write bool) (e *entry, local int64) {
	if e = s.get(key); e == nil {
		return nil, now
	}
	local, back := n.machine.Local(&e.Bucket, now)
	if e.Gone(local) {
		return nil, now
	}
	if back > 0 {
		if !write {
			e = &entry{Bucket: e.Clone(), facts: e.facts}
		}
		e.PullBack(back)
	}
	return e, local
}

// charge decides with everything that may bear on it locked.
func (n *namespace) charge(now int64, charge *limiter.Charge, write bool) (limiter.Outcome, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	parent := n.parent(charge.Entity)
	defer n.lockPair(charge.Entity, parent)()

	sides := make([]*side, 1, 2)
	var err error
	if sides[0], err = n.begin(now, charge.Entity, charge, write); err != nil {
		return limiter.Outcome{}, err
	}
	defer func() {
		if err != nil { // bad input writes nothing
			for _, p := range sides {
				p.restore()
			}
		}
	}()
	sides[0].entry.cascade = parent != ""
	out := limiter.Outcome{Self: sides[0].turn.View}
	if parent != "" {
		var payer *side
		if payer, err = n.begin(now, parent, charge, write); err != nil {
			return limiter.Outcome{}, err
		}
		payer.entry.cascade = n.parent(parent) != ""
		sides, out.Parent = append(sides, payer), payer.turn.View
	}
	if out.Admitted, err = rules.Judge(&charge.Amounts, out.Self, out.Parent); err != nil {
		return limiter.Outcome{}, err
	}
	if !out.Admitted {
		return out, nil
	}
	for _, p := range sides {
		p.turn.Pay(&charge.Amounts)
		if write {
			if err = p.commit(charge); err != nil {
				return limiter.Outcome{}, err
			}
		}
	}
	return out, nil
}

// parent is who else pays for an entity, or "".
func (n *namespace) parent(entity string) string {
	if e := n.entities[entity]; e.Cascade {
		return e.Parent
	}
	return ""
}

// begin brings an entity's bucket to now under the limits in force.
func (n *namespace) begin(now int64, entity string, charge *limiter.Charge, write bool) (*side, error) {
	p := &side{shard: n.shard(entity), key: limiter.Scope{Entity: entity, Resource: charge.Resource}}
	p.entry, p.now = n.live(p.shard, p.key, now, write)
	if charge.Limits != nil {
		limits := rules.Sorted(charge.Limits)
		if p.entry == nil {
			p.entry = n.fresh(now, p.key, limitSet{limits: limits})
		}
		p.turn = rules.BeginOverride(&p.entry.Bucket, p.now, limits)
		return p, nil
	}
	if p.entry == nil || p.entry.facts != n.facts.Load() || p.entry.unlike(charge.Defaults) {
		in := n.resolve(p.key).or(charge.Defaults, p.entry)
		if in.limits == nil {
			return nil, rules.NoLimits(entity, charge.Resource)
		}
		if p.entry == nil {
			p.entry = n.fresh(now, p.key, in)
		} else if err := p.repair(n, in, write); err != nil {
			return nil, err
		}
	}
	p.turn = rules.Begin(&p.entry.Bucket, p.now)
	return p, nil
}

// repair makes the stored bucket follow the limits in force, or a copy of it if
// nothing is to be written.
func (p *side) repair(n *namespace, in limitSet, write bool) error {
	account := account(p.key, in, p.entry)
	book := rules.Book(p.shard.book)
	if !write {
		p.entry = &entry{Bucket: p.entry.Clone()}
		book = rules.NoBook
	} else {
		_ = p.entry.Flush(book) // the book of this store does not fail, and what is in it stays
		before, facts := p.entry.Clone(), p.entry.facts
		p.undo = func() { p.entry.Bucket, p.entry.facts = before, facts }
		p.entry.facts = n.facts.Load()
	}
	_, err := p.entry.Repair(p.now, account, in.idle(n.ttl), book)
	return err
}

func (p *side) restore() {
	if p.undo != nil {
		p.undo()
	}
}

// sync makes the bucket of an entity and resource follow a change of limits
// that are for both: the operator means this bucket, at this time. The caller
// holds mu.
func (n *namespace) sync(now int64, key limiter.Scope) error {
	in := n.resolve(key)
	if key.Level() != "entity" || in.limits == nil {
		return nil
	}
	s := n.shard(key.Entity)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, local := n.live(s, key, now, true)
	if e == nil {
		return nil
	}
	_, err := e.Repair(local, account(key, in, e), in.idle(n.ttl), s.book)
	return err
}

func (n *namespace) fresh(now int64, key limiter.Scope, in limitSet) *entry {
	// In one piece, because a charge touches both.
	both := &struct {
		entry
		account limiter.Account
	}{}
	e := &both.entry
	both.account = *account(key, in, e)
	e.facts, e.number = n.facts.Load(), n.made.Add(1)
	e.Bucket = rules.New(now, &both.account, in.idle(n.ttl))
	return e
}

func account(key limiter.Scope, in limitSet, e *entry) *limiter.Account {
	return &limiter.Account{Entity: key.Entity, Resource: key.Resource, Limits: in.limits, Source: in.source, Default: in.isDefault, Ref: e}
}

// limitSet holds the limits in force, nil if there are none, and where they come
// from.
type limitSet struct {
	limits    []limiter.Limit
	source    limiter.Scope
	isDefault bool
}

// or is the rules, or else the defaults of a charge for a bucket, which is nil
// if it is new.
func (in limitSet) or(defaults []limiter.Limit, e *entry) limitSet {
	if in.limits != nil || len(defaults) == 0 {
		return in
	}
	var own []limiter.Limit
	if e != nil {
		own = e.Account.Limits
	}
	return limitSet{limits: rules.Defaults(defaults, own), isDefault: true}
}

// unlike reports whether the bucket has the defaults of a charge, but others than
// these.
func (e *entry) unlike(defaults []limiter.Limit) bool {
	return e.Account.Default && !rules.Follows(e.Account.Limits, defaults)
}

func (in limitSet) idle(ttl int) int64 { return rules.Idle(in.limits, in.source, ttl) }

// commit stores what was paid.
func (p *side) commit(charge *limiter.Charge) error {
	if p.shard.get(p.key) != p.entry {
		p.shard.put(p.entry)
	}
	if charge.Limits != nil {
		p.entry.facts = 0 // an override may have shaped it: look the stored limits up next time
	}
	return p.turn.Commit(&charge.Amounts, p.shard.book)
}

// resolve is the first level that holds limits. The caller holds mu.
func (n *namespace) resolve(key limiter.Scope) limitSet {
	for _, s := range limiter.Precedence(key.Entity, key.Resource) {
		if cfg := n.configs[s]; len(cfg.Limits) > 0 {
			return limitSet{limits: cfg.Limits, source: s}
		}
	}
	return limitSet{}
}

// Credit gives back or takes more. A bucket that was removed is skipped, unless
// it only expired and more is taken: then it is made again, to pay.
func (r *Repository) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	if ms := now.UnixMilli(); r.sweeper.due(ms) {
		r.sweeper.run(ms, r.machine)
	}
	for _, c := range credits {
		if err := r.credit(now.UnixMilli(), c); err != nil {
			return err
		}
	}
	return nil
}

func (n *namespace) credit(now int64, c limiter.Credit) error {
	e, ok := c.Account.Ref.(*entry)
	if !ok {
		return &limiter.InvalidError{Field: "account", Value: c.Account.Entity, Reason: "was not made by this store"}
	}
	s := n.shard(c.Account.Entity)
	s.mu.Lock()
	dead := n.purged.Load() || e.number <= s.deleted[c.Account.Entity].last
	local, back := n.machine.Local(&e.Bucket, now)
	if dead || !e.swept && !e.Gone(local) {
		defer s.mu.Unlock()
		if dead {
			return nil
		}
		e.PullBack(back)
		return e.Credit(local, &c.Amounts, s.book)
	}
	s.mu.Unlock()
	if takes, some := rules.Takes(&c.Amounts); some {
		return n.take(now, c.Account, &takes)
	}
	return nil
}

// take charges the bucket that is now where an expired one was. If there is
// none it is made, under the limits in force, or those of the lease.
func (n *namespace) take(now int64, of *limiter.Account, takes *limiter.Amounts) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	key := limiter.Scope{Entity: of.Entity, Resource: of.Resource}
	s := n.shard(key.Entity)
	s.mu.Lock()
	defer s.mu.Unlock()
	current, local := n.live(s, key, now, true)
	if current == nil {
		in := n.resolve(key)
		if in.limits == nil {
			in = limitSet{of.Limits, of.Source, of.Default}
		}
		current = n.fresh(now, key, in)
		current.facts = 0
		s.put(current)
	}
	return current.Credit(local, takes, s.book)
}

// Buckets are those of an entity, a resource or both.
func (r *Repository) Buckets(ctx context.Context, now time.Time, of limiter.Scope) iter.Seq2[limiter.Bucket, error] {
	return rules.Sequence(func() ([]limiter.Bucket, error) {
		if err := r.usable(ctx); err != nil {
			return nil, err
		}
		all := r.buckets(now.UnixMilli(), of)
		slices.SortFunc(all, func(a, b limiter.Bucket) int {
			return cmp.Or(cmp.Compare(a.Account.Resource, b.Account.Resource), cmp.Compare(a.Account.Entity, b.Account.Entity))
		})
		return all, nil
	})
}

func (n *namespace) buckets(now int64, of limiter.Scope) (all []limiter.Bucket) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for i := range n.shards {
		if of.Entity != "" && i != n.index(of.Entity) {
			continue
		}
		s := &n.shards[i]
		s.mu.Lock()
		for e := range s.each(of) {
			if local, back := n.machine.Local(&e.Bucket, now); !e.Gone(local) {
				all = append(all, n.view(local, back, keyOf(e), e))
			}
		}
		s.mu.Unlock()
	}
	return all
}

// view is the bucket as the next charge would find it.
func (n *namespace) view(now, back int64, key limiter.Scope, e *entry) limiter.Bucket {
	b := e.Clone()
	b.PullBack(back)
	if in := n.resolve(key); in.limits != nil {
		_, _ = b.Repair(now, account(key, in, e), 0, rules.NoBook)
	}
	return rules.Begin(&b, now).View
}
