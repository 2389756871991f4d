package grpclimit

import (
	"context"

	"github.com/zeroae/zae-limiter-go"
)

type leaseKey struct{}

// WithLease returns a context that carries lease, for [Lease] and [Used].
func WithLease(ctx context.Context, lease *limiter.Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, lease)
}

// Lease returns the lease of the call with this context, on the side of the
// server. It returns nil if there is none. A nil lease has ended, so its methods
// do nothing.
func Lease(ctx context.Context) *limiter.Lease {
	lease, _ := ctx.Value(leaseKey{}).(*limiter.Lease)
	return lease
}

// Used records that the call with this context used n tokens of limit in total. It
// returns the errors of [limiter.Lease.Used], and [limiter.ErrLeaseDone] if ctx
// carries no lease.
func Used(ctx context.Context, limit string, n int64) error {
	return Lease(ctx).Used(limit, n)
}
