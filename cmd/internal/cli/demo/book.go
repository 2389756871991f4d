package demo

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// book records what happened since the start. It is safe for concurrent use;
// some methods require mu to be held.
type book struct {
	start  time.Time
	escrow bool // the store holds tokens
	// scale multiplies the traffic. Of scale events of a kind, one is shown.
	scale int

	mu      sync.Mutex
	totals  totals
	tallies map[limiter.Scope]*tally
	events  []event // not in a frame yet
	noted   map[string]int
}

// totals counts calls. Each call is admitted, refused, gave up, or is waiting.
type totals struct{ Calls, Admitted, Refused, GaveUp, Waiting, Working, RolledBack int }

// tally counts the calls of one bucket, and its tokens by limit.
type tally struct {
	admitted, refused int
	// retryAt is the latest time at which a refused call may retry, for retryLimit.
	retryAt    time.Time
	retryLimit string
	accounts   map[string]*account
}

// event is something to show to the user.
type event struct {
	At               time.Duration
	What, Key, Model string
	Text             string
}

func newBook() *book {
	return &book{start: time.Now(), scale: 1, tallies: map[limiter.Scope]*tally{}, noted: map[string]int{}}
}

// count calls change with the totals.
func (b *book) count(change func(*totals)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.totals)
}

// note records an event for the next frame.
func (b *book) note(what string, c call, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// With escrow there are scale times as many events, too many to read.
	b.noted[what]++
	if (b.noted[what]-1)%b.scale != 0 {
		return
	}

	b.events = append(b.events, event{time.Since(b.start), what, c.key.id, c.model, text})
}

// admit records a charge, and what it left in one bucket. The caller holds mu.
func (b *book) admit(now time.Time, left limiter.Bucket, amounts limiter.Amounts) {
	t := b.tally(left.Account.Entity, left.Account.Resource)
	t.admitted++
	for limit, n := range amounts.All() {
		for i, l := range left.Account.Limits {
			if l.Name == limit && !isSpared(left, i) {
				b.of(t, l).admit(now, n, left.Tokens[i])
			}
		}
	}
}

// isSpared reports whether a shadow limit did not cover the charge, so that its
// balance did not change.
func isSpared(b limiter.Bucket, i int) bool {
	return b.Detail != nil && i < len(b.Detail.Spared) && b.Detail.Spared[i]
}

// credit records what was given back to one bucket, or taken later. The caller
// holds mu.
func (b *book) credit(now time.Time, c limiter.Credit) {
	for limit, n := range c.Amounts.All() {
		if account := b.account(c.Account, limit); account != nil && !slices.Contains(c.Spared, limit) {
			account.credit(now, n)
		}
	}
}

// refuse records the limits that refused a call.
func (b *book) refuse(e *limiter.ExceededError, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[*tally]bool{}
	for _, s := range e.Decision.Violations() {
		t := b.tally(s.Entity, s.Resource)

		// Several limits of one bucket may refuse a call, which counts once.
		if !seen[t] {
			t.refused++
			seen[t] = true
		}

		// A call has to wait for the slowest of its limits.
		if retryAt := now.Add(s.RetryAfter); retryAt.After(t.retryAt) {
			t.retryAt, t.retryLimit = retryAt, s.Limit.Name
		}

		b.of(t, s.Limit).refused += s.Requested
	}
}

// fill adds the counts to a frame and moves the events into it.
func (b *book) fill(f *frame, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f.Elapsed, f.Totals = now.Sub(b.start), b.totals
	f.Events, b.events = b.events, nil
	for i := range f.Rows {
		r := &f.Rows[i]
		t := b.tally(r.Entity, r.Model)
		r.Admitted, r.Refused = t.admitted, t.refused

		if wait := t.retryAt.Sub(now); wait > 0 {
			r.Retry, r.RetryLimit = wait, t.retryLimit
		}
	}
}

// tally returns the tally of a bucket. The caller holds mu.
func (b *book) tally(entity, model string) *tally {
	at := limiter.Scope{Entity: entity, Resource: model}
	t := b.tallies[at]
	if t == nil {
		t = &tally{accounts: map[string]*account{}}
		b.tallies[at] = t
	}
	return t
}

// account returns the account of a limit, or nil if the bucket has no such limit.
// The caller holds mu.
func (b *book) account(a *limiter.Account, limit string) *account {
	for _, l := range a.Limits {
		if l.Name == limit {
			return b.of(b.tally(a.Entity, a.Resource), l)
		}
	}
	return nil
}

// of returns the account of a limit. The caller holds mu.
func (b *book) of(t *tally, l limiter.Limit) *account {
	a := t.accounts[l.Name]
	if a == nil {
		r := rules.RateOf(l)
		a = &account{ledger: bucket.NewLedger(r), level: bucket.State{Rate: r}, escrow: b.escrow}
		t.accounts[l.Name] = a
	}
	return a
}

// recorder is a repository that records every charge in the book. It lets one call
// through at a time, so that the book has the order of the store.
type recorder struct {
	limiter.Repository
	book *book
}

// Consume records an admitted charge.
func (r *recorder) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	out, err := r.Repository.Consume(ctx, now, charge)
	if err == nil && out.Admitted {
		for _, payer := range out.Payers {
			r.book.admit(now, payer, charge.Amounts)
		}
	}
	return out, err
}

// Credit records what was given back or taken later.
func (r *recorder) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	err := r.Repository.Credit(ctx, now, credits...)
	if err == nil {
		for _, c := range credits {
			r.book.credit(now, c)
		}
	}
	return err
}
