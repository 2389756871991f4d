package escrow_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
)

// counted is a store that counts tokens.
type counted struct {
	*remote
	debited, credited atomic.Int64
}

// Consume counts what is debited.
func (c *counted) Consume(ctx context.Context, now time.Time, charge limiter.Charge) (limiter.Outcome, error) {
	out, err := c.remote.Consume(ctx, now, charge)
	if err == nil && out.Admitted {
		c.debited.Add(charge.Amounts.Get("rpm"))
	}
	return out, err
}

// Credit counts what is given back.
func (c *counted) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	err := c.remote.Credit(ctx, now, credits...)
	for _, credit := range credits {
		if err == nil {
			c.credited.Add(credit.Amounts.Get("rpm"))
		}
	}
	return err
}

// Close closes the store.
func (c *counted) Close() error { return c.Repository.Close() }

// After Close, no token is held, none is unaccounted for, and no goroutine is left,
// even if a hundred callers are at work: the bubble ends only with all of them.
func TestCloseUnderLoad(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			store := &counted{remote: newRemote(t, 3*time.Millisecond, limiter.PerMinute("rpm", 60_000))}
			repo := escrow.New(store, nil)
			var used, unknown atomic.Int64
			var callers sync.WaitGroup
			for i := range uint64(100) {
				callers.Go(func() {
					rng := rand.New(rand.NewPCG(seed, i))
					for work(t, repo, rng, &used, &unknown) {
						time.Sleep(time.Duration(rng.Int64N(int64(5 * time.Millisecond))))
					}
				})
			}
			time.Sleep(time.Duration(500+100*seed) * time.Millisecond)
			must(t, repo.Close())
			callers.Wait()
			s := repo.Stats()
			if s.Held != 0 || s.AdmittedLocally == 0 {
				t.Errorf("after Close: %+v", s)
			}
			net, most := store.debited.Load()-store.credited.Load()-s.Dropped, used.Load()
			if net > most || net < most-unknown.Load() {
				t.Errorf(
					"the store has debited %d tokens more than it got back and were dropped; %d were used, "+
						"or up to %d less",
					net, most, unknown.Load(),
				)
			}
		})
	}
}

// work acquires, and settles half of the charges. It reports whether the store is
// open.
func work(t *testing.T, repo *escrow.Repository, rng *rand.Rand, used, unknown *atomic.Int64) bool {
	t.Helper()
	n := 1 + rng.Int64N(20)
	out, err := repo.Consume(t.Context(), time.Now(), chargeOf(n))
	if errors.Is(err, limiter.ErrClosed) {
		return false
	}
	if err != nil {
		t.Error(err)
		return false
	}
	if !out.Admitted {
		return true
	}
	used.Add(n)
	back := rng.Int64N(n+3) - 2 // at times more was used
	if rng.IntN(2) == 0 || back == 0 {
		return true
	}
	switch err := repo.Credit(t.Context(), time.Now(), limiter.Credit{
		Account: out.Payers[0].Account, Amounts: limiter.Tokens("rpm", back),
	}); {
	case err == nil:
		used.Add(-back)
	case errors.Is(err, limiter.ErrClosed): // the pot may have taken a part of it
		used.Add(max(0, -back))
		unknown.Add(max(back, -back))
		return false
	default:
		t.Error(err)
		return false
	}
	return true
}
