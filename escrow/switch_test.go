package escrow_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
)

// off returns a switch of a level.
func off(of limiter.Scope) (limiter.Switch, limiter.AuditEvent) {
	return limiter.Switch{
		Scope: of, Reason: "leaked", Since: time.Now(),
	}, limiter.AuditEvent{ID: "02", Action: "disabled", At: time.Now()}
}

func refusedBy(err error) *limiter.DisabledError {
	disabled, _ := errors.AsType[*limiter.DisabledError](err)
	return disabled
}

// A switch of any level closes the pots that it concerns, the parent's included.
func TestASwitchClosesPots(t *testing.T) {
	for _, of := range []limiter.Scope{
		{},
		{Resource: "gpt-4"},
		{Entity: "key"},
		{Entity: "key", Resource: "gpt-4"},
		{Entity: "team"},
		{Entity: "team", Resource: "gpt-4"},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote(t, 0, limiter.PerDay("rpm", 1000))
			repo := escrow.New(store, nil)
			defer func() { must(t, repo.Close()) }()
			must(t,
				repo.CreateEntity(t.Context(), limiter.Entity{ID: "key", Parent: "team", Cascade: true},
					limiter.AuditEvent{ID: "03", At: time.Now()}))
			holding(t, repo, time.Now())
			s, ev := off(of)
			must(t, repo.SetSwitch(t.Context(), s, ev))
			_, err := repo.Consume(t.Context(), time.Now(), chargeOf(1))
			if d := refusedBy(err); d == nil || d.Scope != of || repo.Stats().Held != 0 {
				t.Errorf("%v: %v, and %d are held", of, err, repo.Stats().Held)
			}
			if last := repo.LastSwitch("key", "gpt-4"); last == nil || last.Scope != of {
				t.Errorf("%v: last seen %v", of, last)
			}
			must(t, repo.DeleteSwitch(t.Context(), of, ev))
			if !charge(t, repo, time.Now(), 1).Admitted {
				t.Errorf("%v: refused after it is on again", of)
			}
		})
	}
}

// A switch that another process turns off is seen at the latest when the hold ends,
// and the first answer of the store closes the pot.
func TestASwitchOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote(t, 0, limiter.PerDay("rpm", 1000))
		repo := escrow.New(store, nil)
		defer func() { must(t, repo.Close()) }()
		held := holding(t, repo, time.Now())
		s, ev := off(limiter.Scope{Entity: "key"})
		must(t, store.SetSwitch(t.Context(), s, ev))
		if !charge(t, repo, time.Now(), 1).Admitted {
			t.Error("the pot is closed before the store has answered")
		}
		if _, err := repo.Consume(t.Context(), time.Now(), chargeOf(held)); refusedBy(err) == nil {
			t.Errorf("error %v", err)
		}
		repo.Flush()
		out, err := store.Repository.Peek(t.Context(), time.Now(), chargeOf(0))
		if refusedBy(err) == nil || repo.Stats().Held != 0 {
			t.Errorf("%+v, %v, and %d are held", out, err, repo.Stats().Held)
		}
		must(t, store.DeleteSwitch(t.Context(), s.Scope, ev))
		if n := drain(t, repo, time.Now()); n != 1000-41 {
			t.Errorf("%d calls are left, want %d", n, 1000-41)
		}
	})
}

// A reset takes back what pots hold first, so that the bucket is full and no more.
func TestAFillEmptiesPots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote(t, 0, limiter.Quota("rpm", 1000, limiter.EveryDay))
		repo := escrow.New(store, nil)
		defer func() { must(t, repo.Close()) }()
		holding(t, repo, noon)
		fill := limiter.Fill{Entity: "key", Resource: "gpt-4"}
		done, err := repo.Fill(t.Context(), noon, fill, limiter.AuditEvent{ID: "04", At: noon})
		must(t, err)
		if n := drain(t, repo, noon); !done || n != 1000 {
			t.Errorf("%d calls after a reset, want 1000 (done %v)", n, done)
		}
		fill.ID, fill.Amounts = "invoice-1", limiter.Tokens("rpm", 5)
		for i, want := range []bool{true, false} {
			done, err := repo.Fill(t.Context(), noon, fill, limiter.AuditEvent{ID: "05", At: noon})
			must(t, err)
			if n := drain(t, repo, noon); done != want || n != 5-5*int64(i) {
				t.Errorf("top-up %d: %d calls, done %v", i, n, done)
			}
		}
	})
}

// disabledOnce is a store whose next charge is disabled.
type disabledOnce struct {
	*remote
	next bool
}

// Consume refuses one charge.
func (d *disabledOnce) Consume(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
	if d.next {
		d.next = false
		return limiter.Outcome{}, &limiter.DisabledError{Entity: c.Entity, Resource: c.Resource}
	}
	return d.remote.Consume(ctx, now, c)
}

// What a pot has for a part of its callers admits none of them once the store has
// answered that they are disabled.
func TestADisabledAnswerAdmitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &disabledOnce{remote: newRemote(t, 0, limiter.PerDay("rpm", 1000))}
		repo := escrow.New(store, nil)
		defer func() { must(t, repo.Close()) }()
		held := holding(t, repo, noon)
		store.next = true
		if out, err := repo.Consume(t.Context(), noon, chargeOf(held+1)); refusedBy(err) == nil || out.Admitted {
			t.Errorf("%+v, %v", out, err)
		}
		repo.Flush()
		if s := repo.Stats(); s.Held != 0 || s.Returned != held {
			t.Errorf("%d were held: %+v", held, s)
		}
	})
}
