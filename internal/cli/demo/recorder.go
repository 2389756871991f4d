package demo

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// recorder is a repository that enters every charge in the book, in the order
// in which the store applied them: it lets one through at a time.
type recorder struct {
	limiter.Repository
	book *book
}

// Consume enters what was admitted.
func (r *recorder) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	out, err := r.Repository.Consume(ctx, now, charge)
	if err == nil && out.Admitted {
		for _, side := range []limiter.Bucket{out.Self, out.Parent} {
			if side.Account != nil {
				r.book.admit(now, side, charge.Amounts)
			}
		}
	}
	return out, err
}

// Credit enters what was given back or taken later.
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
