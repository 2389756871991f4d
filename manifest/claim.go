package manifest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
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

// ErrStale says that another apply was faster, so that a plan is no longer
// right. Nothing was changed.
var ErrStale = errors.New("another apply has changed what is managed since the plan was made; plan again")

// errTaken says that another apply did not believe that this one was alive.
var errTaken = fmt.Errorf("another apply took over while this one was at work; apply again: %w", limiter.ErrConflict)

func (s state) claimed() bool { return strings.HasPrefix(s.hash, claimPrefix) }

// await waits until no other apply is at work. The claim of one that is dead is
// ended in its name: it may have written anything that it listed.
func (t *target) await(ctx context.Context, known state) error {
	t.waiting()
	for idle := time.Duration(0); known.claimed(); idle += pollEvery {
		if idle >= deadAfter {
			dead := &claim{t, known.scopes, known.hash}
			if err := dead.swap(ctx, partialPrefix+rand.Text(), known.scopes); !errors.Is(err, errTaken) {
				return err
			}
		}
		if err := pause(ctx, pollEvery); err != nil {
			return err
		}
		next, err := t.state(ctx)
		if err != nil {
			return err
		}
		if next.hash != known.hash {
			known, idle = next, 0
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// claim is the right to apply.
type claim struct {
	*target
	scopes []limiter.Scope // that may be written
	held   string          // what is stored as hash
}

// claim takes the place of what is known. ErrStale.
func (t *target) claim(ctx context.Context, known state, scopes []limiter.Scope) (*claim, error) {
	c := &claim{t, scopes, known.hash}
	err := c.swap(ctx, claimPrefix+rand.Text(), scopes)
	if errors.Is(err, errTaken) {
		err = ErrStale
	}
	return c, err
}

// swap replaces what is held. When the answer is lost, it is looked up what
// became of it.
func (c *claim) swap(ctx context.Context, hash string, scopes []limiter.Scope) error {
	err := c.store.SetManaged(ctx, c.now(), c.held, hash, scopes)
	if err == nil {
		c.held = hash
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	_, stored, lookErr := c.store.Managed(ctx)
	switch {
	case lookErr != nil:
		return err
	case stored == hash:
		c.held = hash
		return nil
	case stored != c.held:
		return errTaken
	}
	return err
}

// hold does work while it renews the claim. The context of work ends when that
// is lost.
func (c *claim) hold(ctx context.Context, work func(context.Context)) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() { c.renew(ctx, done, cancel) })
	work(ctx)
	close(done)
	renewing.Wait()
}

func (c *claim) renew(ctx context.Context, done <-chan struct{}, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := c.swap(ctx, claimPrefix+rand.Text(), c.scopes)
		switch {
		case err == nil:
			last = time.Now()
		case errors.Is(err, errTaken) || time.Since(last) > giveUp:
			cancel(err)
			return
		}
	}
}

// release stores what came of it, also when the caller's context has ended.
func (c *claim) release(ctx context.Context, hash string, scopes []limiter.Scope) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	err := c.swap(ctx, hash, scopes)
	if err == nil || errors.Is(err, errTaken) {
		return err
	}
	return fmt.Errorf("what is managed could not be recorded; apply again: %w", err)
}
