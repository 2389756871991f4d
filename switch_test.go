package limiter_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

func disabled(t *testing.T, err error) limiter.DisabledError {
	t.Helper()
	off, ok := errors.AsType[*limiter.DisabledError](err)
	if !ok {
		t.Fatalf("got %v, want a *DisabledError", err)
	}
	return *off
}

func TestDisable(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	of := limiter.Scope{Entity: alice}
	check(t, w.Disable(bg, of, "the key was leaked"))
	_, err := w.Acquire(bg, request(alice, rpm(1)))
	got := disabled(t, err)
	want := limiter.DisabledError{
		Entity: alice, Resource: resource, Scope: of, Reason: "the key was leaked", Since: noon,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := err.Error(), "entity alice is disabled since 2026-01-15T12:00:00Z: the key was leaked"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := got.Public(), "access of alice to gpt-4 is disabled"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if errors.Is(err, limiter.ErrNeverFits) {
		t.Error("it matches ErrNeverFits")
	}
	for what, err := range map[string]error{
		"Do":        w.Do(bg, request(alice, rpm(1)), nil),
		"Wait":      second(w.Wait(bg, request(alice, rpm(1)))),
		"Explain":   second(w.Explain(bg, request(alice, rpm(1)))),
		"TimeUntil": second(w.TimeUntil(bg, request(alice, rpm(1)))),
	} {
		if _, ok := errors.AsType[*limiter.DisabledError](err); !ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	check(t, second(w.Adjust(bg, request(alice, rpm(1)))))
	w.take(t, "bob", rpm(1))
	check(t, w.Enable(bg, of))
	is(t, w.Enable(bg, of), limiter.ErrNotFound)
	w.take(t, alice, rpm(1))
}

// second returns the error of a call with a result.
func second[T any](_ T, err error) error { return err }

func TestDisableIsBadInput(t *testing.T) {
	lim := newLimiter(t, untouched{}, nil)
	for field, of := range map[string]limiter.Scope{"entity_id": {Entity: "#"}, "resource": {Resource: "_default_"}} {
		invalid(t, lim.Disable(bg, of, ""), field)
		invalid(t, lim.Enable(bg, of), field)
	}
	for _, reason := range []string{strings.Repeat("x", 1001), "\xff"} {
		invalid(t, lim.Disable(bg, limiter.Scope{}, reason), "reason")
	}
}

func TestSwitchesAreListed(t *testing.T) {
	w := start(t, limiter.PerMinute("rpm", 100))
	for _, of := range []limiter.Scope{{Entity: alice, Resource: resource}, {Resource: resource}, {}, {Entity: alice}} {
		check(t, w.Disable(bg, of, of.String()))
	}
	w.clock.pass(time.Hour)
	check(t, w.Disable(bg, limiter.Scope{}, "maintenance"))
	want := []limiter.Switch{
		{Scope: limiter.Scope{}, Reason: "maintenance", Since: noon},
		{Scope: limiter.Scope{Resource: resource}, Reason: "resource gpt-4", Since: noon},
		{Scope: limiter.Scope{Entity: alice}, Reason: "entity alice", Since: noon},
		{
			Scope: limiter.Scope{Entity: alice, Resource: resource}, Reason: "entity alice and resource gpt-4",
			Since: noon,
		},
	}
	if diff := cmp.Diff(want, collect(t, w.Switches(bg))); diff != "" {
		t.Error(diff)
	}
	_, err := w.Acquire(bg, request(alice, rpm(1)))
	if got := disabled(t, err).Scope; got != want[3].Scope {
		t.Errorf("%v refuses, want the most specific level", got)
	}
}

// TestOutageKeepsALevelOff checks that Allow does not pass a level that was off when
// the store last answered.
func TestOutageKeepsALevelOff(t *testing.T) {
	w := startWith(t, limiter.Options{OnUnavailable: limiter.Allow}, memoryOptions, limiter.PerMinute("rpm", 100))
	open := w.take(t, alice, rpm(1))
	check(t, w.Disable(bg, limiter.Scope{Entity: alice}, ""))
	w.store.down()
	_, err := w.Acquire(bg, request(alice, rpm(1)))
	disabled(t, err)
	disabled(t, open.Consume(bg, rpm(1)))
	disabled(t, w.Do(bg, request(alice, rpm(1)), nil))
	if open.Outage() != nil {
		t.Errorf("outage %v", open.Outage())
	}
	lease, err := w.Acquire(bg, request("bob", rpm(1)))
	check(t, err)
	is(t, lease.Outage(), errDown)
	w.store.up()
	check(t, w.Enable(bg, limiter.Scope{Entity: alice}))
	w.store.down()
	_, err = w.Acquire(bg, request(alice, rpm(1)))
	check(t, err)
}
