package sqlite

import (
	"context"
	"math/rand/v2"
	"time"
)

// pause is how long to wait for a lock that another process holds: longer each
// time, within bounds.
type pause time.Duration

const (
	shortestPause = pause(50 * time.Microsecond)
	longestPause  = pause(10 * time.Millisecond)
)

// next is a random time around the pause, which then grows.
func (p *pause) next() time.Duration {
	at := max(*p, shortestPause)
	*p = min(2*at, longestPause)
	return time.Duration(at/2 + rand.N(at))
}

// patiently repeats what fails because of another process, until BusyTimeout has
// passed since began. SQLite's own timeout is not in use: it does not end with a
// context, and counts anew for every statement.
func (f *file) patiently(ctx context.Context, began time.Time, try func() error) error {
	for p := shortestPause; ; {
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
