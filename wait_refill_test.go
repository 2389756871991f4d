package limiter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// perSecond is a limit of 10 a second, for the parent and its children.
var perSecond = limiter.Custom("rpm", 10, 10, time.Second)

// keys makes n children of the project wait for one token each.
func (c *crowd) keys(n int) {
	for i := range n {
		key := fmt.Sprint("key-", i)
		c.children(key)
		c.wait(key, rpm(1))
	}
}

// drain takes everything that the parent holds.
func (c *crowd) drain() {
	c.children("drain")
	c.take(c.t, "drain", rpm(10))
}

// total returns how often the waiters asked the store.
func (c *crowd) total() (asked int) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.asked {
		asked += n
	}
	return asked
}

// TestRefillWakesNoHerd checks that a refill wakes only as many waiters as it may
// serve.
func TestRefillWakesNoHerd(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		c.keys(100)
		time.Sleep(5 * time.Second) // the parent held 10, and gains 10 a second
		c.reset()
		time.Sleep(2 * time.Second)
		if asked, served := c.total(), 20; asked > 10*served {
			c.t.Errorf("%d asked for %d tokens", asked, served)
		}
	}, perSecond)
}

// TestRefillServesInOrderOfArrival checks that waiters with the same need are
// served in order of arrival, as fast as the parent refills, with about one
// request each.
func TestRefillServesInOrderOfArrival(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		c.drain()
		c.keys(2000)
		c.reset()
		const seconds = 100
		time.Sleep(seconds*time.Second + 2*time.Millisecond)
		if asked, served := c.total(), len(c.served); served != 10*seconds || asked > served+2*seconds/5 {
			c.t.Errorf("%d served with %d requests", served, asked)
		}
		for i := range len(c.served) {
			if got, want := <-c.served, fmt.Sprint("key-", i); got != want {
				c.t.Fatalf("%s was served, want %s", got, want)
			}
		}
	}, perSecond)
}

// TestRefillWakesNoHerdOfASlowStore checks that waiters do not ask a slow store
// more often.
func TestRefillWakesNoHerdOfASlowStore(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		c.store.onConsume = func(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
			time.Sleep(15 * time.Millisecond)
			out, err := c.consume(ctx, time.Now(), charge)
			time.Sleep(15 * time.Millisecond)
			return out, err
		}
		check(c.t, c.SetLimits(bg, project, "", limiter.Custom("rpm", 100, 1000, time.Second)))
		c.keys(4000)
		defer time.Sleep(time.Second) // until all requests have returned
		defer c.store.up()
		time.Sleep(time.Second)
		c.reset()
		before := len(c.served)
		time.Sleep(2 * time.Second)
		if asked, served := c.total(), len(c.served)-before; served < 1900 || asked > 2*served {
			c.t.Errorf("%d served with %d requests", served, asked)
		}
	}, perSecond)
}

// TestRefillIsPassedOn checks that a waiter that gives up leaves the refill to
// the next one.
func TestRefillIsPassedOn(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		c.drain()
		c.children("bob")
		giveUp := c.wait("bob", rpm(1))
		c.keys(2)
		time.Sleep(50 * time.Millisecond)
		giveUp()
		time.Sleep(52 * time.Millisecond)
		c.wantServed("key-0")
	}, perSecond)
}

// TestRefillPassesTheSlower checks that a waiter that lacks a slower limit too
// does not block the waiters behind it, and is served in time.
func TestRefillPassesTheSlower(t *testing.T) {
	for name, test := range map[string]struct {
		taken    int64
		giveBack bool
	}{"unknown": {50, false}, "known": {105, false}, "known, with a give-back": {105, true}} {
		t.Run(name, func(t *testing.T) {
			runCrowd(t, func(c *crowd) {
				c.children("drain", "ann", "bob")
				drain := c.take(c.t, "drain", rpm(10))
				lease := c.take(c.t, "bob", tpm(test.taken))
				c.wait("ann", rpm(1))
				c.wait("bob", rpm(1).And("tpm", 50)) // waits longest for rpm, and comes second
				c.keys(2)
				check(c.t, lease.Adjust(tpm(190))) // now the wait for tpm is longer
				check(c.t, lease.Flush(bg))
				if test.giveBack {
					check(c.t, drain.Rollback(bg))
				} else {
					time.Sleep(303 * time.Millisecond)
				}
				c.wantServed("ann", "key-0", "key-1")
				time.Sleep(2 * time.Second)
				c.wantServed("bob")
				if asked := c.asked["bob"]; asked > 4 {
					c.t.Errorf("bob asked %d times", asked)
				}
			}, perSecond, limiter.Custom("tpm", 150, 100, time.Second))
		})
	}
}

// TestRecheckServesAll checks that a give-back of another process serves every
// waiter it suffices for, once one of them has asked.
func TestRecheckServesAll(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		c.children("drain")
		other := newLimiter(c.t, c.store, &limiter.Options{Now: time.Now})
		lease, err := other.Acquire(bg, request("drain", rpm(100)))
		check(c.t, err)
		c.keys(200)
		c.reset()
		time.Sleep(time.Second)
		check(c.t, lease.Rollback(bg))
		time.Sleep(4 * time.Second)
		if asked, served := c.total(), len(c.served); served != 100 || asked > 105 {
			c.t.Errorf("%d served with %d requests", served, asked)
		}
	}, limiter.PerDay("rpm", 100))
}

// TestRecheckEndsAllInAnOutage checks that all waiters return in an outage as
// soon as the first has noticed it.
func TestRecheckEndsAllInAnOutage(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		c.children("drain")
		c.take(c.t, "drain", rpm(100))
		c.keys(50)
		c.store.down()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.failed) != 50 {
			c.t.Errorf("%d returned", len(c.failed))
		}
	}, limiter.PerDay("rpm", 100))
}

// TestRefillPassesTheUnanswered checks that a waiter without an answer does not
// block others.
func TestRefillPassesTheUnanswered(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		c.drain()
		c.keys(3)
		hung := make(chan struct{})
		defer close(hung)
		c.mu.Lock()
		c.before["key-0"] = func() { <-hung }
		c.mu.Unlock()
		time.Sleep(302 * time.Millisecond)
		c.wantServed("key-1", "key-2")
	}, perSecond)
}

// TestRecheckSeesWhatNeverFitsAnyMore checks that a capacity below the need of a
// waiter ends its wait, even if others are before it.
func TestRecheckSeesWhatNeverFitsAnyMore(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		c.children("drain", "bob")
		c.take(c.t, "drain", rpm(100))
		c.keys(2)
		c.wait("bob", rpm(80))
		check(c.t, c.SetLimits(bg, project, "", limiter.PerDay("rpm", 50)))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		is(c.t, c.failed["bob"], limiter.ErrNeverFits)
		if len(c.failed) != 1 {
			c.t.Errorf("failed: %v", c.failed)
		}
	}, limiter.PerDay("rpm", 100))
}

// TestRefillIsUsedInFull checks that waiters use the whole refill under random
// needs and cancellations, with about one request for each lease.
func TestRefillIsUsedInFull(t *testing.T) {
	for seed := range uint64(30) {
		runCrowd(t, func(c *crowd) {
			c.drain()
			rnd := rand.New(rand.NewPCG(seed, 14))
			var need int64
			var waiting atomic.Int64
			const waiters = 100
			for range waiters {
				key := fmt.Sprint("key-", rnd.IntN(80)) // some share a queue
				if _, err := c.Entity(bg, key); err != nil {
					c.children(key)
				}
				ctx, cancel := context.WithCancel(bg)
				c.t.Cleanup(cancel)
				if rnd.IntN(4) == 0 {
					time.AfterFunc(time.Duration(rnd.IntN(10_000))*time.Millisecond, cancel)
				}
				n := 1 + rnd.Int64N(3)
				need += n
				waiting.Add(1)
				go func() {
					_, _ = c.Wait(ctx, request(key, rpm(n)))
					waiting.Add(-1)
				}()
				synctest.Wait()
			}
			time.Sleep(time.Duration(need)*100*time.Millisecond + 100*time.Millisecond)
			synctest.Wait()
			if n := waiting.Load(); n > 0 {
				c.t.Errorf("seed %d: %d are still waiting", seed, n)
			}
			if asked := c.total(); asked > 4*waiters {
				c.t.Errorf("seed %d: asked %d times", seed, asked)
			}
		}, perSecond)
	}
}
