package interop

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// checkParent checks the copy of the entity's fields in the bucket. Python's
// fast path reads nothing else.
func (w *world) checkParent(entity, cascade, parent string) {
	w.Helper()
	it := w.bucket(entity)
	w.Equal("cascade in the bucket of "+entity, dynamotest.FormatAttribute(it["cascade"]), "BOOL "+cascade)
	if got := it["parent_id"]; parent == "" {
		w.Equal("parent in the bucket of "+entity, got, nil)
	} else {
		w.Equal("parent in the bucket of "+entity, dynamotest.FormatAttribute(got), "S "+parent)
	}
}

// TestInteropCascadeIsPaidByBoth checks that parent and child pay together or
// not at all, whichever library charges them and whichever created the entity.
func TestInteropCascadeIsPaidByBoth(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		w.ours.set(limiter.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 100))
		for _, c := range []struct {
			kid, org   string
			one, other program
		}{{"kid-1", "org-1", w.ours, py}, {"kid-2", "org-2", py, w.ours}} {
			c.one.create(limiter.Entity{ID: c.kid, Parent: c.org, Cascade: true})
			w.mustAdmit(c.other, c.kid, rpm(10))
			w.mustAdmit(c.one, c.kid, rpm(20))
			w.mustAdmit(c.other, c.kid, rpm(5))
			w.checkParent(c.kid, "true", c.org)
			w.checkParent(c.org, "false", "")
			w.mustAdmit(c.one, c.org, rpm(60))
			for _, p := range []program{py, w.ours} {
				w.mustRefuse(p, c.kid, rpm(6))
			}
			w.checkTokens(c.kid, map[string]int64{"rpm": 65_000})
			w.checkTokens(c.org, map[string]int64{"rpm": 5_000})
			c.one.hold(c.kid, "gpt-4", rpm(5)).rollback()
			c.other.hold(c.kid, "gpt-4", rpm(5)).commit(rpm(-2))
			w.checkTokens(c.kid, map[string]int64{"rpm": 62_000})
			w.checkTokens(c.org, map[string]int64{"rpm": 2_000})
		}
	})
}

// TestInteropMiddleOfAChainPaysItsOwnParent covers a bucket that Python created
// for the parent of a charge: it has no parent, even if the entity does. A
// charge by Go corrects it, and Python then follows.
func TestInteropMiddleOfAChainPaysItsOwnParent(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		w.ours.set(limiter.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 100))
		for _, c := range []struct {
			kid, mid, org, made string
			maker               program
		}{{"kid-1", "mid-1", "org-1", "false", py}, {"kid-2", "mid-2", "org-2", "true", w.ours}} {
			w.ours.create(limiter.Entity{ID: c.mid, Parent: c.org, Cascade: true})
			w.ours.create(limiter.Entity{ID: c.kid, Parent: c.mid, Cascade: true})
			w.mustAdmit(c.maker, c.kid, rpm(1))
			w.checkNoBucket(c.org)
			if c.made == "false" {
				w.checkParent(c.mid, "false", "")
				w.mustAdmit(w.ours, c.mid, rpm(10))
			} else {
				w.mustAdmit(py, c.mid, rpm(10))
			}
			w.checkParent(c.mid, "true", c.org)
			w.checkTokens(c.org, map[string]int64{"rpm": 90_000})
			w.mustAdmit(py, c.mid, rpm(20))
			w.mustAdmit(w.ours, c.mid, rpm(30))
			w.mustAdmit(w.ours, c.kid, rpm(5)) // not py: if the parent cascades, it charges the grandparent too
			w.checkTokens(c.kid, map[string]int64{"rpm": 94_000})
			w.checkTokens(c.mid, map[string]int64{"rpm": 34_000})
			w.checkTokens(c.org, map[string]int64{"rpm": 40_000})
		}
	})
}

// TestInteropThirdLevel checks what Python charges below an organization whose keys
// cascade through a team: the key and the team, and never the organization.
func TestInteropThirdLevel(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		w.ours.set(limiter.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 100))
		w.ours.set(limiter.Scope{Entity: "org"}, limiter.PerMinute("rpm", 100))
		w.ours.create(limiter.Entity{ID: "team", Parent: "org", Cascade: true})
		w.ours.create(limiter.Entity{ID: "key", Parent: "team", Cascade: true})

		w.mustAdmit(py, "key", rpm(5))
		w.checkTokens("key", map[string]int64{"rpm": 95_000})
		w.checkTokens("team", map[string]int64{"rpm": 95_000})
		w.checkNoBucket("org")

		w.mustAdmit(w.ours, "key", rpm(10))
		w.mustAdmit(py, "key", rpm(20))
		w.checkTokens("key", map[string]int64{"rpm": 65_000})
		w.checkTokens("team", map[string]int64{"rpm": 65_000})
		w.checkTokens("org", map[string]int64{"rpm": 90_000})

		// What Python creates, both charge one level up.
		py.create(limiter.Entity{ID: "old", Parent: "team", Cascade: true})
		w.mustAdmit(w.ours, "old", rpm(1))
		w.mustAdmit(py, "old", rpm(1))
		w.checkTokens("team", map[string]int64{"rpm": 63_000})
		w.checkTokens("org", map[string]int64{"rpm": 90_000})
	})
}
