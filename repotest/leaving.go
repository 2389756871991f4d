package repotest

import (
	"context"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// leaving is a repository whose callers leave during a charge.
type leaving struct {
	limiter.Repository
	leave func()
}

// NewLeaving returns a repository that stores each charge and then calls leave, in
// which a test ends the context of the caller. If the context of the charge has
// ended afterwards, the outcome is lost, as it is in a store that cancels its
// requests.
func NewLeaving(repo limiter.Repository, leave func()) limiter.Repository {
	return &leaving{repo, leave}
}

// Consume charges, and then lets the caller leave.
func (l *leaving) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := l.Repository.Consume(ctx, now, charge)
	l.leave()
	if ctx.Err() != nil {
		return limiter.Outcome{}, ctx.Err()
	}
	return out, err
}

// Unwrap returns the repository inside.
func (l *leaving) Unwrap() limiter.Repository { return l.Repository }
