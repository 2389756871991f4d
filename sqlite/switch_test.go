package sqlite

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
)

func ofAlice(resource string) limiter.Scope {
	return limiter.Scope{Entity: "alice", Resource: resource}
}

// TestSwitchOfAnotherProcess checks that the next call through another handle
// applies a switch, and that it then knows it without I/O.
func TestSwitchOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	r, other := openFile(t, path, nil), openFile(t, path, nil)
	lim, otherLim := tenDaily(t, r), limiterOn(t, other)
	if _, err := otherLim.Acquire(t.Context(), oneOfAlice); err != nil { // its bucket is current
		t.Fatal(err)
	}
	for _, of := range []limiter.Scope{ofAlice("gpt-4"), ofAlice(""), {Resource: "gpt-4"}, {}} {
		if err := lim.Disable(t.Context(), of, "leaked"); err != nil {
			t.Fatal(err)
		}
		if _, err := otherLim.Acquire(t.Context(), oneOfAlice); !isDisabled(err) {
			t.Errorf("%s is off: %v", of, err)
		}
		if off := other.LastSwitch("alice", "gpt-4"); off == nil || off.Scope != of || off.Reason != "leaked" {
			t.Errorf("%s is off: last switch %+v", of, off)
		}
		if err := otherLim.Enable(t.Context(), of); err != nil {
			t.Fatal(err)
		}
		if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
			t.Errorf("%s is on again: %v", of, err)
		}
		if off := r.LastSwitch("alice", "gpt-4"); off != nil {
			t.Errorf("%s is on again: last switch %+v", of, off)
		}
	}
}

// TestFailedSwitchDoesNotApply checks that a switch whose commit failed does not
// apply, even if another process then gets the same generation.
func TestFailedSwitchDoesNotApply(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	r, other := openFile(t, path, nil), openFile(t, path, nil)
	lim := tenDaily(t, r)
	var works atomic.Bool
	onCommit(t, r, works.Load)
	if err := lim.Disable(t.Context(), ofAlice(""), ""); !isOutage(err) {
		t.Fatalf("a commit that fails: %v", err)
	}
	if off := r.LastSwitch("alice", "gpt-4"); off != nil {
		t.Errorf("off after the failure: %+v", off)
	}
	works.Store(true)
	if err := limiterOn(t, other).Disable(t.Context(), limiter.Scope{Entity: "bob"}, ""); err != nil {
		t.Fatal(err)
	}
	waitIdle(t, other)
	if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
		t.Error(err)
	}
	if off := r.LastSwitch("bob", "gpt-4"); off == nil {
		t.Error("the switch of the other process is not known")
	}
}

// TestSwitchHoldsInAnOutage checks that an outage does not admit what was off when
// the file was last read, through a parent as well.
func TestSwitchHoldsInAnOutage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	r, other := openFile(t, path, &Options{BusyTimeout: time.Millisecond}), openFile(t, path, nil)
	lim := tenDaily(t, r)
	for _, e := range []limiter.Entity{
		{ID: "child", Parent: "project", Cascade: true}, {ID: "loner", Parent: "project"},
	} {
		if _, err := limiterOn(t, other).CreateEntity(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	waitIdle(t, other)
	request := func(entity string) limiter.Request {
		req := oneOfAlice
		req.Entity, req.OnUnavailable = entity, limiter.Allow
		return req
	}
	for _, entity := range []string{"child", "loner"} {
		if _, err := lim.Acquire(t.Context(), request(entity)); err != nil {
			t.Fatal(err)
		}
	}
	if err := lim.Disable(t.Context(), limiter.Scope{Entity: "project"}, ""); err != nil {
		t.Fatal(err)
	}
	lockFile(t, r)
	if _, err := lim.Acquire(t.Context(), request("child")); !isDisabled(err) {
		t.Errorf("child: %v", err)
	}
	if lease, err := lim.Acquire(t.Context(), request("loner")); err != nil || !isOutage(lease.Outage()) {
		t.Errorf("loner: %v, want it allowed", err)
	}
}

// TestSwitchOfAGrandparent checks that a bucket that was charged as a parent is
// current, and still meets the switch of its own parent.
func TestSwitchOfAGrandparent(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	lim := tenDaily(t, r)
	for _, e := range []limiter.Entity{{ID: "alice", Parent: "team", Cascade: true}, {
		ID: "team", Parent: "firm", Cascade: true,
	}} {
		if _, err := lim.CreateEntity(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
		t.Fatal(err)
	}
	if err := lim.Disable(t.Context(), limiter.Scope{Entity: "firm"}, ""); err != nil {
		t.Fatal(err)
	}
	req := oneOfAlice
	for _, req.Entity = range []string{"team", "alice"} {
		if _, err := lim.Acquire(t.Context(), req); !isDisabled(err) {
			t.Errorf("%s: got %v, want a DisabledError", req.Entity, err)
		}
	}
}

// TestSwitchOutlivesItsEntity checks that DeleteEntity keeps switches, and that
// DeleteSwitch and a purge remove them.
func TestSwitchOutlivesItsEntity(t *testing.T) {
	r := openFile(t, filepath.Join(t.TempDir(), "limits.db"), nil)
	lim := tenDaily(t, r)
	if _, err := lim.Acquire(t.Context(), oneOfAlice); err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{"gpt-4", ""} {
		if err := lim.Disable(t.Context(), ofAlice(resource), ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := lim.DeleteEntity(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	var found []string
	for s, err := range lim.Switches(t.Context()) {
		found = append(found, fmt.Sprint(s.Scope.Resource, err))
	}
	if diff := cmp.Diff([]string{"<nil>", "gpt-4<nil>"}, found); diff != "" {
		t.Error(diff)
	}
	if _, err := lim.Acquire(t.Context(), oneOfAlice); !isDisabled(err) {
		t.Error(err)
	}
	id := r.NamespaceID()
	if err := r.DeleteNamespace(t.Context(), time.Now(), "default"); err != nil {
		t.Fatal(err)
	}
	if err := r.PurgeNamespace(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := r.read(t.Context(), func(tx *tx) error {
		return tx.row("SELECT count(*) FROM switches").scan(&left)
	}); err != nil || left != 0 {
		t.Errorf("%d switches left: %v", left, err)
	}
}
