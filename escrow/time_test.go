package escrow_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
)

// credited is a store that records the times of credits.
type credited struct {
	*remote
	mu    sync.Mutex
	times []time.Time
}

// Credit records the time.
func (c *credited) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	c.mu.Lock()
	c.times = append(c.times, now)
	c.mu.Unlock()
	return c.remote.Credit(ctx, now, credits...)
}

// clocks is a pot that holds tokens, granted at a time by the caller's clock. Its
// hold is 600 ms.
type clocks struct {
	*testing.T
	store   *credited
	repo    *escrow.Repository
	granted time.Time
}

func newClocks(t *testing.T) *clocks {
	t.Helper()
	c := &clocks{
		T: t, store: &credited{remote: newRemote(t, 0, limiter.PerMinute("rpm", 6000))},
		granted: time.Date(2031, time.May, 4, 3, 2, 1, 0, time.UTC),
	}
	c.repo = escrow.New(c.store, nil)
	c.consume(0)
	c.consume(0)
	if held := c.repo.Stats().Held; held != 10 {
		t.Fatalf("%d tokens are held, want 10", held)
	}
	return c
}

// consume charges 10 tokens at a time after the grant, and reports whether the pot
// paid.
func (c *clocks) consume(after time.Duration) (local bool) {
	c.Helper()
	before := c.repo.Stats().AdmittedLocally
	out, err := c.repo.Consume(c.Context(), c.granted.Add(after), chargeOf(10))
	must(c.T, err)
	if !out.Admitted {
		c.Fatal("refused")
	}
	return c.repo.Stats().AdmittedLocally > before
}

const hold = 600 * time.Millisecond

// A hold ends by the clock of the caller or by that of the machine.
func TestAHoldEnds(t *testing.T) {
	for _, c := range []struct {
		name            string
		machine, caller time.Duration
		local           bool
	}{
		{"before both", hold - time.Millisecond, hold - time.Millisecond, true},
		{"by the caller's clock", 0, hold, false},
		{"by the machine's clock", hold, 0, false},
		{"by a clock that goes back", 0, -hold/8 - time.Millisecond, false},
		{"not by a caller of the same moment", 0, -hold / 8, true},
		{"not by such a caller later", hold - time.Millisecond, -hold / 8, true},
		{"by the machine's clock, for such a caller", hold, -hold / 8, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pot := newClocks(t)
				defer func() { must(t, pot.repo.Close()) }()
				time.Sleep(c.machine)
				if local := pot.consume(c.caller); local != c.local {
					t.Errorf("admitted from the pot: %v, want %v", local, c.local)
				}
			})
		})
	}
}

// A return carries the time of the grant by the caller's clock, plus the time that
// passed on the machine.
func TestAReturnCarriesTheTimeOfItsGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocks(t)
		time.Sleep(hold)
		synctest.Wait()
		if len(c.store.times) != 1 || !c.store.times[0].Equal(c.granted.Add(hold)) {
			t.Errorf("returns at %v, want one at %v", c.store.times, c.granted.Add(hold))
		}
		if s := c.repo.Stats(); s.Held != 0 || s.Returned != 10 {
			t.Errorf("%+v", s)
		}
		must(t, c.repo.Close())
	})
}

// A caller whose clock shows that two holds have passed makes a return too late.
func TestALateReturnIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocks(t)
		c.consume(2 * hold)
		must(t, c.repo.Close())
		if s := c.repo.Stats(); s.Dropped != 10 || s.Held != 0 {
			t.Errorf("%+v, want 10 tokens dropped", s)
		}
	})
}

// A return that takes until the second hold has ended is dropped.
func TestASlowReturnIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocks(t)
		c.store.Repository = hanging{c.store.Repository}
		must(t, c.repo.Close())
		if s := c.repo.Stats(); s.Dropped != 10 || s.Held != 0 {
			t.Errorf("%+v, want 10 tokens dropped", s)
		}
		if passed := c.repo.Stats(); passed.Returned != 0 {
			t.Errorf("%+v", passed)
		}
	})
}

// hanging is a store whose credits take as long as their context allows.
type hanging struct{ limiter.Repository }

// Credit waits for the end of ctx.
func (hanging) Credit(ctx context.Context, _ time.Time, _ ...limiter.Credit) error {
	<-ctx.Done()
	return ctx.Err()
}

// A read at another time does not end a hold, and does not show what is over.
func TestAReadEndsNoHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocks(t)
		defer func() { must(t, c.repo.Close()) }()
		for after, want := range map[time.Duration]int64{-time.Second: 5970_000, time.Millisecond: 5980_100} {
			out, err := c.repo.Peek(t.Context(), c.granted.Add(after), limiter.Charge{Entity: "key", Resource: "gpt-4"})
			must(t, err)
			if got := out.Payers[0].Tokens[0]; got != want {
				t.Errorf("%v after the grant: %d thousandths, want %d", after, got, want)
			}
		}
		if !c.consume(0) {
			t.Error("a read has ended the hold")
		}
	})
}

// consumed is a store that records the times of charges.
type consumed struct {
	*remote
	mu    sync.Mutex
	times []time.Time
}

// Consume records the time.
func (c *consumed) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	c.mu.Lock()
	c.times = append(c.times, now)
	c.mu.Unlock()
	return c.remote.Consume(ctx, now, charge)
}

// A caller that waited for a slow request carries the time that it waited. One
// that did not wait, or whose time is not the machine's, carries its own, to the
// nanosecond.
func TestAChargeCarriesTheTimeThatItsCallerWaited(t *testing.T) {
	const slow = 3 * time.Second
	for _, c := range []struct {
		name  string
		ahead time.Duration // of the callers' clock
		want  []time.Duration
	}{
		{"live", 0, []time.Duration{0, slow, 2 * slow}},
		{"nearly live", -2 * time.Second, []time.Duration{0, slow, 2 * slow}},
		{"a replay", -time.Hour, []time.Duration{0, 2 * time.Second, slow + time.Second}},
		{"a simulation of the future", time.Hour, []time.Duration{0, 2 * time.Second, slow + time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, opts := range []*escrow.Options{nil, sharing} {
				synctest.Test(t, func(t *testing.T) {
					store := &consumed{remote: newRemote(t, slow, limiter.PerMinute("rpm", 6000))}
					repo := escrow.New(store, opts)
					defer func() { must(t, repo.Close()) }()
					start := time.Now().Add(c.ahead)
					var all sync.WaitGroup
					for _, after := range []time.Duration{0, time.Second, 2 * time.Second, slow + time.Second} {
						all.Go(func() {
							time.Sleep(after)
							if _, err := repo.Consume(t.Context(), start.Add(after), chargeOf(1)); err != nil {
								t.Error(err)
							}
						})
					}
					all.Wait()
					var got []time.Duration
					for _, at := range store.times {
						got = append(got, at.Sub(start))
					}
					if diff := cmp.Diff(c.want, got); diff != "" {
						t.Errorf("times of charges (-want +got):\n%s", diff)
					}
				})
			}
		})
	}
}
