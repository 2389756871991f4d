package escrow

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// SetSwitch turns a level off, as the store does. The pots that it concerns return
// their tokens first.
func (r *Repository) SetSwitch(ctx context.Context, s limiter.Switch, ev limiter.AuditEvent) error {
	return r.change(ctx, s.Scope, func() error { return r.Repository.SetSwitch(ctx, s, ev) })
}

// DeleteSwitch turns a level on, as the store does.
func (r *Repository) DeleteSwitch(ctx context.Context, of limiter.Scope, ev limiter.AuditEvent) error {
	return r.change(ctx, of, func() error { return r.Repository.DeleteSwitch(ctx, of, ev) })
}

// Fill resets or tops up a bucket, as the store does. The pots that it concerns
// return their tokens first.
func (r *Repository) Fill(
	ctx context.Context, now time.Time, f limiter.Fill, ev limiter.AuditEvent,
) (done bool, err error) {
	of := limiter.Scope{Entity: f.Entity, Resource: f.Resource}
	err = r.change(ctx, of, func() (err error) { done, err = r.Repository.Fill(ctx, now, f, ev); return err })
	return done, err
}

func isDisabled(err error) bool {
	_, disabled := errors.AsType[*limiter.DisabledError](err)
	return disabled
}

// closeDisabled returns what the pot of a bucket holds, after an answer that it is
// disabled.
func (all *pots) closeDisabled(key limiter.Scope, err error) {
	if !isDisabled(err) {
		return
	}
	if p := all.lock(key, false); p != nil {
		defer p.mu.Unlock()
		p.endAll()
	}
}

// landDisabled answers the callers of a flight with the error that their bucket is
// disabled, and has everything returned that the pot and the flight have. It
// reports false for every other answer.
func (f *flight) landDisabled(err error) bool {
	if !isDisabled(err) {
		return false
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropExtra()
	f.unclaim(f.reserved)
	f.giveBack(&f.accounts, f.granted)
	f.endAll()

	for _, w := range f.batch {
		w.answer(result{err: err})
	}
	return true
}
