package manifest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Only one apply is at work in a namespace. It says so where the hash is stored,
// in the place of that: with a word that nobody else uses, and that it replaces
// by another every now and then. Others wait until there is a hash again, or
// until the word has stayed the same for so long that whoever wrote it must be
// dead. No clocks are compared.
//
// While it is at work, everything that it may have written is on the list of
// what is managed, so that nothing is forgotten if it dies.
const (
	claimPrefix   = "applying:" // at work
	partialPrefix = "partial:"  // ended, but something failed

	pollEvery  = 500 * time.Millisecond
	renewEvery = 5 * time.Second
	giveUp     = 12 * time.Second // without a renewal
	deadAfter  = 20 * time.Second

	settleWithin = 10 * time.Second // when the caller's context has ended
)

// claim is the right to apply.
type claim struct {
	*target
	held    state // as stored
	renewal sync.Mutex
	renewed atomic.Int64            // when that was, by the clock on the wall
	lose    context.CancelCauseFunc // ends the work
}

// claim takes the place of what is known. ErrStale.
func (t *target) claim(ctx context.Context, known, next state) (*claim, error) {
	c := &claim{target: t, held: known}
	err := c.swap(ctx, next)
	if errors.Is(err, errTaken) {
		err = ErrStale
	}
	return c, err
}

// swap replaces what is held. When the answer is lost, it is looked up what
// became of it.
func (c *claim) swap(ctx context.Context, next state) error {
	begin := c.wall()
	err := c.store.SetManaged(ctx, c.Now(), c.held.hash, next.hash, string(next.owner), next.scopes)
	if err != nil {
		err = c.lookUp(ctx, next, err)
	}
	if err == nil {
		c.held = next
		c.renewed.Store(begin.UnixNano())
	}
	return err
}

// lookUp is nil if what is stored is next in spite of an error.
func (c *claim) lookUp(ctx context.Context, next state, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	_, stored, _, lookErr := c.store.Managed(ctx)
	switch {
	case lookErr != nil:
		return err
	case stored == next.hash && stored != c.held.hash:
		return nil
	case stored != c.held.hash:
		return errTaken
	}
	return err
}

// hold does work while it renews the claim. The context of work ends when that
// is lost.
func (c *claim) hold(ctx context.Context, work func(context.Context)) {
	ctx, c.lose = context.WithCancelCause(ctx)
	defer c.lose(nil)
	done := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() { c.keepUp(ctx, done) })
	work(ctx)
	close(done)
	renewing.Wait()
}

// keepUp renews the claim until the work is done, or it is lost.
func (c *claim) keepUp(ctx context.Context, done <-chan struct{}) {
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
		if err := c.renew(ctx, 0); errors.Is(err, errTaken) || err != nil && c.age() > giveUp {
			c.lose(err)
			return
		}
	}
}

// sure is asked before each write. Timers stand still while a machine sleeps or
// a process is stopped, and others may have taken over meanwhile, so that a
// claim that has become old is renewed first. If it cannot be, the work ends.
func (c *claim) sure(ctx context.Context) bool {
	if c.age() < giveUp {
		return true
	}
	err := c.renew(ctx, giveUp)
	if err != nil {
		c.lose(err)
	}
	return err == nil
}

// age is how long ago the claim was renewed, by the clock on the wall, wherever
// that was moved.
func (c *claim) age() time.Duration {
	return c.wall().Sub(time.Unix(0, c.renewed.Load())).Abs()
}

// renew renews the claim, unless it is younger.
func (c *claim) renew(ctx context.Context, unless time.Duration) error {
	c.renewal.Lock()
	defer c.renewal.Unlock()
	if c.age() < unless {
		return nil
	}
	return c.swap(ctx, state{c.held.scopes, claimPrefix + rand.Text(), c.held.owner})
}

// release stores what came of it, also when the caller's context has ended.
func (c *claim) release(ctx context.Context, after state) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	err := c.swap(ctx, after)
	if err == nil || errors.Is(err, errTaken) {
		return err
	}
	return fmt.Errorf("what is managed could not be recorded; apply again: %w", err)
}
