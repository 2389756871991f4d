package escrow_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
)

// stuck is a store whose charges do not return until their context ends.
type stuck struct {
	*remote
	on atomic.Bool
}

// Consume waits for the end of ctx while the store is stuck.
func (s *stuck) Consume(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
	if s.on.Load() {
		<-ctx.Done()
		return limiter.Outcome{}, ctx.Err()
	}
	return s.remote.Consume(ctx, now, c)
}

// newStuck returns a repository with a request that is stuck, and a function that
// makes its caller leave.
func newStuck(t *testing.T) (repo *escrow.Repository, store *stuck, leave func()) {
	t.Helper()
	store = &stuck{remote: newRemote(t, 0, limiter.PerMinute("rpm", 6000))}
	repo = escrow.New(store, nil)
	_, err := repo.Consume(t.Context(), time.Now(), chargeOf(1))
	must(t, err)
	store.on.Store(true)
	ctx, leave := context.WithCancel(t.Context())
	go func() { _, _ = repo.Consume(ctx, time.Now(), chargeOf(10)) }()
	synctest.Wait()
	return repo, store, leave
}

// took returns how long a call took, in whole seconds.
func took(call func()) time.Duration {
	start := time.Now()
	call()
	return time.Since(start).Truncate(time.Second)
}

// A change and an override that wait for a stuck request leave with their context,
// and change nothing.
func TestAChangeDoesNotWaitLongerThanItsContext(t *testing.T) {
	event := limiter.AuditEvent{ID: "02", At: time.Now()}
	override := chargeOf(1)
	override.Limits = []limiter.Limit{limiter.PerMinute("rpm", 10)}
	for name, call := range map[string]func(context.Context, *escrow.Repository) error{
		"a change": func(ctx context.Context, r *escrow.Repository) error {
			return r.SetConfig(ctx, limiter.Config{Limits: override.Limits}, event)
		},
		"an override": func(ctx context.Context, r *escrow.Repository) error {
			_, err := r.Consume(ctx, time.Now(), override)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				repo, store, leave := newStuck(t)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				var err error
				if d := took(func() {
					err = call(ctx, repo)
				}); d != 3*time.Second || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v after %v", err, d)
				}
				cfg, err := store.Config(t.Context(), limiter.Scope{})
				must(t, err)
				if cfg.Limits[0].Capacity != 6000 {
					t.Errorf("the limits have changed: %v", cfg.Limits)
				}
				leave()
				must(t, repo.Close())
			})
		})
	}
}

// A request ends soon after its last caller has left.
func TestARequestEndsAfterItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo, store, leave := newStuck(t)
		leave()
		if d := took(func() {
			must(t, repo.DeleteEntity(t.Context(), "key", limiter.AuditEvent{ID: "02", At: time.Now()}))
		}); d != time.Second {
			t.Errorf("a change waited for %v", d)
		}
		store.on.Store(false)
		_, err := repo.Consume(t.Context(), time.Now(), chargeOf(1))
		must(t, err)
		must(t, repo.Close())
	})
}

// Close does not wait forever for a request that is stuck.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo, _, leave := newStuck(t)
		if d := took(func() { must(t, repo.Close()) }); d != 10*time.Second {
			t.Errorf("Close took %v", d)
		}
		leave()
		time.Sleep(2 * time.Second)
		if s := repo.Stats(); s.Held != 0 {
			t.Errorf("%+v", s)
		}
	})
}
