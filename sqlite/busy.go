package sqlite

import (
	"context"
	"math/rand/v2"
	"time"
)

// retryBusy repeats try while another process holds the lock, until BusyTimeout
// has passed since began. SQLite's own busy timeout is not used: it ignores the
// context, and starts again with every statement.
func (f *file) retryBusy(ctx context.Context, began time.Time, try func() error) error {
	for p := minBackoff; ; {
		err := try()
		if !isBusy(err) || time.Since(began) >= f.opts.BusyTimeout {
			return err
		}

		select {
		case <-time.After(p.next()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// backoff is the pause before the next attempt to get a lock. It grows with each
// attempt.
type backoff time.Duration

const (
	minBackoff = backoff(50 * time.Microsecond)
	maxBackoff = backoff(10 * time.Millisecond)
)

// next returns a random duration around the pause, and doubles the pause.
func (p *backoff) next() time.Duration {
	at := max(*p, minBackoff)
	*p = min(2*at, maxBackoff)

	// Processes that wait for the same lock must not try again at the same
	// moment.
	return time.Duration(at/2 + rand.N(at))
}
