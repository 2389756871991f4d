package manifest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// Only one apply runs in a namespace at a time. A running Apply replaces the
// stored hash with a random token and renews it. Others wait until a hash is
// stored again. If the token stays the same for takeOverAfter, they consider its
// owner dead. No clocks of different machines are compared.
//
// During an apply, the list of managed levels includes every level that it may
// write. If the process dies, the next apply therefore finds them all.
const (
	claimPrefix   = "applying:" // an apply is running
	partialPrefix = "partial:"  // an apply ended with failed changes

	pollEvery     = 500 * time.Millisecond
	renewEvery    = 5 * time.Second
	maxClaimAge   = 12 * time.Second // since the last renewal
	takeOverAfter = 20 * time.Second

	finishTimeout = 10 * time.Second // after the caller's context has ended
)

// ErrStale is returned by [Plan.Apply] if another apply has changed the managed
// levels since the plan was made. Nothing was changed.
var ErrStale = errors.New("another apply changed the managed limits after this plan; plan again")

// errTakenOver means that another apply considered this one dead.
var errTakenOver = new(takenOverError)

// takenOverError is errTakenOver with the number of changes made. It matches
// ErrConflict and errTakenOver.
type takenOverError struct{ made, total int }

func (e *takenOverError) Error() string {
	done := ""
	if e.total > 0 {
		done = fmt.Sprintf(", after %d of %d changes", e.made, e.total)
	}
	return "another apply took over while this one was at work" + done + "; apply again"
}

// Is reports whether e matches target.
func (e *takenOverError) Is(target error) bool {
	return target == limiter.ErrConflict || target == error(errTakenOver)
}

// claim is the exclusive right to apply in a namespace.
type claim struct {
	*target
	held    state // as stored
	renewal sync.Mutex
	renewed atomic.Int64            // wall clock of the last renewal, in Unix nanoseconds
	abort   context.CancelCauseFunc // ends the work
}

// claim replaces known by next. It returns ErrStale if known is not stored any
// more.
func (t *target) claim(ctx context.Context, known, next state) (*claim, error) {
	c := &claim{target: t, held: known}
	err := c.swap(ctx, next)
	if errors.Is(err, errTakenOver) {
		err = ErrStale
	}
	return c, err
}

// claimed reports whether an apply was running.
func (s state) claimed() bool { return strings.HasPrefix(s.hash, claimPrefix) }

// swap replaces the held state. After an error it reads the state, since the
// write may have succeeded.
func (c *claim) swap(ctx context.Context, next state) error {
	// The others count from when they see the write, so counting from before it
	// is the safe side.
	begin := c.wall()
	err := c.store.SetManaged(ctx, c.Now(), c.held.hash, next.hash, string(next.owner), next.scopes)
	if err != nil {
		err = c.checkSwap(ctx, next, err)
	}

	if err == nil {
		c.held = next
		c.renewed.Store(begin.UnixNano())
	}
	return err
}

// checkSwap returns nil if next is stored in spite of err, and errTakenOver if
// another apply has written.
func (c *claim) checkSwap(ctx context.Context, next state, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	_, stored, _, readErr := c.store.Managed(ctx)

	switch {
	case readErr != nil:
		return err
	// If both hashes are equal, the stored one does not show that the write
	// succeeded.
	case stored == next.hash && stored != c.held.hash:
		return nil
	case stored != c.held.hash:
		return errTakenOver
	}
	return err
}

// during calls work and renews the claim until work returns. It ends the context
// of work when the claim is lost.
func (c *claim) during(ctx context.Context, work func(context.Context)) {
	ctx, c.abort = context.WithCancelCause(ctx)
	defer c.abort(nil)

	done := make(chan struct{})
	var renewing sync.WaitGroup

	renewing.Go(func() { c.renewUntil(ctx, done) })
	work(ctx)

	close(done)
	// A renewal under way would change the state that the caller replaces next.
	renewing.Wait()
}

// renewUntil renews the claim until the work is done or the claim is lost.
func (c *claim) renewUntil(ctx context.Context, done <-chan struct{}) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		// A renewal that failed is tried again after 5 seconds. The apply stops
		// after 12, well before the 20 after which another one takes over.
		if err := c.renew(ctx, 0); errors.Is(err, errTakenOver) || err != nil && c.age() > maxClaimAge {
			c.abort(err)
			return
		}
	}
}

// ensureHeld reports whether a write may begin. Timers stop while a machine
// sleeps or a process is stopped, and another apply may have taken over
// meanwhile, so ensureHeld renews an old claim first. If that fails, it aborts
// the work.
func (c *claim) ensureHeld(ctx context.Context) bool {
	if c.age() < maxClaimAge {
		return true
	}

	err := c.renew(ctx, maxClaimAge)
	if err != nil {
		c.abort(err)
	}
	return err == nil
}

// age returns the time since the last renewal. It uses the wall clock, which
// runs while the process is stopped. A clock that was set back counts too.
func (c *claim) age() time.Duration {
	return c.wall().Sub(time.Unix(0, c.renewed.Load())).Abs()
}

// renew renews the claim unless it is younger than minAge.
func (c *claim) renew(ctx context.Context, minAge time.Duration) error {
	c.renewal.Lock()
	defer c.renewal.Unlock()

	// Another write may have renewed the claim while this one waited for the
	// lock.
	if c.age() < minAge {
		return nil
	}
	return c.swap(ctx, state{c.held.scopes, claimPrefix + rand.Text(), c.held.owner})
}

// release stores the final state, even if the caller's context has ended.
func (c *claim) release(ctx context.Context, final state) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()

	err := c.swap(ctx, final)
	if err == nil || errors.Is(err, errTakenOver) {
		return err
	}
	return fmt.Errorf("cannot record the list of managed limits; apply again: %w", err)
}

// waitForClaim waits until no other apply is running. It ends the claim of a
// dead apply as a partial one, since that may have written any level it listed.
func (t *target) waitForClaim(ctx context.Context, known state) error {
	t.Waiting()
	for idle := time.Duration(0); known.claimed(); idle += pollEvery {
		if idle >= takeOverAfter {
			// If the swap finds another state, an apply is alive after all, and
			// the wait goes on.
			dead := &claim{target: t, held: known}
			if err := dead.swap(ctx, state{
				known.scopes, partialPrefix + rand.Text(), known.owner,
			}); !errors.Is(err, errTakenOver) {
				return err
			}
		}

		if err := pause.For(ctx, pollEvery); err != nil {
			return err
		}

		next, err := t.readState(ctx)
		if err != nil {
			return err
		}
		if next.hash != known.hash {
			known, idle = next, 0
		}
	}
	return nil
}
