package grpclimit

import (
	"context"
	"sync"

	"github.com/zeroae/zae-limiter-go"
)

// running is an admitted call. It ends once.
type running struct {
	*Interceptor
	call  Call
	lease *limiter.Lease
	keep  func(Call, Result) bool

	mu        sync.Mutex
	delivered bool
	once      sync.Once
}

// observe settles by a message of the answer.
func (r *running) observe(ctx context.Context, message any) {
	if err := r.opts.Settle(ctx, r.lease, message); err != nil {
		r.opts.OnError(ctx, r.call, err)
	}
}

// deliver records that the peer has a message of the answer.
func (r *running) deliver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delivered = true
}

// finish ends the lease.
func (r *running) finish(ctx context.Context, err error, panicked bool) {
	r.once.Do(func() {
		r.mu.Lock()
		result := Result{Err: err, Panicked: panicked, Delivered: r.delivered, Left: ctx.Err() != nil}
		r.mu.Unlock()

		end := r.lease.Rollback
		if r.keep(r.call, result) {
			end = r.lease.Commit
		}

		if err := end(ctx); err != nil {
			r.opts.OnError(ctx, r.call, err)
		}
	})
}
