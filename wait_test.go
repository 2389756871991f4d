package limiter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// bubble runs a test in synctest with an empty bucket of 60 tokens a minute. It
// fails if a goroutine stays.
func bubble(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := startWith(t, limiter.Options{Now: time.Now}, memory.Options{}, limiter.PerMinute("rpm", 60))
		w.take(t, alice, rpm(60))
		test(w)
	})
}

// wantTook checks a duration. A wait may be a millisecond too long.
func wantTook(t *testing.T, began time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(began); took < want || took > want+time.Millisecond {
		t.Errorf("it took %v, want %v", took, want)
	}
}

func TestWaitReturnsWhenItFits(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		for _, c := range []struct {
			ask  int64
			want time.Duration
		}{{1, time.Second}, {0, 0}, {4, 4 * time.Second}, {30, 30 * time.Second}} {
			began := time.Now()
			lease, err := w.Wait(bg, request(alice, rpm(c.ask)))
			check(t, err)
			check(t, lease.Commit(bg))
			wantTook(t, began, c.want)
		}
	})
}

func TestWaitServesInOrderOfArrival(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		type turn struct {
			waiter int
			after  time.Duration
		}
		began := time.Now()
		served := make(chan turn)
		for i, ask := range []int64{20, 1, 5} { // a small request does not overtake
			go func() {
				if _, err := w.Wait(bg, request(alice, rpm(ask))); err != nil {
					t.Error(err)
				}
				served <- turn{i, time.Since(began).Truncate(10 * time.Millisecond)}
			}()
			synctest.Wait()
		}
		if _, err := w.Wait(bg, request("bob", rpm(1))); err != nil || time.Since(began) != 0 {
			t.Errorf("another line waited %v, %v", time.Since(began), err)
		}
		for _, want := range []turn{{0, 20 * time.Second}, {1, 21 * time.Second}, {2, 26 * time.Second}} {
			if got := <-served; got != want {
				t.Errorf("served %v, want %v", got, want)
			}
		}
	})
}

// queued starts another waiter first and returns a function that ends it.
func (w *world) queued(t *testing.T) (done func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(bg)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = w.Wait(ctx, request(alice, rpm(60)))
	}()
	synctest.Wait()
	return func() { cancel(); <-ended }
}

// behind runs a test as the first in the queue, and again behind another waiter.
func behind(t *testing.T, test func(*world)) {
	t.Helper()
	t.Run("first", func(t *testing.T) { bubble(t, test) })
	t.Run("queued", func(t *testing.T) {
		bubble(t, func(w *world) {
			t := w.t
			defer w.queued(t)()
			test(w)
		})
	})
}

func TestWaitReturnsAtOnceWhatNeverFits(t *testing.T) {
	behind(t, func(w *world) {
		t := w.t
		began := time.Now()
		_, err := w.Wait(bg, request(alice, rpm(61)))
		exceeded(t, err)
		is(t, err, limiter.ErrNeverFits)
		wantTook(t, began, 0)
	})
}

func TestWaitReturnsAtOnceWhenTheDeadlineIsTooNear(t *testing.T) {
	behind(t, func(w *world) {
		t := w.t
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		began := time.Now()
		_, err := w.Wait(ctx, request(alice, rpm(11)))
		if ex := exceeded(t, err); ex.RetryAfter() != 11_001*time.Millisecond {
			t.Errorf("retry after %v", ex.RetryAfter())
		}
		is(t, err, context.DeadlineExceeded)
		if errors.Is(err, limiter.ErrNeverFits) {
			t.Error("it would fit, with more time")
		}
		wantTook(t, began, 0)
	})
}

func TestWaitReturnsAtOnceWhatIsWrong(t *testing.T) {
	behind(t, func(w *world) {
		t := w.t
		began := time.Now()
		_, err := w.Wait(bg, request(alice, rpm(1).And("tmp", 1)))
		invalid(t, err, "consume")
		wantTook(t, began, 0)
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	behind(t, func(w *world) {
		t := w.t
		ctx, cancel := context.WithCancel(bg)
		time.AfterFunc(3*time.Second, cancel)
		began := time.Now()
		_, err := w.Wait(ctx, request(alice, rpm(30)))
		exceeded(t, err) // the last refusal
		is(t, err, context.Canceled)
		wantTook(t, began, 3*time.Second)
	})
}

// TestWaitForATurnEndsWithItsContext checks that a waiter that was never refused
// returns only the error of its context.
func TestWaitForATurnEndsWithItsContext(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		time.Sleep(time.Second) // refills one token
		defer w.queued(t)()
		ctx, cancel := context.WithTimeout(bg, 3*time.Second)
		defer cancel()
		_, err := w.Wait(ctx, request(alice, rpm(1)))
		is(t, err, context.DeadlineExceeded)
		if _, refused := errors.AsType[*limiter.ExceededError](err); refused {
			t.Errorf("got %v, though there was room", err)
		}
	})
}

func TestWaiterThatLeavesLetsTheNextOneGo(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		done := w.queued(t)
		began := time.Now()
		time.AfterFunc(2*time.Second, done)
		lease, err := w.Wait(bg, request(alice, rpm(1)))
		check(t, err)
		check(t, lease.Commit(bg))
		wantTook(t, began, 2*time.Second)
	})
}

func TestWaitIsWokenByAGiveBack(t *testing.T) {
	for name, end := range map[string]func(*limiter.Lease) error{
		"Rollback": func(l *limiter.Lease) error { return l.Rollback(bg) },
		"Commit":   func(l *limiter.Lease) error { return errors.Join(l.Release(rpm(60)), l.Commit(bg)) },
		"Flush":    func(l *limiter.Lease) error { return errors.Join(l.Release(rpm(60)), l.Flush(bg)) },
	} {
		for who, entity := range map[string]string{"same entity": alice, "sibling": "bob"} {
			t.Run(name+"/"+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := startWith(t, limiter.Options{Now: time.Now}, memory.Options{}, limiter.PerHour("rpm", 100))
					check(t, w.SetLimits(bg, project, "", limiter.PerHour("rpm", 60)))
					for _, e := range []string{alice, "bob"} {
						_, err := w.CreateEntity(bg, limiter.Entity{ID: e, Parent: project, Cascade: true})
						check(t, err)
					}
					lease := w.take(t, alice, rpm(60))
					began := time.Now()
					time.AfterFunc(time.Second, func() {
						if err := end(lease); err != nil {
							t.Error(err)
						}
					})
					_, err := w.Wait(bg, request(entity, rpm(60)))
					check(t, err)
					wantTook(t, began, time.Second)
				})
			})
		}
	}
}

// TestWaitLooksAgainNowAndThen checks that a waiter notices a give-back of
// another process after a while.
func TestWaitLooksAgainNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWith(t, limiter.Options{Now: time.Now}, memory.Options{}, limiter.PerDay("rpm", 60))
		other := newLimiter(t, w.store, nil)
		lease, err := other.Acquire(bg, request(alice, rpm(60)))
		check(t, err)
		began := time.Now()
		time.AfterFunc(time.Second, func() { _ = lease.Rollback(bg) })
		_, err = w.Wait(bg, request(alice, rpm(60)))
		check(t, err)
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("noticed after %v", took)
		}
	})
}

func TestWaitInAnOutage(t *testing.T) {
	for _, mode := range []limiter.OnUnavailable{limiter.Block, limiter.Allow} {
		t.Run(string(mode), func(t *testing.T) {
			bubble(t, func(w *world) {
				t := w.t
				req := request(alice, rpm(60))
				req.OnUnavailable = mode
				want := func(lease *limiter.Lease, err error) {
					t.Helper()
					if mode == limiter.Allow {
						check(t, err)
						err = lease.Outage()
					}
					unavailable(t, err, "acquire")
				}
				began := time.Now()
				time.AfterFunc(3*time.Second, w.store.down) // during the wait
				want(w.Wait(bg, req))
				wantTook(t, began, 5*time.Second) // at the recheck
				began = time.Now()
				want(w.Wait(bg, req))
				wantTook(t, began, 0)
			})
		})
	}
}

// TestWaitQueuesInAnOutage checks that a waiter behind another leaves it to the
// first to notice the outage.
func TestWaitQueuesInAnOutage(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		defer w.queued(t)()
		w.store.onPeek = func(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error) {
			return limiter.Outcome{}, errDown
		}
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		began := time.Now()
		_, err := w.Wait(ctx, request(alice, rpm(1)))
		is(t, err, context.DeadlineExceeded)
		wantTook(t, began, time.Second)
	})
}

func TestWaitEndsWhenTheStoreIsClosed(t *testing.T) {
	behind(t, func(w *world) {
		t := w.t
		time.AfterFunc(time.Second, func() { _ = w.store.Close() })
		_, err := w.Wait(bg, request(alice, rpm(30)))
		is(t, err, limiter.ErrClosed)
	})
}

// TestWaitInAStoreThatHangs checks that a hanging store is an outage after
// Options.Timeout, for every position in the queue.
func TestWaitInAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := limiter.Options{Now: time.Now, Timeout: 2 * time.Second, OnUnavailable: limiter.Allow}
		w := startWith(t, o, memory.Options{}, limiter.PerMinute("rpm", 60))
		w.store.onConsume, w.store.onPeek = blocks, blocks
		ctx, cancel := context.WithTimeout(bg, time.Hour)
		defer cancel()
		done := w.queued(t)
		defer done()
		began := time.Now()
		lease, err := w.Wait(ctx, request(alice, rpm(1)))
		check(t, err)
		unavailable(t, lease.Outage(), "acquire")
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// inOrder makes two limiters wait for one bucket, the larger request first.
func inOrder(t *testing.T, first, second *limiter.RateLimiter) {
	t.Helper()
	served := make(chan int64)
	for i, ask := range []int64{20, 1} {
		lim := []*limiter.RateLimiter{first, second}[i]
		go func() {
			if _, err := lim.Wait(bg, request(alice, rpm(ask))); err != nil {
				t.Error(err)
			}
			served <- ask
		}()
		synctest.Wait()
	}
	if first, second := <-served, <-served; first != 20 || second != 1 {
		t.Errorf("served %d, then %d: the second overtook", first, second)
	}
}

// TestWaitersOfAllViewsShareAQueue checks that the views of one namespace share a
// queue, and share it with the limiter itself if the store implements
// NamespaceIdentifier.
func TestWaitersOfAllViewsShareAQueue(t *testing.T) {
	bubble(t, func(w *world) {
		var views [2]*limiter.RateLimiter
		for i := range views { // like two handlers
			v, err := w.Namespace(bg, "default")
			check(w.t, err)
			views[i] = v.As("someone")
		}
		inOrder(w.t, views[0], views[1])
	})
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, memory.New(nil), nil)
		check(t, lim.SetSystemDefaults(bg, limiter.PerMinute("rpm", 60)))
		_, err := lim.Acquire(bg, request(alice, rpm(60)))
		check(t, err)
		view, err := lim.Namespace(bg, "default")
		check(t, err)
		inOrder(t, lim, view)
	})
}
