package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// Consume takes every amount of a charge, or none. It gives everything back if ctx
// ends before the charge is stored.
func (r *Repository) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	// The work may outlive its caller, so it shares no memory with it.
	charge.Limits, charge.Defaults = slices.Clone(charge.Limits), slices.Clone(charge.Defaults)
	var out limiter.Outcome

	q := newQueuedWrite(now.UnixMilli(), func(tx *tx) (err error) {
		out, err = r.charge(tx, now.UnixMilli(), &charge, true)
		return err
	})
	q.undo = func(tx *tx) error { return r.uncharge(tx, now.UnixMilli(), &charge.Amounts, &out) }

	// After an error, the writer may still use the outcome.
	if err := r.send(ctx, q); err != nil {
		return limiter.Outcome{}, err
	}
	return out, nil
}

// uncharge gives back what an admitted charge took.
func (r *Repository) uncharge(tx *tx, now int64, amounts *limiter.Amounts, out *limiter.Outcome) error {
	if !out.Admitted {
		return nil
	}

	for _, b := range out.Payers {
		back := limiter.Credit{Account: b.Account, Undo: true}
		// An undo reverts one charge, so a quota gets its tokens back only in the
		// window that paid. A lease may be open at a boundary, and gives back to the
		// new window.
		if b.Detail != nil {
			back.Starts = b.Detail.Starts
		}

		// Only the limits that the account had at the charge have paid. By the time
		// of the undo, the bucket may have others.
		for i, l := range b.Account.Limits {
			n, named := amounts.Lookup(l.Name)
			if !named {
				continue
			}
			back.Amounts = back.Amounts.And(l.Name, n)
			// A charge that was spared took nothing, so that only its usage is
			// reverted.
			if b.Detail != nil && b.Detail.Spared != nil && b.Detail.Spared[i] {
				back.Spared = append(back.Spared, l.Name)
			}
		}

		if err := r.credit(tx, now, back); err != nil {
			return err
		}
	}
	return nil
}

// Peek returns the outcome that Consume would have, and writes nothing.
func (r *Repository) Peek(ctx context.Context, now time.Time, charge limiter.Charge) (out limiter.Outcome, err error) {
	err = r.read(ctx, func(tx *tx) (err error) {
		out, err = r.charge(tx, now.UnixMilli(), &charge, false)
		return err
	})
	if err != nil {
		return limiter.Outcome{}, err
	}
	return out, nil
}

// payer is one bucket's part in a charge.
type payer struct {
	*record
	turn     rules.Turn
	expired  *record       // replaced by record
	resolved bool          // limits and parent were looked up
	repaired bool          // limits or parent had changed, or the bucket was too far ahead
	now      int64         // the time of the call on the bucket's clock
	before   *rules.Bucket // the bucket before it followed an override; nil if it did not
}

// charge handles Consume, and Peek if write is not set.
func (r *Repository) charge(tx *tx, now int64, charge *limiter.Charge, write bool) (limiter.Outcome, error) {
	// A repair is booked only after the charge was judged, since an error must
	// leave nothing written.
	var repairs bookings
	payers, exempt, err := r.payers(tx, now, charge, repairs.add)
	admitted := false
	if err == nil {
		admitted, err = rules.Judge(charge, views(payers))
	}

	// Work that returns an error must have written nothing: see write.
	if err != nil {
		return limiter.Outcome{}, err
	}

	book := tx.book(r.key)
	if !admitted {
		for _, s := range payers {
			s.refuse(charge, &repairs)
		}
	}

	if write {
		if err := repairs.flush(book); err != nil {
			return limiter.Outcome{}, err
		}
	}

	for _, s := range payers {
		// The outcome has the balances after the charge, also for Peek. Pay changes
		// the turn alone, and store writes it.
		if admitted {
			s.turn.Pay(&charge.Amounts)
		}
		if write {
			if err := r.store(tx, s, charge, admitted, book); err != nil {
				return limiter.Outcome{}, err
			}
		}
	}

	return limiter.Outcome{Admitted: admitted, Payers: views(payers), Exempt: exempt}, nil
}

// bookings collects usage that is booked only after the charge was judged.
type bookings []booking

type booking struct {
	account *limiter.Account
	usage   rules.Usage
}

func (b *bookings) add(account *limiter.Account, u rules.Usage) error {
	// The bucket clears Used after this call. It replaces Spared and leaves the old
	// list as it is.
	u.Used = slices.Clone(u.Used)
	*b = append(*b, booking{account, u})
	return nil
}

// flush books the collected usage.
func (b bookings) flush(book rules.Book) error {
	for _, due := range b {
		if err := book(due.account, due.usage); err != nil {
			return err
		}
	}
	return nil
}

// repairBucket applies a change of the limits of one entity and resource to their
// bucket at once, as every store does: an operator who sets such limits means this
// bucket now. Other changes apply when a bucket is charged.
func (r *Repository) repairBucket(tx *tx, now int64, key limiter.Scope) error {
	// A change of a wider level would have to touch all of its buckets.
	if key.Level() != "entity" {
		return nil
	}

	found, err := tx.bucket("b.ns = ? AND b.entity = ? AND b.resource = ?", r.key, key.Entity, key.Resource)
	if err != nil || found == nil {
		return err
	}

	local, back := r.machine.Local(&found.Bucket, now)
	if found.Gone(local) {
		return nil
	}
	found.PullBack(back)

	limits, source, err := tx.resolve(r.key, key)
	// Where no level holds limits, the next charge decides by its defaults. An
	// unknown zone must not fail the change of limits: the next charge reports it.
	if unknown := rules.CheckZones(limits) != nil; err != nil || limits == nil || unknown {
		return err
	}

	account := &limiter.Account{
		Entity: key.Entity, Resource: key.Resource, Limits: limits, Source: source, Ref: found.id,
	}
	repaired, err := found.Repair(local, account, rules.Idle(limits, source, r.ttl), tx.book(r.key))
	if err != nil || !repaired && back == 0 {
		return err
	}
	return tx.save(r.key, found, true)
}

// payers starts the charge of the entity and of the ancestors that pay, and returns the
// ancestors that do not.
func (r *Repository) payers(
	tx *tx, now int64, charge *limiter.Charge, book rules.Book,
) (payers []*payer, exempt []string, err error) {
	key := limiter.Scope{Entity: charge.Entity, Resource: charge.Resource}
	found, facts, err := r.find(tx, key)
	if err != nil {
		return nil, nil, err
	}

	levels, err := r.chainAt(tx, charge.Entity, found, facts.generation)
	// A late charge is for work that is done, which no switch can prevent.
	if off := facts.switches.Refusing(levels, key.Resource); off != nil && !charge.Late {
		return nil, nil, off.Refuse(key.Entity, key.Resource)
	}
	if err != nil {
		return nil, nil, err
	}

	payers = make([]*payer, 0, len(levels))
	for level, entity := range levels {
		if level > 0 {
			key.Entity = entity
			if found, facts, err = r.find(tx, key); err != nil {
				return nil, nil, err
			}
		}

		p, err := r.begin(tx, now, key, level, found, facts.generation, charge, book)
		if err != nil {
			return nil, nil, err
		}
		if p == nil {
			exempt = append(exempt, entity)
		} else {
			payers = append(payers, p)
		}
	}
	return payers, exempt, nil
}

func views(payers []*payer) []limiter.Bucket {
	all := make([]limiter.Bucket, 0, len(payers))
	for _, s := range payers {
		all = append(all, s.turn.View)
	}
	return all
}

// begin starts the charge of the bucket at a key, nil if there is none, under the
// current limits. Its entity is at a level of the chain. begin returns nil if the entity
// does not pay.
func (r *Repository) begin(
	tx *tx, now int64, key limiter.Scope, level int, found *record, generation int64, charge *limiter.Charge,
	book rules.Book,
) (*payer, error) {
	s := &payer{record: found, now: now}
	if found != nil {
		local, back := r.machine.Local(&found.Bucket, now)
		// The record is replaced only if the charge is admitted: see store.
		if found.Gone(local) {
			s.record, s.expired = nil, found
		} else {
			found.PullBack(back)
			s.now, s.repaired = local, back > 0
		}
	}

	ownOnly := level >= rules.OwnLimitsFrom
	if charge.Limits != nil && !ownOnly {
		return s, r.beginOverride(tx, s, key, charge, book)
	}

	// Generation 0 stands for limits that were never looked up, or may differ for the
	// next call. It never matches, since the generations of a namespace begin at 1.
	if s.record == nil || s.record.generation != generation {
		if ownOnly {
			_, source, err := tx.resolve(r.key, key)
			if err != nil || source.Entity == "" {
				return nil, err
			}
		}
		if err := r.refresh(tx, s, key, generation, charge.Defaults, book); err != nil {
			return nil, err
		}
	}

	// The bucket of the entity's own charges may have the limits of a wider level.
	if ownOnly && s.Account.Source.Entity == "" {
		return nil, nil //nolint:nilnil // nothing is stored for the entity, so it does not pay
	}

	if err := rules.CheckZones(s.Account.Limits); err != nil {
		return nil, err
	}

	s.turn = rules.Begin(&s.Bucket, s.now)
	return s, nil
}

// find reads a bucket, nil if there is none, and the facts of the namespace.
func (r *Repository) find(tx *tx, key limiter.Scope) (found *record, now *facts, err error) {
	active, generation := false, int64(0)

	// One statement reads the namespace and the bucket, so that a common charge
	// needs one read. Without a row, the namespace is gone.
	err = tx.query(func(scan func(...any) error) (err error) {
		active = true
		found, err = tx.record(scan, &generation)
		return err
	}, "SELECT n.facts, "+tx.columns()+
		` FROM namespaces_v7 n LEFT JOIN buckets_v7 b ON b.ns = n.key AND b.entity = ? AND b.resource = ?
		WHERE n.key = ? AND n.deleted IS NULL`, key.Entity, key.Resource, r.key)
	if err == nil && !active {
		err = noNamespace(r.name)
	}
	if err != nil {
		return nil, nil, err
	}

	now, err = r.factsAt(tx, generation)
	return found, now, err
}

// refresh applies the current limits and parent to the record, or creates one.
// Without stored limits it uses the defaults of the charge. The record then gets
// generation 0, because the next charge may have other defaults.
func (r *Repository) refresh(
	tx *tx, s *payer, key limiter.Scope, generation int64, defaults []limiter.Limit, book rules.Book,
) error {
	limits, source, err := tx.resolve(r.key, key)
	if err != nil {
		return err
	}

	isDefault := limits == nil
	if isDefault {
		if len(defaults) == 0 {
			return rules.NoLimits(key.Entity, key.Resource)
		}

		// Other programs with other defaults may share the bucket, so it keeps
		// the limits that it has.
		var own []limiter.Limit
		if s.record != nil {
			own = s.Account.Limits
		}
		limits, generation = rules.Defaults(defaults, own), 0
	}

	parent, err := tx.parent(r.key, key.Entity)
	if err != nil {
		return err
	}

	idle := rules.Idle(limits, source, r.ttl)
	account := &limiter.Account{
		Entity: key.Entity, Resource: key.Resource, Limits: limits, Source: source, Default: isDefault,
	}

	if s.record == nil {
		s.record = &record{Bucket: rules.New(s.now, account, idle)}
	} else {
		account.Ref = s.id
		repaired, err := s.Repair(s.now, account, idle, book)
		if err != nil {
			return err
		}
		s.repaired = s.repaired || repaired || s.parent != parent
	}

	s.generation, s.parent, s.resolved = generation, parent, true
	return nil
}

// beginOverride starts a charge under the limits of the call.
func (r *Repository) beginOverride(tx *tx, s *payer, key limiter.Scope, charge *limiter.Charge, book rules.Book) error {
	limits := rules.Sorted(charge.Limits)

	// No refresh comes before, so the parent of the record may be out of date.
	parent, err := tx.parent(r.key, key.Entity)
	if err != nil {
		return err
	}

	if s.record == nil {
		account := &limiter.Account{Entity: key.Entity, Resource: key.Resource, Limits: limits}
		s.record = &record{Bucket: rules.New(s.now, account, rules.Idle(limits, limiter.Scope{}, r.ttl))}
	}

	if err := rules.CheckZones(s.Account.Limits); err != nil {
		return err
	}

	// A quota lasts longer than the call, so that the next call with the same
	// override has to find what this one leaves.
	if rules.OverridesQuota(s.Account.Limits, limits) {
		if err := r.follow(tx, s, key, limits, charge.Defaults, book); err != nil {
			return err
		}
	}

	s.parent = parent
	s.turn = rules.BeginOverride(&s.Bucket, s.now, s.now, limits)
	return nil
}

// follow makes the record follow the quotas of an override that no level and no
// default holds.
func (r *Repository) follow(
	tx *tx, s *payer, key limiter.Scope, limits, defaults []limiter.Limit, book rules.Book,
) error {
	stored, _, err := tx.resolve(r.key, key)
	if err != nil {
		return err
	}

	if stored == nil {
		stored = defaults
	}

	// If the charge is refused, the record goes back to this.
	before := s.Clone()
	s.before = &before
	return s.FollowOverride(s.now, s.now, limits, stored, book)
}

// refuse ends a charge that does not fit. A record that began to follow an override
// goes back, unless it would then refuse the same override for too long.
func (s *payer) refuse(charge *limiter.Charge, repairs *bookings) {
	switch {
	case s.before == nil:
	// Going back would make the bucket refuse this override until its own
	// window ends.
	case rules.AwaitsOverride(s.before.Account.Limits, s.turn.View, &charge.Amounts):
		s.generation, s.repaired = 0, true
	default:
		s.Bucket = *s.before
		// The usage that was collected on the way to the override is not booked
		// either.
		*repairs = slices.DeleteFunc(*repairs, func(b booking) bool { return b.account == s.Account })
	}
}

// store writes the effect of a charge on one bucket. A refused charge writes only
// a repair.
func (r *Repository) store(tx *tx, s *payer, charge *limiter.Charge, admitted bool, book rules.Book) error {
	if !admitted {
		if s.repaired {
			return tx.save(r.key, s.record, true)
		}
		return nil
	}

	if s.expired != nil {
		if err := tx.expire(r.key, s.expired); err != nil {
			return err
		}
	}

	// An override may have changed the limits of the bucket, so the next charge
	// looks them up.
	if charge.Limits != nil {
		s.generation, s.resolved = 0, true
	}

	if err := s.turn.Commit(&charge.Amounts, book); err != nil {
		return err
	}

	isNew := s.id == 0
	if err := tx.save(r.key, s.record, isNew || s.resolved); err != nil {
		return err
	}

	// The row has its ID only after it was inserted, and the lease needs it to
	// give back. Accounts are shared, so a copy gets it.
	if isNew {
		account := *s.turn.View.Account
		account.Ref = s.id
		s.turn.View.Account = &account
	}
	return nil
}
