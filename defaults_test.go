package limiter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// sources returns the source of each limit.
func sources(all []limiter.Status) map[string]string {
	by := map[string]string{}
	for _, s := range all {
		by[s.Limit.Name] = s.Source
	}
	return by
}

func wantSources(t *testing.T, what string, all []limiter.Status, want map[string]string) {
	t.Helper()
	got := sources(all)
	if len(got) != len(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
	for name, source := range want {
		if got[name] != source {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
}

// TestLimitsOfTheLimiterRuleWhereNoneAreStored checks that Options.Limits applies
// before anything is configured, and that every query reports the source of its
// limits.
func TestLimitsOfTheLimiterRuleWhereNoneAreStored(t *testing.T) {
	defaults := []limiter.Limit{limiter.PerMinute(limiter.TPM, 100), limiter.PerMinute(limiter.RPM, 10)}
	w := startWith(t, limiter.Options{Limits: defaults}, memory.Options{})
	defaults[0] = limiter.PerMinute("changed", 1) // the limiter has its own copy
	byDefault := map[string]string{"rpm": "default", "tpm": "default"}

	lease := w.take(t, alice, rpm(4).And("tpm", 50))
	wantSources(t, "lease", lease.Decision().Statuses, byDefault)
	check(t, lease.Consume(bg, rpm(1)))
	exceeded(t, lease.Consume(bg, rpm(6)))
	d, err := w.Explain(bg, request(alice, rpm(6)))
	check(t, err)
	wantSources(t, "explanation", d.Statuses, byDefault)
	if d.Admitted() {
		t.Error("6 of 5 would be admitted")
	}
	wantSources(t, "refusal", w.refuse(t, rpm(6)).Statuses, byDefault)
	all, err := w.Status(bg, alice)
	check(t, err)
	wantSources(t, "status", all, byDefault)
	sum, err := w.Capacity(bg, limiter.CapacityQuery{Resource: resource, Limit: "rpm"})
	check(t, err)
	wantSources(t, "capacity", sum.Entities, map[string]string{"rpm": "default"})
	check(t, lease.Rollback(bg))
	w.wantLeft(t, alice, "rpm", 10)

	// Stored limits take precedence at once.
	check(t, w.SetSystemDefaults(bg, limiter.PerMinute("rpm", 7)))
	wantSources(t, "stored", w.refuse(t, rpm(8)).Statuses, map[string]string{"rpm": "system"})
	all, err = w.Status(bg, alice)
	check(t, err)
	wantSources(t, "stored status", all, map[string]string{"rpm": "system"})
	check(t, w.DeleteSystemDefaults(bg))
	wantSources(t, "deleted", w.take(t, alice, rpm(1)).Decision().Statuses, byDefault)
	if got := w.left(t, alice, "rpm"); got != 6 {
		t.Errorf("%d left, want the 7 of before, less 1", got)
	}
}

// TestLimitsOfTheLimiterAreStoredNowhere checks that another limiter on the same
// store does not see Options.Limits, and that a request can still carry limits.
func TestLimitsOfTheLimiterAreStoredNowhere(t *testing.T) {
	w := startWith(t, limiter.Options{Limits: []limiter.Limit{limiter.PerMinute("rpm", 10)}}, memory.Options{})
	w.take(t, alice, rpm(1))
	bare := newLimiter(t, w.store, &limiter.Options{Now: w.clock.now})
	_, err := bare.Acquire(bg, request(alice, rpm(1)))
	is(t, err, limiter.ErrNoLimits)
	all, err := bare.Status(bg, alice)
	check(t, err)
	wantSources(t, "status of another", all, map[string]string{"rpm": "override"})
	req := request(alice, rpm(5))
	req.Limits = []limiter.Limit{limiter.PerMinute("rpm", 4)}
	_, err = w.Acquire(bg, req)
	wantSources(t, "override", exceeded(t, err).Statuses, map[string]string{"rpm": "override"})
	_, err = w.RegisterNamespaces(bg, "other")
	check(t, err)
	view, err := w.Namespace(bg, "other")
	check(t, err)
	_, err = view.As("ada").Acquire(bg, request(alice, rpm(10)))
	check(t, err)
}

func TestLimitsOfTheLimiterRuleWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := newLimiter(t, memory.New(nil), &limiter.Options{Limits: []limiter.Limit{limiter.PerMinute("rpm", 60)}})
		for range 2 {
			_, err := lim.Wait(bg, request(alice, rpm(60)))
			check(t, err)
		}
		began := time.Now()
		_, err := lim.Wait(bg, request(alice, rpm(30)))
		check(t, err)
		if waited := time.Since(began); waited < 30*time.Second || waited > 31*time.Second {
			t.Errorf("waited %v", waited)
		}
		_, err = lim.Wait(bg, request(alice, rpm(61)))
		is(t, err, limiter.ErrNeverFits)
	})
}

func TestLimitsOfTheLimiterAreValidated(t *testing.T) {
	for field, limits := range map[string][]limiter.Limit{
		"name":     {limiter.PerMinute("", 1)},
		"capacity": {limiter.PerMinute("rpm", 0)},
		"limits":   {limiter.PerMinute("rpm", 1), limiter.PerMinute("rpm", 2)},
	} {
		_, err := limiter.New(memory.New(nil), &limiter.Options{Limits: limits})
		invalid(t, err, field)
	}
	_, err := limiter.New(memory.New(nil), &limiter.Options{Limits: []limiter.Limit{}})
	check(t, err)
}

func TestAcquireByDefaultsAllocatesTwice(t *testing.T) {
	lim := newLimiter(t, memory.New(nil), &limiter.Options{Limits: []limiter.Limit{
		limiter.PerSecond("rpm", 1e9), limiter.PerSecond("tpm", 1e12),
	}})
	allocatesTwice(t, lim)
}
