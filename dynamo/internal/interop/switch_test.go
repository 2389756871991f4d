package interop

import (
	"errors"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// TestInteropSwitches checks that Python works on a table with switches, copies of
// them and IDs of top-ups, which it does not know: it admits, lists, changes limits
// and keeps the copy. Its delete_entity removes the switch of the entity.
func TestInteropSwitches(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		alice := limiter.Scope{Entity: "alice"}
		isOff := func() bool {
			_, err := w.ours.lim.Acquire(w.Context(), requestOf("alice", "gpt-4", rpm(1)))
			_, off := errors.AsType[*limiter.DisabledError](err)
			return off
		}
		w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
		py.create(limiter.Entity{ID: "alice", Name: "alice"})
		w.mustAdmit(w.ours, "alice", rpm(30))
		w.topUp(rpm(20), "a")
		w.Must(w.ours.lim.Disable(w.Context(), alice, "leaked"))
		w.mustAdmit(py, "alice", rpm(10))
		w.checkTokens("alice", map[string]int64{"rpm": 80_000})
		w.Equal("left", py.left("alice", "gpt-4"), map[string]int64{"rpm": 80})
		w.Equal("buckets", len(py.repo.buckets(w.T, "alice", "gpt-4")), 1)
		w.wait(time.Minute) // Python refills
		w.mustAdmit(py, "alice", rpm(10))
		py.set(limiter.Scope{Entity: "alice", Resource: "gpt-4"}, limiter.PerMinute("rpm", 50))
		w.mustAdmit(py, "alice", rpm(10))
		w.Equal("the bucket has the copy", w.bucket("alice")["off"] != nil, true)
		w.Equal("off for Go", isOff(), true)
		py.remove("alice")
		w.CheckNoItem("{ns}/ENTITY#alice", "#SWITCH")
		w.wait(time.Minute)
		w.Equal("off for Go after Python deleted the entity", isOff(), false)
	})
}

// TestInteropFills checks that Python sees what a reset and a top-up gave.
func TestInteropFills(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		w.ours.set(gpt4, limiter.PerMinute("rpm", 100))
		w.mustAdmit(py, "alice", rpm(100))
		w.mustRefuse(py, "alice", rpm(1))
		w.topUp(rpm(20), "a")
		w.topUp(rpm(20), "a")
		w.mustAdmit(py, "alice", rpm(20))
		w.mustRefuse(py, "alice", rpm(1))
		w.Must(w.ours.lim.Reset(w.Context(), "alice", "gpt-4"))
		w.mustAdmit(py, "alice", rpm(100))
		py.remove("alice")
		w.CheckNoItem("{ns}/ENTITY#alice", "#TOPUP#gpt-4#a")
	})
}
