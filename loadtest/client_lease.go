package loadtest

import (
	"context"

	"github.com/zeroae/zae-limiter-go"
)

// Lease is a lease whose end is measured. Its other methods are the methods of
// [limiter.Lease].
type Lease struct {
	*limiter.Lease
	client   *Client
	resource string
	adjusted bool
}

// Adjust records that the work used amounts more than acquired, or fewer where
// an amount is negative.
func (l *Lease) Adjust(amounts limiter.Amounts) error {
	return l.change(func() error { return l.Lease.Adjust(amounts) })
}

// Release records that the work used amounts fewer than acquired.
func (l *Lease) Release(amounts limiter.Amounts) error {
	return l.change(func() error { return l.Lease.Release(amounts) })
}

// Used records that the work used n tokens of limit in total.
func (l *Lease) Used(limit string, n int64) error {
	return l.change(func() error { return l.Lease.Used(limit, n) })
}

// change makes an adjustment and notes whether it changed what the lease holds.
func (l *Lease) change(adjust func() error) error {
	before := l.Consumed()
	if err := adjust(); err != nil {
		return err
	}
	l.adjusted = l.adjusted || !l.Consumed().Equal(before)
	return nil
}

// Commit stores the adjustments and ends the lease. It reports COMMIT if there
// were adjustments or if it fails.
func (l *Lease) Commit(ctx context.Context) error {
	start := l.client.begin()
	err := l.Lease.Commit(ctx)
	if l.adjusted || err != nil {
		l.client.end(Commit, l.resource, start, err)
	}
	return err
}

// Rollback gives everything back and ends the lease. It reports COMMIT only if
// it fails.
func (l *Lease) Rollback(ctx context.Context) error {
	start := l.client.begin()
	err := l.Lease.Rollback(ctx)
	if err != nil {
		l.client.end(Commit, l.resource, start, err)
	}
	return err
}
