package loadtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// TestEvents checks the type and name of the event of every call.
func TestEvents(t *testing.T) {
	limit := limiter.PerHour("rpm", 100)
	request := limiter.Request{Entity: "e", Resource: "api", Consume: limiter.Tokens("rpm", 1)}
	everything := func(ctx context.Context, u *loadtest.User) error {
		calls := []func() error{
			func() error { return u.SetSystemDefaults(ctx, limit) },
			func() error { _, err := u.SystemDefaults(ctx); return err },
			func() error { return u.SetResourceDefaults(ctx, "api", limit) },
			func() error { _, err := u.ResourceDefaults(ctx, "api"); return err },
			func() error { _, err := u.ResourcesWithDefaults(ctx); return err },
			func() error { return u.SetLimits(ctx, "e", "api", limit) },
			func() error { return u.SetLimits(ctx, "e", "", limit) },
			func() error { _, err := u.Limits(ctx, "e", "api"); return err },
			func() error { _, err := u.CreateEntity(ctx, limiter.Entity{ID: "e", Parent: "p"}); return err },
			func() error { _, err := u.Client.Entity(ctx, "e"); return err },
			func() error { _, err := u.Children(ctx, "p"); return err },
			func() error { return u.IsAvailable(ctx) },
			func() error { _, err := u.Available(ctx, "e", "api"); return err },
			func() error { _, err := u.TimeUntilAvailable(ctx, request); return err },
			func() error { // a lease without adjustments
				return u.Do(ctx, request, func(l *loadtest.Lease) error { return l.Used("rpm", 1) })
			},
			func() error { return u.Do(ctx, request, func(l *loadtest.Lease) error { return l.Used("rpm", 5) }) },
			func() error {
				lease, err := u.Acquire(ctx, request)
				if err != nil {
					return err
				}
				return lease.Rollback(ctx)
			},
			func() error { return u.DeleteLimits(ctx, "e", "api") },
			func() error { return u.DeleteResourceDefaults(ctx, "api") },
			func() error { return u.DeleteSystemDefaults(ctx) },
			func() error { return u.DeleteEntity(ctx, "e") },
		}
		for _, call := range calls {
			if err := call(); err != nil {
				return err
			}
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		s := loadtest.Scenario{Name: "everything", Classes: []loadtest.Class{{
			Name: "User", Wait: loadtest.Wait{Min: time.Hour, Max: time.Hour},
			Tasks: []loadtest.Task{{Name: "all", Run: everything}},
		}}}
		var events counter
		w := newSwarm(t, openMemory(t), s, &loadtest.SwarmOptions{Record: events.record})
		check(t, w.Scale(map[string]int{"User": 1}))
		time.Sleep(time.Second)
		check(t, w.Stop(t.Context()))
		want := map[string]int{
			"ACQUIRE api": 3, "COMMIT api": 1, "AVAILABLE api": 1, "TIME_UNTIL_AVAILABLE api": 1,
			"IS_AVAILABLE system": 1,
			"SET_LIMITS api":      1, "SET_LIMITS entity": 1, "GET_LIMITS api": 1, "DELETE_LIMITS api": 1,
			"SET_RESOURCE_DEFAULTS api": 1, "GET_RESOURCE_DEFAULTS api": 1, "DELETE_RESOURCE_DEFAULTS api": 1,
			"SET_SYSTEM_DEFAULTS system": 1, "GET_SYSTEM_DEFAULTS system": 1, "DELETE_SYSTEM_DEFAULTS system": 1,
			"LIST_RESOURCES_WITH_DEFAULTS system": 1,
			"CREATE_ENTITY entity":                1, "GET_ENTITY entity": 1, "DELETE_ENTITY entity": 1,
			"GET_CHILDREN entity": 1,
		}
		if diff := cmp.Diff(want, events.counts); diff != "" {
			t.Error(diff)
		}
	})
}

func TestKinds(t *testing.T) {
	for want, err := range map[string]error{
		"unavailable": &limiter.UnavailableError{Op: "acquire"},
		"timeout":     &limiter.UnavailableError{Op: "acquire", Err: context.DeadlineExceeded},
		"invalid":     &limiter.InvalidError{},
		"corrupt":     &limiter.CorruptError{},
		"not found":   limiter.ErrNotFound,
		"exists":      limiter.ErrExists,
		"conflict":    limiter.ErrConflict,
		"closed":      limiter.ErrClosed,
		"canceled":    context.Canceled,
		"other":       limiter.ErrLeaseDone,
	} {
		if got := loadtest.Kind(err); got != want {
			t.Errorf("Kind(%v) is %q, want %q", err, got, want)
		}
	}
}

// TestAllowedOutageIsAFailure checks that a limiter that admits everything in an
// outage does not look well.
func TestAllowedOutageIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := loadtest.Scenario{Name: "outage", Classes: []loadtest.Class{{
			Name: "User", Wait: loadtest.Wait{Min: time.Hour, Max: time.Hour},
			Tasks: []loadtest.Task{{Name: "work", Run: func(ctx context.Context, u *loadtest.User) error {
				return u.Do(ctx, limiter.Request{
					Entity: "e", Resource: "api", Consume: limiter.Tokens("rpm", 1), OnUnavailable: limiter.Allow,
				}, func(*loadtest.Lease) error { return nil })
			}}},
		}}}
		var events counter
		w := newSwarm(t, &failing{openMemory(t)}, s, &loadtest.SwarmOptions{Record: events.record})
		check(t, w.Scale(map[string]int{"User": 1}))
		time.Sleep(time.Second)
		check(t, w.Stop(t.Context()))
		if diff := cmp.Diff(map[string]int{"ACQUIRE api unavailable": 1}, events.counts); diff != "" {
			t.Error(diff)
		}
	})
}

// failing is a store that is down for charges.
type failing struct{ limiter.Repository }

func (f *failing) Namespace(ctx context.Context, name string) (limiter.Repository, error) {
	view, err := f.Repository.Namespace(ctx, name)
	return &failing{view}, err
}

func (f *failing) Consume(context.Context, time.Time, limiter.Charge) (limiter.Outcome, error) {
	return limiter.Outcome{}, errors.New("down")
}
