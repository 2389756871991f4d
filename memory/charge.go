package memory

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/chain"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Consume takes every amount of a charge, or none.
func (r *Repository) Consume(
	ctx context.Context, now time.Time, charge limiter.Charge,
) (out limiter.Outcome, err error) {
	if err := r.requireActive(ctx); err != nil {
		return out, err
	}

	ms := now.UnixMilli()
	if r.sweeper.due(ms) {
		r.sweeper.run(ms, r.machine)
	}

	if done, err := r.consumeFast(ms, &charge, &out); done {
		return out, err
	}
	return r.charge(ms, &charge, true)
}

// Peek returns the outcome that Consume would have, and writes nothing.
func (r *Repository) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	if err := r.requireActive(ctx); err != nil {
		return limiter.Outcome{}, err
	}
	return r.charge(now.UnixMilli(), &charge, false)
}

// consumeFast handles the common case of Consume under the lock of one shard: the
// bucket exists, pays alone, and belongs to the current generation. It reports
// false in other cases.
func (n *namespace) consumeFast(now int64, charge *limiter.Charge, out *limiter.Outcome) (done bool, err error) {
	// Charge judges by the bucket's own limits, and spares shadow limits.
	if charge.Limits != nil || charge.Strict {
		return false, nil
	}

	s := n.shard(charge.Entity)
	s.mu.Lock()
	defer s.mu.Unlock()

	// A change of an entity, a limit or a switch begins a new generation. A
	// bucket of the current one needs no look at any of them.
	e, local := n.lookup(s, limiter.Scope{Entity: charge.Entity, Resource: charge.Resource}, now, true)
	if e == nil || e.cascade || e.generation != n.generation.Load() || e.hasOtherDefaults(charge.Defaults) {
		return false, nil
	}
	return true, e.Charge(local, &charge.Amounts, s.book, out)
}

// lookup returns the bucket at a key and the time of the call on its clock. It
// returns nil if there is no bucket or it has expired. It pulls back a bucket
// that is too far ahead: the stored one if write is set, or else a copy.
func (n *namespace) lookup(s *shard, key limiter.Scope, now int64, write bool) (e *entry, local int64) {
	if e = s.get(key); e == nil {
		return nil, now
	}

	local, back := n.machine.Local(&e.Bucket, now)
	if e.Gone(local) {
		return nil, now
	}

	if back > 0 {
		// A peek writes nothing, so it pulls a copy back.
		if !write {
			e = &entry{Bucket: e.Clone(), generation: e.generation}
		}
		e.PullBack(back)
	}
	return e, local
}

// payer is one bucket's part in a charge.
type payer struct {
	shard *shard
	key   limiter.Scope
	entry *entry // a new one is stored only when it is charged
	turn  rules.Turn
	undo  func() // reverts a repair; nil if there was none
	now   int64  // the time of the call on the bucket's clock
	// own holds the limits that the bucket had before it followed an override. It
	// is nil if the bucket followed none.
	own []limiter.Limit
}

// charge handles every case of Consume and Peek. It locks the namespace and the
// shards of all payers.
func (n *namespace) charge(now int64, charge *limiter.Charge, write bool) (limiter.Outcome, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	levels, err := n.chain(charge.Entity)
	// A late charge records work that is done, so switches do not refuse it.
	if off := n.switches.Refusing(levels, charge.Resource); off != nil && !charge.Late {
		return limiter.Outcome{}, off.Refuse(charge.Entity, charge.Resource)
	}
	if err != nil {
		return limiter.Outcome{}, err
	}
	defer n.lockAll(levels)()

	payers := make([]*payer, 0, len(levels))
	out := limiter.Outcome{Payers: make([]limiter.Bucket, 0, len(levels))}
	defer func() {
		for _, p := range payers {
			// Invalid input writes nothing, so the repair is undone.
			if err != nil {
				p.revert()
			}
			// A late charge may concern a level that is off. The next charge
			// must not pass the switches on the fast path.
			if charge.Late {
				p.entry.generation = 0
			}
		}
	}()

	for level, entity := range levels {
		var p *payer
		if p, err = n.begin(now, entity, level, charge, write); err != nil {
			return limiter.Outcome{}, err
		}
		if p == nil {
			out.Exempt = append(out.Exempt, entity)
			continue
		}
		// The fast path serves buckets that pay alone, and knows them by this.
		p.entry.cascade = n.parent(entity) != ""
		payers, out.Payers = append(payers, p), append(out.Payers, p.turn.View)
	}

	if out.Admitted, err = rules.Judge(charge, out.Payers); err != nil {
		return limiter.Outcome{}, err
	}

	if !out.Admitted {
		for _, p := range payers {
			p.refuse(charge)
		}
		return out, nil
	}

	for i, p := range payers {
		// Pay may make the Detail of a view, which out copied before. The
		// tokens are shared.
		p.turn.Pay(&charge.Amounts)
		out.Payers[i].Detail = p.turn.View.Detail

		if write {
			if err = p.commit(charge); err != nil {
				return limiter.Outcome{}, err
			}
		}
	}
	return out, nil
}

// chain returns an entity and the ancestors that its charges reach.
func (n *namespace) chain(entity string) ([]string, error) {
	return rules.Climb(entity, n.place)
}

// place returns where the charges of an entity go.
func (n *namespace) place(id string) (chain.Place, error) {
	e := n.entities[id]
	return rules.PlaceOf(&e), nil
}

// parent returns the parent that an entity cascades to, or "".
func (n *namespace) parent(entity string) string {
	if e := n.entities[entity]; e.Cascade {
		return e.Parent
	}
	return ""
}

// begin starts the charge of the bucket of an entity, which is at a level of the chain,
// under the current limits. It returns nil if the entity does not pay.
func (n *namespace) begin(
	now int64, entity string, level int, charge *limiter.Charge, write bool,
) (*payer, error) {
	ownOnly := level >= rules.OwnLimitsFrom
	p := &payer{shard: n.shard(entity), key: limiter.Scope{Entity: entity, Resource: charge.Resource}}
	p.entry, p.now = n.lookup(p.shard, p.key, now, write)

	if charge.Limits != nil && !ownOnly {
		limits := rules.Sorted(charge.Limits)
		if p.entry == nil {
			p.entry = n.newEntry(now, p.key, limitSet{limits: limits})
		}
		if err := p.follow(n, limits, charge.Defaults, write); err != nil {
			return nil, err
		}

		p.turn = rules.BeginOverride(&p.entry.Bucket, p.now, p.now, limits)
		return p, nil
	}

	if p.entry == nil || p.entry.generation != n.generation.Load() || p.entry.hasOtherDefaults(charge.Defaults) {
		in := n.resolve(p.key)
		if ownOnly && in.source.Entity == "" {
			return nil, nil //nolint:nilnil // nothing is stored for the entity, so it does not pay
		}
		if in = in.withDefaults(charge.Defaults, p.entry); in.limits == nil {
			return nil, rules.NoLimits(entity, charge.Resource)
		}
		if p.entry == nil {
			p.entry = n.newEntry(now, p.key, in)
		} else if err := p.repair(n, in, write); err != nil {
			return nil, err
		}
	}

	if ownOnly && p.entry.Account.Source.Entity == "" {
		return nil, nil //nolint:nilnil // as above, for a bucket of its own charges
	}
	p.turn = rules.Begin(&p.entry.Bucket, p.now)
	return p, nil
}

// repair applies the current limits to the stored bucket, or to a copy if write is
// not set.
func (p *payer) repair(n *namespace, in limitSet, write bool) error {
	// The account refers to the stored bucket, and open may replace p.entry by
	// a copy.
	account := account(p.key, in, p.entry)
	book := p.open(write)
	p.entry.generation = n.generation.Load()
	_, err := p.entry.Repair(p.now, account, in.idle(n.ttl), book)
	return err
}

// follow makes the stored bucket, or a copy if write is not set, follow the quotas of
// an override that no level and no default holds.
func (p *payer) follow(n *namespace, limits, defaults []limiter.Limit, write bool) error {
	own := p.entry.Account.Limits
	if !rules.OverridesQuota(own, limits) {
		return nil
	}

	stored := n.resolve(p.key).withDefaults(defaults, nil)
	book := p.open(write)
	p.own, p.entry.generation = own, 0
	return p.entry.FollowOverride(p.now, p.now, limits, stored.limits, book)
}

// open prepares a change of the stored bucket that revert undoes, or of a copy if
// write is not set.
func (p *payer) open(write bool) rules.Book {
	if !write {
		p.entry = &entry{Bucket: p.entry.Clone()}
		return rules.NoBook
	}
	// Undo does not revert what is booked, so the usage leaves the bucket
	// before the copy is made. book never fails.
	_ = p.entry.Flush(p.shard.book)
	before, generation := p.entry.Clone(), p.entry.generation
	p.undo = func() { p.entry.Bucket, p.entry.generation = before, generation }
	return p.shard.book
}

// refuse ends a charge that does not fit. The bucket does not follow an override that
// it refused, unless it would refuse it for too long.
func (p *payer) refuse(charge *limiter.Charge) {
	if p.own != nil && !rules.AwaitsOverride(p.own, p.turn.View, &charge.Amounts) {
		p.revert()
	}
}

// revert undoes a repair.
func (p *payer) revert() {
	if p.undo != nil {
		p.undo()
	}
}

// repairBucket applies a change of the limits of one entity and resource to their
// bucket at once. Other changes apply when a bucket is charged. The caller holds
// mu.
func (n *namespace) repairBucket(now int64, key limiter.Scope) error {
	in := n.resolve(key)
	if key.Level() != "entity" || in.limits == nil {
		return nil
	}

	s := n.shard(key.Entity)
	s.mu.Lock()
	defer s.mu.Unlock()

	e, local := n.lookup(s, key, now, true)
	if e == nil {
		return nil
	}
	_, err := e.Repair(local, account(key, in, e), in.idle(n.ttl), s.book)
	return err
}

// newEntry returns a full bucket that is not stored yet.
func (n *namespace) newEntry(now int64, key limiter.Scope, in limitSet) *entry {
	// One allocation, because a charge touches both.
	block := &struct {
		entry
		account limiter.Account
	}{}
	e := &block.entry
	block.account = *account(key, in, e)
	e.generation, e.seq = n.generation.Load(), n.created.Add(1)
	e.Bucket = rules.New(now, &block.account, in.idle(n.ttl))
	return e
}

func account(key limiter.Scope, in limitSet, e *entry) *limiter.Account {
	return &limiter.Account{
		Entity: key.Entity, Resource: key.Resource, Limits: in.limits, Source: in.source, Default: in.isDefault,
		Ref: e,
	}
}

// limitSet holds the current limits, nil if there are none, and their source.
type limitSet struct {
	limits    []limiter.Limit
	source    limiter.Scope
	isDefault bool
}

// withDefaults returns in, or the defaults of a charge if in has no limits. e is
// the bucket, nil if it is new.
func (in limitSet) withDefaults(defaults []limiter.Limit, e *entry) limitSet {
	if in.limits != nil || len(defaults) == 0 {
		return in
	}

	var own []limiter.Limit
	if e != nil {
		own = e.Account.Limits
	}
	return limitSet{limits: rules.Defaults(defaults, own), isDefault: true}
}

// hasOtherDefaults reports whether the bucket follows the defaults of an earlier
// charge that differ from these.
func (e *entry) hasOtherDefaults(defaults []limiter.Limit) bool {
	return e.Account.Default && !rules.Follows(e.Account.Limits, defaults)
}

func (in limitSet) idle(ttl int) int64 { return rules.Idle(in.limits, in.source, ttl) }

// commit writes the payment.
func (p *payer) commit(charge *limiter.Charge) error {
	// An expired bucket at the key is replaced only when its successor pays.
	if p.shard.get(p.key) != p.entry {
		p.shard.put(p.entry)
	}
	if charge.Limits != nil {
		// The override may have changed the limits of the bucket, so the next
		// charge looks them up.
		p.entry.generation = 0
	}
	return p.turn.Commit(&charge.Amounts, p.shard.book)
}

// resolve returns the limits of the first level that has any. The caller holds mu.
func (n *namespace) resolve(key limiter.Scope) limitSet {
	for _, s := range limiter.Precedence(key.Entity, key.Resource) {
		if cfg := n.configs[s]; len(cfg.Limits) > 0 {
			return limitSet{limits: cfg.Limits, source: s}
		}
	}
	return limitSet{}
}
