package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// crowd is a world that counts the requests of each entity.
type crowd struct {
	*world
	mu    sync.Mutex
	asked map[string]int
	// called once, before the next request of an entity
	before map[string]func()
	after  map[string]func(limiter.Outcome) (limiter.Outcome, error) // called once, after the answer
	served chan string                                               // entities that got a lease
	failed map[string]error                                          // entities that did not
}

// runCrowd runs a test in a bubble, with limits that refill slowly.
func runCrowd(t *testing.T, test func(*crowd), limits ...limiter.Limit) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{
			world: startWith(t, limiter.Options{Now: time.Now}, memory.Options{}, limits...), asked: map[string]int{},
			before: map[string]func(){}, after: map[string]func(limiter.Outcome) (limiter.Outcome, error){},
			served: make(chan string, 5000), failed: map[string]error{},
		}
		c.store.onConsume = c.consume
		test(c)
	})
}

func (c *crowd) consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	c.mu.Lock()
	c.asked[charge.Entity]++
	before, after := c.before[charge.Entity], c.after[charge.Entity]
	delete(c.before, charge.Entity)
	delete(c.after, charge.Entity)
	c.mu.Unlock()
	if before != nil {
		before()
	}
	out, err := c.store.Repository.Consume(ctx, now, charge)
	if after != nil && err == nil {
		return after(out)
	}
	return out, err
}

// children creates entities that cascade to the project.
func (c *crowd) children(names ...string) {
	for _, e := range names {
		_, err := c.CreateEntity(bg, limiter.Entity{ID: e, Parent: project, Cascade: true})
		check(c.t, err)
	}
}

// wait starts a waiter and returns a function that cancels it.
func (c *crowd) wait(entity string, amounts limiter.Amounts) (giveUp func()) {
	ctx, cancel := context.WithCancel(bg)
	c.t.Cleanup(cancel)
	go func() {
		_, err := c.Wait(ctx, request(entity, amounts))
		if err == nil {
			c.served <- entity
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.failed[entity] = err
	}()
	synctest.Wait()
	return cancel
}

// reset clears the counts.
func (c *crowd) reset() {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.asked)
}

// wantAsked checks how often waiters asked the store.
func (c *crowd) wantAsked(want map[string]int) {
	c.t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) != len(want) {
		c.t.Errorf("asked: %v, want %v", c.asked, want)
		return
	}
	for e, n := range want {
		if c.asked[e] != n {
			c.t.Errorf("%s asked %d times, want %d", e, c.asked[e], n)
		}
	}
}

// wantServed checks which waiters were served, in any order.
func (c *crowd) wantServed(want ...string) {
	c.t.Helper()
	synctest.Wait()
	got := map[string]bool{}
	for range len(c.served) {
		got[<-c.served] = true
	}
	if len(got) != len(want) {
		c.t.Errorf("served %v, want %v", got, want)
	}
	for _, e := range want {
		if !got[e] {
			c.t.Errorf("served %v, want %v", got, want)
		}
	}
}

// TestSettlementsWakeNoOtherKey checks that a give-back wakes only waiters that
// lack it, with 1,000 other keys waiting.
func TestSettlementsWakeNoOtherKey(t *testing.T) {
	for name, cascade := range map[string]bool{"keys": false, "keys of one parent": true} {
		t.Run(name, func(t *testing.T) {
			runCrowd(t, func(c *crowd) {
				check(c.t, c.SetLimits(bg, project, "", limiter.PerDay("rpm", 1e9)))
				for i := range 1000 {
					key := fmt.Sprintf("key-%d", i)
					if cascade {
						c.children(key)
					}
					c.take(c.t, key, rpm(100))
					c.wait(key, rpm(60))
				}
				if cascade {
					c.children("busy")
				}
				c.reset()
				for range 1000 {
					lease := c.take(c.t, "busy", rpm(100))
					check(c.t, lease.Release(rpm(60)))
					check(c.t, lease.Flush(bg))
					check(c.t, lease.Rollback(bg))
				}
				c.wantAsked(map[string]int{"busy": 1000})
				c.wantServed()
			}, limiter.PerDay("rpm", 100))
		})
	}
}

// TestParentsGiveBackWakesWhenItIsEnough checks that a waiter that lacks tokens
// of its parent wakes only when they may be there.
func TestParentsGiveBackWakesWhenItIsEnough(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		check(c.t, c.SetLimits(bg, project, "", limiter.PerDay("rpm", 60), limiter.PerDay("tpm", 60)))
		c.children(alice, "bob")
		lease := c.take(c.t, alice, rpm(60).And("tpm", 60))
		c.wait("bob", rpm(50).And("tpm", 10))
		c.reset()
		for _, give := range []limiter.Amounts{rpm(20), rpm(29), tpm(9), rpm(1)} {
			check(c.t, lease.Release(give))
			check(c.t, lease.Flush(bg))
			c.wantAsked(nil)
		}
		check(c.t, lease.Release(tpm(1)))
		began := time.Now()
		check(c.t, lease.Flush(bg))
		c.wantAsked(map[string]int{"bob": 1})
		c.wantServed("bob")
		wantTook(c.t, began, 0)
	}, limiter.PerDay("rpm", 100), limiter.PerDay("tpm", 100))
}

// TestGiveBackWakesAsManyAsItMayServe checks that a give-back wakes as many
// waiters as it may serve, and no more.
func TestGiveBackWakesAsManyAsItMayServe(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		check(c.t, c.SetLimits(bg, project, "", limiter.PerDay("rpm", 60)))
		c.children(alice)
		lease := c.take(c.t, alice, rpm(60))
		for i := range 1000 {
			key := fmt.Sprintf("key-%d", i)
			c.children(key)
			c.wait(key, rpm(20))
		}
		c.reset()
		check(c.t, lease.Release(rpm(19)))
		check(c.t, lease.Flush(bg))
		c.wantAsked(nil)
		check(c.t, lease.Release(rpm(21)))
		check(c.t, lease.Flush(bg))
		c.wantAsked(map[string]int{"key-0": 1, "key-1": 1})
		c.wantServed("key-0", "key-1")
		check(c.t, lease.Rollback(bg))
		c.wantServed("key-2")
	}, limiter.PerDay("rpm", 100))
}

// TestGiveBackShortensTheWait checks that a waiter asks when give-back and refill
// together are enough.
func TestGiveBackShortensTheWait(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		lease := c.take(c.t, alice, rpm(60))
		began := time.Now()
		time.AfterFunc(500*time.Millisecond, func() {
			if err := errors.Join(lease.Release(rpm(3)), lease.Flush(bg)); err != nil {
				c.t.Error(err)
			}
		})
		c.reset()
		_, err := c.Wait(bg, request(alice, rpm(4))) // 4 s by refill alone
		check(c.t, err)
		wantTook(c.t, began, time.Second)
		c.wantAsked(map[string]int{alice: 2})
	}, limiter.PerMinute("rpm", 60))
}

// TestGiveBackWhileAskingIsNotOverlooked checks that a give-back during a request
// to the store counts.
func TestGiveBackWhileAskingIsNotOverlooked(t *testing.T) {
	for name, known := range map[string]bool{"first time": false, "again": true} {
		for who, entity := range map[string]string{"own bucket": alice, "parent": "bob"} {
			t.Run(name+"/"+who, func(t *testing.T) {
				runCrowd(t, func(c *crowd) {
					check(c.t, c.SetLimits(bg, project, "", limiter.PerDay("rpm", 60)))
					c.children(alice, "bob")
					lease := c.take(c.t, alice, rpm(60))
					giveBack := func(out limiter.Outcome) (limiter.Outcome, error) {
						if out.Admitted {
							c.t.Error("it was there before")
						}
						return out, lease.Rollback(bg)
					}
					if known {
						c.wait(entity, rpm(30))
						c.after[entity] = giveBack
						c.reset()
						time.Sleep(5 * time.Second) // until the recheck
					} else {
						c.after[entity] = giveBack
						c.wait(entity, rpm(30))
					}
					c.wantServed(entity)
					c.mu.Lock()
					defer c.mu.Unlock()
					if n := c.asked[entity]; n > 3 {
						c.t.Errorf("asked %d times", n)
					}
				}, limiter.PerDay("rpm", 100))
			})
		}
	}
}

// TestGiveBackIsPassedOn checks that a woken waiter that gives up lets the next
// one ask.
func TestGiveBackIsPassedOn(t *testing.T) {
	for name, spoil := range map[string]func(c *crowd, giveUp func()){
		"outage": func(c *crowd, _ func()) {
			c.store.onConsume = func(
				ctx context.Context, now time.Time, charge limiter.Charge,
			) (limiter.Outcome, error) {
				if charge.Entity == "bob" {
					return limiter.Outcome{}, errDown
				}
				return c.consume(ctx, now, charge)
			}
		},
		"gave up":              func(c *crowd, giveUp func()) { c.before["bob"] = giveUp },
		"lacks something else": func(c *crowd, _ func()) { c.before["bob"] = func() { c.take(c.t, "bob", tpm(100)) } },
	} {
		t.Run(name, func(t *testing.T) {
			runCrowd(t, func(c *crowd) {
				check(c.t, c.SetLimits(bg, project, "", limiter.PerDay("rpm", 60)))
				c.children(alice, "bob", "carol")
				lease := c.take(c.t, alice, rpm(60))
				giveUp := c.wait("bob", rpm(60).And("tpm", 1))
				c.wait("carol", rpm(60))
				spoil(c, giveUp)
				began := time.Now()
				check(c.t, lease.Rollback(bg))
				c.wantServed("carol")
				wantTook(c.t, began, 0)
			}, limiter.PerDay("rpm", 100), limiter.PerDay("tpm", 100))
		})
	}
}

// TestOvertakenWaiterKeepsWaiting checks that a woken waiter that finds the
// tokens taken wakes again with the next give-back.
func TestOvertakenWaiterKeepsWaiting(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		first, second := c.take(c.t, alice, rpm(50)), c.take(c.t, alice, rpm(50))
		c.wait(alice, rpm(50))
		c.before[alice] = func() {
			_, err := c.store.Repository.Consume(bg, time.Now(), limiter.Charge{
				Entity: alice, Resource: resource, Amounts: rpm(40),
			})
			check(c.t, err)
		}
		c.reset()
		check(c.t, first.Rollback(bg))
		c.wantAsked(map[string]int{alice: 1})
		c.wantServed()
		check(c.t, second.Release(rpm(39)))
		check(c.t, second.Flush(bg))
		c.wantAsked(map[string]int{alice: 1})
		check(c.t, second.Rollback(bg))
		c.wantAsked(map[string]int{alice: 2})
		c.wantServed(alice)
	}, limiter.PerDay("rpm", 100))
}

// TestGiveBackWakesItsOwnNamespace checks that a give-back wakes no waiter of
// another namespace.
func TestGiveBackWakesItsOwnNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, memory.New(nil), nil)
		_, err := lim.RegisterNamespaces(bg, "other")
		check(t, err)
		other, err := lim.Namespace(bg, "other")
		check(t, err)
		view, err := lim.Namespace(bg, "default")
		check(t, err)
		var leases []*limiter.Lease
		for _, l := range []*limiter.RateLimiter{lim, other} {
			check(t, l.SetSystemDefaults(bg, limiter.PerDay("rpm", 60)))
			lease, err := l.Acquire(bg, request(alice, rpm(60)))
			check(t, err)
			leases = append(leases, lease)
		}
		served := make(chan time.Duration, 1)
		began := time.Now()
		go func() {
			if _, err := view.Wait(bg, request(alice, rpm(60))); err != nil {
				t.Error(err)
			}
			served <- time.Since(began)
		}()
		time.Sleep(time.Second)
		check(t, leases[1].Rollback(bg))
		time.Sleep(time.Second)
		check(t, leases[0].Rollback(bg)) // another view of the same namespace
		if took := <-served; took != 2*time.Second {
			t.Errorf("served after %v, want 2s", took)
		}
	})
}

// anonymous is a store that does not implement NamespaceIdentifier, and neither do
// its views.
type anonymous struct{ limiter.Repository }

func (a anonymous) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := a.Repository.Namespace(ctx, name)
	return anonymous{view}, err
}

// TestGiveBackWakesOtherViewsOfAnAnonymousStore checks that a give-back wakes
// waiters of all views if the store does not implement NamespaceIdentifier.
func TestGiveBackWakesOtherViewsOfAnAnonymousStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, anonymous{memory.New(nil)}, nil)
		check(t, lim.SetSystemDefaults(bg, limiter.PerDay("rpm", 60)))
		view, err := lim.Namespace(bg, "default")
		check(t, err)
		for _, c := range [][2]*limiter.RateLimiter{{lim, view}, {view, lim}} {
			lease, err := c[0].Acquire(bg, request(alice, rpm(60)))
			check(t, err)
			began := time.Now()
			time.AfterFunc(time.Second, func() { _ = lease.Rollback(bg) })
			lease, err = c[1].Wait(bg, request(alice, rpm(60)))
			check(t, err)
			wantTook(t, began, time.Second)
			check(t, lease.Rollback(bg))
		}
	})
}

// TestLostRacesAreNotRepeatedAtOnce checks that a waiter pauses after a store has
// lost every race for a bucket with enough tokens.
func TestLostRacesAreNotRepeatedAtOnce(t *testing.T) {
	runCrowd(t, func(c *crowd) {
		const races = 10
		asked := 0
		c.store.onConsume = func(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
			if asked++; asked > races {
				return c.store.Repository.Consume(ctx, now, charge)
			}
			out, err := c.store.Repository.Peek(ctx, now, charge)
			out.Admitted = false
			return out, err
		}
		began := time.Now()
		_, err := c.Wait(bg, request(alice, rpm(1)))
		check(c.t, err)
		if took := time.Since(began); took < races*time.Millisecond {
			c.t.Errorf("asked %d times in %v", asked, took)
		}
	}, limiter.PerDay("rpm", 100))
}

// TestWaitersOfABucketAheadSleep checks that a waiter asks only now and then if
// the bucket's own time is ahead, and at once if enough is given back.
func TestWaitersOfABucketAheadSleep(t *testing.T) {
	const ahead = 17 * time.Second
	for name, test := range map[string]func(*crowd, *limiter.Lease){
		"until it fits": func(c *crowd, _ *limiter.Lease) {
			time.Sleep(ahead + 6*time.Millisecond)
			c.wantServed(alice)
			c.wantAsked(map[string]int{alice: 5}) // after 0, 5, 10 and 15 s, and when it fits
		},
		"until a give-back": func(c *crowd, lease *limiter.Lease) {
			time.Sleep(time.Second)
			check(c.t, lease.Rollback(bg))
			c.wantServed(alice)
			c.wantAsked(map[string]int{alice: 2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			runCrowd(t, func(c *crowd) {
				later := newLimiter(c.t, c.store, &limiter.Options{Now: func() time.Time {
					return time.Now().Add(ahead)
				}})
				lease := c.take(c.t, alice, rpm(5))
				_, err := later.Acquire(bg, request(alice, rpm(60_000)))
				check(c.t, err)
				c.reset()
				c.wait(alice, rpm(5))
				test(c, lease)
			}, limiter.Custom("rpm", 60_000, 1_000, time.Second))
		})
	}
}
