package loadtest

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// auditor checks the promise of every limit while a test runs: over any window,
// admitted less given back is at most capacity plus refill. Only the calls of this
// process count, so calls of others make it miss an excess, but never report a
// wrong one.
//
// A call changes its bucket at a moment between its now and its answer. The
// auditor records it with the answer and allows for what is unknown:
//
//   - refill for the longest time between a now and its answer;
//   - give-backs that have not been answered;
//   - give-backs that may have followed a debit recorded after them, and debits
//     without a condition that may have followed an admission.
type auditor struct {
	slack  float64
	seed   maphash.Seed
	shards [64]auditShard
	// changes counts the starts and ends of changes of limits. Calls during a
	// change do not count, and the windows begin anew after it.
	changes atomic.Int64

	limits, checks, broken atomic.Int64
	mu                     sync.Mutex
	// worst describes the largest excess. mu guards it.
	worst   Promise
	longest atomic.Int64
}

// auditShard holds a part of the books, so that calls of different buckets
// seldom wait for the same lock.
type auditShard struct {
	mu    sync.Mutex
	books map[bookKey]*book
}

type bookKey struct{ entity, resource string }

func newAuditor(slack float64) *auditor {
	a := &auditor{slack: slack, seed: maphash.MakeSeed()}
	for i := range a.shards {
		a.shards[i].books = map[bookKey]*book{}
	}
	return a
}

// book returns the book of a bucket.
func (a *auditor) book(entity, resource string) *book {
	key := bookKey{entity, resource}
	s := &a.shards[maphash.Comparable(a.seed, key)%uint64(len(a.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()

	b := s.books[key]
	if b == nil {
		b = new(book)
		s.books[key] = b
	}
	return b
}

// promise returns the result so far.
func (a *auditor) promise() Promise {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.worst
	p.Limits, p.Checks, p.Broken = a.limits.Load(), a.checks.Load(), a.broken.Load()
	p.CallTime = time.Duration(a.longest.Load())
	return p
}

// report notes an admission in excess.
func (a *auditor) report(account *limiter.Account, limit string, excess int64) {
	a.broken.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if excess > a.worst.Excess {
		a.worst = Promise{Excess: excess, Entity: account.Entity, Resource: account.Resource, Limit: limit}
	}
}

// lasted notes how long a call took.
func (a *auditor) lasted(d time.Duration) {
	for {
		longest := a.longest.Load()
		if int64(d) <= longest || a.longest.CompareAndSwap(longest, int64(d)) {
			return
		}
	}
}

// wrap returns a store whose charges and credits the auditor sees.
func (a *auditor) wrap(repo limiter.Repository) limiter.Repository {
	return &auditedStore{Repository: repo, auditor: a}
}

// auditedStore passes calls on and shows their outcomes to the auditor.
type auditedStore struct {
	limiter.Repository
	auditor *auditor
}

// Unwrap returns the store.
func (s *auditedStore) Unwrap() limiter.Repository { return s.Repository }

// NamespaceID returns the ID of the namespace, or "" if the store has none.
func (s *auditedStore) NamespaceID() string {
	if r, ok := limiter.Optional[limiter.NamespaceIdentifier](s.Repository); ok {
		return r.NamespaceID()
	}
	return ""
}

// Consume passes a charge on and checks its admission.
func (s *auditedStore) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	// An override judges the charge by limits other than the bucket's, so the
	// ledger of the bucket says nothing about it.
	if charge.Limits != nil {
		return s.Repository.Consume(ctx, now, charge)
	}

	a := s.auditor
	change := a.changes.Load()
	self := a.book(charge.Entity, charge.Resource)
	expected := self.beginWithAncestors(make([]call, 0, 8))

	out, err := s.Repository.Consume(ctx, now, charge)
	// A change of limits that overlaps the call leaves open by which limits the
	// store judged.
	counts := err == nil && out.Admitted && a.changes.Load() == change
	e := entry{auditor: a, amounts: &charge.Amounts, change: change, now: now}

	paid := make([]*book, 0, 8)
	for i := range out.Payers {
		account := out.Payers[i].Account
		paid = append(paid, a.book(account.Entity, account.Resource))
	}

	for _, c := range expected {
		// If the answer names other payers, an expected one has paid nothing, and
		// its book only notes the end of the call.
		if i := slices.Index(paid, c.book); i >= 0 {
			c.book.finish(c.epoch, e, counts, out.Payers[i])
		} else {
			c.book.finish(c.epoch, e, false, limiter.Bucket{})
		}
	}

	// The answer names the ancestors only after the call, so their books count from
	// the next charge on. A refusal may leave some out.
	if err == nil && out.Admitted {
		self.setAncestors(paid[1:])
	}
	return out, err
}

// Credit passes credits on and records them.
func (s *auditedStore) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	a := s.auditor
	change := a.changes.Load()

	// The tokens of a give-back may be admitted again before its answer, so a
	// credit counts as under way from before the call.
	epochs := make([]int, 0, 4)
	for i := range credits {
		c := &credits[i]
		epochs = append(epochs, a.book(c.Account.Entity, c.Account.Resource).beginCredit(c))
	}

	err := s.Repository.Credit(ctx, now, credits...)
	made := err == nil && a.changes.Load() == change

	for i := range credits {
		c := &credits[i]
		e := entry{auditor: a, amounts: &c.Amounts, spared: c.Spared, change: change, now: now}
		a.book(c.Account.Entity, c.Account.Resource).finishCredit(epochs[i], e, made)
	}

	return err
}

// SetConfig passes a change of limits on.
func (s *auditedStore) SetConfig(ctx context.Context, cfg limiter.Config, ev limiter.AuditEvent) error {
	return s.change(func() error { return s.Repository.SetConfig(ctx, cfg, ev) })
}

// DeleteConfig passes a change of limits on.
func (s *auditedStore) DeleteConfig(ctx context.Context, scope limiter.Scope, ev limiter.AuditEvent) error {
	return s.change(func() error { return s.Repository.DeleteConfig(ctx, scope, ev) })
}

// DeleteEntity passes a deletion on. The buckets of the entity start full again.
func (s *auditedStore) DeleteEntity(ctx context.Context, id string, ev limiter.AuditEvent) error {
	return s.change(func() error { return s.Repository.DeleteEntity(ctx, id, ev) })
}

// Fill passes a reset or a top-up on. The ledgers of all limits begin anew.
func (s *auditedStore) Fill(
	ctx context.Context, now time.Time, f limiter.Fill, ev limiter.AuditEvent,
) (done bool, err error) {
	err = s.change(func() (err error) { done, err = s.Repository.Fill(ctx, now, f, ev); return err })
	return done, err
}

func (s *auditedStore) change(call func() error) error {
	s.auditor.changes.Add(1)
	defer s.auditor.changes.Add(1)
	return call()
}
