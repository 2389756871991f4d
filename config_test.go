package limiter_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

func TestMostSpecificLevelGivesAllLimits(t *testing.T) {
	w := start(t, limiter.PerMinute("sys", 1), limiter.PerMinute("rpm", 1))
	levels := []struct {
		source string
		set    func() error
		remove func() error
	}{
		{"system", func() error { return nil }, func() error { return w.DeleteSystemDefaults(bg) }},
		{
			"resource", func() error { return w.SetResourceDefaults(bg, resource, limiter.PerMinute("rpm", 2)) },
			func() error { return w.DeleteResourceDefaults(bg, resource) },
		},
		{
			"entity_default", func() error { return w.SetLimits(bg, alice, "", limiter.PerMinute("rpm", 3)) },
			func() error { return w.DeleteLimits(bg, alice, "") },
		},
		{
			"entity", func() error { return w.SetLimits(bg, alice, resource, limiter.PerMinute("rpm", 4)) },
			func() error { return w.DeleteLimits(bg, alice, resource) },
		},
	}
	want := func(i int) {
		t.Helper()
		d, err := w.Explain(bg, limiter.Request{Entity: alice, Resource: resource})
		check(t, err)
		s := d.Statuses[0]
		if s.Source != levels[i].source || s.Limit != limiter.PerMinute("rpm", int64(i+1)) {
			t.Errorf("%v from %s, want that of %s", s.Limit, s.Source, levels[i].source)
		}
		if n := len(d.Statuses); i > 0 && n != 1 {
			t.Errorf("%d limits at level %s: levels never merge", n, s.Source)
		}
	}
	for i, l := range levels {
		check(t, l.set())
		want(i)
		w.clock.pass(time.Minute)
		w.take(t, alice, rpm(1)) // even on a bucket created under another level
	}
	for i, l := range slices.Backward(levels) {
		want(i)
		check(t, l.remove())
		is(t, l.remove(), limiter.ErrNotFound)
	}
	_, err := w.Explain(bg, limiter.Request{Entity: alice, Resource: resource})
	is(t, err, limiter.ErrNoLimits)
	invalid(t, err, "limits")
}

func TestStoredLimitsAreReadBackByName(t *testing.T) {
	w := start(t)
	for _, get := range []func() ([]limiter.Limit, error){
		func() ([]limiter.Limit, error) { return w.Limits(bg, alice, resource) },
		func() ([]limiter.Limit, error) { return w.Limits(bg, alice, "") },
		func() ([]limiter.Limit, error) { return w.ResourceDefaults(bg, resource) },
		func() ([]limiter.Limit, error) { l, _, err := w.SystemDefaults(bg); return l, err },
	} {
		got, err := get()
		check(t, err)
		if got != nil {
			t.Errorf("got %v of nothing, want nil", got)
		}
	}
	in := []limiter.Limit{limiter.PerMinute("tpm", 5).WithBurst(9), limiter.PerMinute("rpm", 1)}
	check(t, w.SetLimits(bg, alice, resource, in...))
	if in[0].Name != "tpm" {
		t.Error("the argument was sorted in place")
	}
	in[0].Capacity = 1
	got, err := w.Limits(bg, alice, resource)
	check(t, err)
	if diff := cmp.Diff(
		[]limiter.Limit{limiter.PerMinute("rpm", 1), limiter.PerMinute("tpm", 5).WithBurst(9)}, got,
	); diff != "" {
		t.Error(diff)
	}
	got[0].Capacity = 77 // the caller's own copy
	got, err = w.Limits(bg, alice, resource)
	check(t, err)
	if got[0].Capacity != 1 {
		t.Error("what was returned is what is stored")
	}
}

// TestAddedLimitStartsFull covers rows B-4 and 2 of docs/defects.md: a limit that
// is added to an existing bucket starts full.
func TestAddedLimitStartsFull(t *testing.T) {
	for _, consumed := range []bool{true, false} {
		w := start(t, limiter.PerMinute("rpm", 100))
		w.take(t, alice, rpm(10))
		check(t, w.SetSystemDefaults(bg, limiter.PerMinute("rpm", 100), limiter.PerMinute("tpm", 50)))
		if consumed { // the first call after the change
			w.take(t, alice, tpm(1))
		} else {
			w.take(t, alice, rpm(1))
			w.take(t, alice, tpm(1))
		}
		w.take(t, alice, tpm(49))
		w.refuse(t, tpm(1))
		w.clock.pass(time.Minute)
		w.take(t, alice, tpm(50).And("rpm", 100))
	}
}

// TestChangedLimitsReachLiveBuckets covers row B-23 of docs/defects.md: a change
// applies to the next call, even on a bucket in use. The refill before that call
// follows the old limits.
func TestChangedLimitsReachLiveBuckets(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	w.take(t, alice, rpm(100))
	w.clock.pass(6 * time.Second) // 10 under the old rate
	check(t, w.SetSystemDefaults(bg, limiter.PerMinute("rpm", 600)))
	w.wantLeft(t, alice, "rpm", 10) // a higher capacity does not fill
	w.take(t, alice, rpm(10))
	w.clock.pass(7 * time.Second) // 70 under the new rate
	w.take(t, alice, rpm(70))
	ex := w.refuse(t, rpm(1))
	if p := ex.Primary(); p.Limit != limiter.PerMinute("rpm", 600) || p.Available != 0 ||
		p.RetryAfter != 101*time.Millisecond {
		t.Errorf("refused by %+v", p)
	}
}

// TestRemovedLimitIsGone covers rows 32 and B-23 of docs/defects.md: a removed
// limit is neither enforced nor reported, and has what it had if it returns.
func TestRemovedLimitIsGone(t *testing.T) {
	both := []limiter.Limit{limiter.PerMinute("rpm", 10), limiter.PerMinute("tpm", 100)}
	w := start(t)
	check(t, w.SetLimits(bg, alice, resource, both...))
	lease := w.take(t, alice, rpm(1).And("tpm", 100))
	check(t, lease.Adjust(tpm(50)))
	check(t, w.SetLimits(bg, alice, resource, both[0]))
	check(t, lease.Commit(bg)) // of the limit that left, too

	_, err := w.Acquire(bg, request(alice, rpm(1).And("tpm", 1)))
	invalid(t, err, "consume")
	w.take(t, alice, rpm(1))
	if d := w.take(t, alice, rpm(1)).Decision(); len(d.Statuses) != 1 {
		t.Errorf("reported: %+v", d.Statuses)
	}
	check(t, w.SetLimits(bg, alice, resource, both...))
	if p := w.refuse(t, rpm(1).And("tpm", 1)).Primary(); p.Available != -50 {
		t.Errorf("refused by %+v, want a debt of 50", p)
	}
}

// TestLoweredCapacityClamps covers row 40 of docs/defects.md: a lower capacity
// applies at once.
func TestLoweredCapacityClamps(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	w.take(t, alice, rpm(1))
	check(t, w.SetSystemDefaults(bg, limiter.PerMinute("rpm", 10)))
	ex := w.refuse(t, rpm(50))
	if p := ex.Primary(); p.Available != 10 || !p.NeverFits {
		t.Errorf("refused by %+v", p)
	}
	w.take(t, alice, rpm(10))
	w.refuse(t, rpm(1))
	check(t, w.SetSystemDefaults(bg, limiter.PerMinute("rpm", 100)))
	w.refuse(t, rpm(1))
}

// TestLookingDoesNotClamp checks that reading a bucket does not change it. A
// capacity that was lowered and raised again between two charges takes nothing
// away.
func TestLookingDoesNotClamp(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	w.take(t, alice, rpm(1))
	check(t, w.SetSystemDefaults(bg, limiter.PerMinute("rpm", 10)))
	if left, err := w.Available(bg, alice, resource); err != nil || left.Get("rpm") != 10 {
		t.Errorf("%v left, %v", left, err)
	}
	w.wantLeft(t, alice, "rpm", 10)
	check(t, w.SetSystemDefaults(bg, limiter.PerMinute("rpm", 100)))
	w.take(t, alice, rpm(99))
}

// TestSystemLimitsAndModeAreSetApart covers rows B-29 and 14 of docs/defects.md:
// limits and mode of the system are set separately, and deleted together.
func TestSystemLimitsAndModeAreSetApart(t *testing.T) {
	w := start(t)
	want := func(mode limiter.OnUnavailable, limits ...limiter.Limit) {
		t.Helper()
		gotLimits, gotMode, err := w.SystemDefaults(bg)
		check(t, err)
		if gotMode != mode || !slices.Equal(gotLimits, limits) {
			t.Errorf("stored %v and %q, want %v and %q", gotLimits, gotMode, limits, mode)
		}
	}
	check(t, w.SetOnUnavailable(bg, limiter.Allow))
	want(limiter.Allow)
	_, err := w.Acquire(bg, request(alice, rpm(1))) // a mode alone provides no limits
	is(t, err, limiter.ErrNoLimits)
	check(t, w.SetSystemDefaults(bg, limiter.PerMinute("rpm", 1)))
	want(limiter.Allow, limiter.PerMinute("rpm", 1))
	check(t, w.SetOnUnavailable(bg, limiter.Block))
	want(limiter.Block, limiter.PerMinute("rpm", 1))
	check(t, w.SetSystemDefaults(bg, limiter.PerMinute("tpm", 2))) // stale limits go
	want(limiter.Block, limiter.PerMinute("tpm", 2))
	check(t, w.DeleteSystemDefaults(bg))
	want("")
	is(t, w.DeleteSystemDefaults(bg), limiter.ErrNotFound)
}

// TestSystemIsSetInOneWrite checks that SetSystem stores limits and mode in one
// write with one event, and leaves the part that is not given.
func TestSystemIsSetInOneWrite(t *testing.T) {
	w := start(t)
	a, b := limiter.PerMinute("a", 1), limiter.PerMinute("b", 2)
	for i, c := range []struct {
		mode   limiter.OnUnavailable
		limits []limiter.Limit
		want   limiter.Config
	}{
		{limiter.Allow, []limiter.Limit{b, a}, limiter.Config{
			OnUnavailable: limiter.Allow, Limits: []limiter.Limit{a, b},
		}},
		{"", []limiter.Limit{b}, limiter.Config{OnUnavailable: limiter.Allow, Limits: []limiter.Limit{b}}},
		{limiter.Block, nil, limiter.Config{OnUnavailable: limiter.Block, Limits: []limiter.Limit{b}}},
		{limiter.Block, []limiter.Limit{}, limiter.Config{OnUnavailable: limiter.Block, Limits: []limiter.Limit{b}}},
	} {
		check(t, w.SetSystem(bg, c.mode, c.limits...))
		limits, mode, err := w.SystemDefaults(bg)
		check(t, err)
		if diff := cmp.Diff(c.want, limiter.Config{OnUnavailable: mode, Limits: limits}); diff != "" {
			t.Errorf("%q, %v: %s", c.mode, c.limits, diff)
		}
		if n := len(collect(t, w.AuditEvents(bg, "$SYSTEM", ""))); n != i+1 {
			t.Errorf("%d events of %d writes", n, i+1)
		}
	}
}

func TestListsOfLimits(t *testing.T) {
	w := start(t)
	l := limiter.PerMinute("rpm", 1)
	for _, s := range [][2]string{{"b", "r2"}, {"a", "r1"}, {"b", "r1"}, {"c", ""}} {
		check(t, w.SetLimits(bg, s[0], s[1], l))
	}
	check(t, w.SetResourceDefaults(bg, "z", l))
	check(t, w.SetResourceDefaults(bg, "d", l))
	want := func(wantDefaults, wantLimits, wantEntities []string) {
		t.Helper()
		defaults, err := w.ResourcesWithDefaults(bg)
		check(t, err)
		limits, err := w.ResourcesWithLimits(bg)
		check(t, err)
		if !slices.Equal(defaults, wantDefaults) || !slices.Equal(limits, wantLimits) {
			t.Errorf("defaults %q, limits %q; want %q, %q", defaults, limits, wantDefaults, wantLimits)
		}
		if got := collect(t, w.EntitiesWithLimits(bg, "r1")); !slices.Equal(got, wantEntities) {
			t.Errorf("entities %q, want %q", got, wantEntities)
		}
	}
	want([]string{"d", "z"}, []string{"", "r1", "r2"}, []string{"a", "b"})
	if got := collect(t, w.EntitiesWithLimits(bg, "")); !slices.Equal(got, []string{"c"}) {
		t.Errorf("for all resources: %q", got)
	}
	check(t, w.DeleteLimits(bg, "a", "r1"))
	check(t, w.DeleteResourceDefaults(bg, "z"))
	want([]string{"d"}, []string{"", "r1", "r2"}, []string{"b"})
	// Row 11 of docs/defects.md: a deleted entity leaves the lists.
	check(t, w.DeleteEntity(bg, "b"))
	want([]string{"d"}, []string{""}, nil)
}
