package interop

import (
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// TestInteropLimitsOfEveryLevelBindBoth checks that each level that one library
// sets applies to the other's next new bucket and takes precedence over the
// levels before.
func TestInteropLimitsOfEveryLevelBindBoth(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		for _, p := range [][2]program{{w.ours, py}, {py, w.ours}} {
			setter, other := p[0], p[1]
			entity := "of-go"
			if setter == program(py) {
				entity = "of-python"
			}
			for i, s := range []limiter.Scope{
				{}, {Resource: "gpt-4"}, {Entity: entity}, {Entity: entity, Resource: "gpt-4"},
			} {
				capacity := int64(50 - 10*i)
				setter.set(s, limiter.PerMinute("rpm", capacity))
				w.wait(defaultCacheTTL)
				w.mustRefuse(other, entity, rpm(capacity+1))
				w.mustAdmit(other, entity, rpm(capacity))
				w.mustRefuse(setter, entity, rpm(1))
				w.dropBucket(entity)
			}
			setter.unset(limiter.Scope{Entity: entity, Resource: "gpt-4"})
			setter.unset(limiter.Scope{Entity: entity})
			w.wait(defaultCacheTTL)
			w.mustRefuse(other, entity, rpm(41))
			w.mustAdmit(other, entity, rpm(40))
			setter.unset(limiter.Scope{Resource: "gpt-4"})
			setter.unset(limiter.Scope{})
		}
	})
}

// defaultCacheTTL is the default life of cached limits.
const defaultCacheTTL = time.Minute

// TestInteropLimitsOfAnEntityReachItsBucket checks that setting or deleting
// limits of an entity and resource writes to the bucket: Python's fast path
// reads the limits there only.
func TestInteropLimitsOfAnEntityReachItsBucket(t *testing.T) {
	own := limiter.Scope{Entity: "alice", Resource: "gpt-4"}
	eachTable(t, func(w *world, py pyProgram) {
		w.ours.set(limiter.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 100))
		w.mustAdmit(py, "alice", rpm(10))
		w.ours.set(own, limiter.PerMinute("rpm", 30), limiter.PerMinute("tpm", 1000))
		w.checkTokens("alice", map[string]int64{"rpm": 30_000, "tpm": 1_000_000})
		w.mustRefuse(py, "alice", rpm(31))
		w.mustAdmit(py, "alice", rpm(20).And("tpm", 600))
		w.ours.unset(own)
		w.checkTokens("alice", map[string]int64{"rpm": 10_000, "tpm": 400_000}) // tpm has left, and is remembered
		w.wait(6 * time.Second)
		w.mustRefuse(py, "alice", rpm(21))
		w.mustAdmit(py, "alice", rpm(20))
	})
}

// TestInteropLimitsOfPythonReachOurBuckets checks that Go caps a bucket whose
// parameters Python has overwritten at the new capacity.
func TestInteropLimitsOfPythonReachOurBuckets(t *testing.T) {
	own := limiter.Scope{Entity: "alice", Resource: "gpt-4"}
	eachTable(t, func(w *world, py pyProgram) {
		w.ours.set(limiter.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 100))
		w.mustAdmit(w.ours, "alice", rpm(10))
		py.set(own, limiter.PerMinute("rpm", 30), limiter.PerMinute("tpm", 1000))
		w.checkTokens("alice", map[string]int64{"rpm": 90_000})
		w.mustRefuse(w.ours, "alice", rpm(31))
		w.checkTokens("alice", map[string]int64{"rpm": 30_000, "tpm": 1_000_000})
		w.mustAdmit(w.ours, "alice", rpm(20).And("tpm", 600))
		w.mustAdmit(py, "alice", rpm(10).And("tpm", 400))
		py.unset(own)
		w.wait(6 * time.Second)
		w.mustAdmit(w.ours, "alice", rpm(10))
		w.mustRefuse(w.ours, "alice", rpm(1))
		w.mustRefuse(py, "alice", rpm(1))
		w.checkTokens("alice", map[string]int64{"rpm": 0})
	})
}

// TestInteropDefaultsReachABucketWithOurNextCharge checks that a charge by Go
// updates an existing bucket to changed defaults, for Python too. Python itself
// never updates an existing bucket.
func TestInteropDefaultsReachABucketWithOurNextCharge(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	for _, s := range []limiter.Scope{{Entity: "alice"}, {Resource: "gpt-4"}, {}} {
		t.Run(s.Level(), func(t *testing.T) {
			w := newWorld(t, &exactOptions)
			py := w.openPython(p, nil)
			for entity, setter := range map[string]program{"alice": w.ours, "bob": py} {
				level := s
				if level.Entity != "" {
					level.Entity = entity
				}
				setter.set(level, limiter.PerMinute("rpm", 100))
				w.mustAdmit(py, entity, rpm(10))
				setter.set(level, limiter.PerMinute("rpm", 30))
				w.mustAdmit(py, entity, rpm(40))
				w.wait(defaultCacheTTL)
				w.mustAdmit(w.ours, entity, rpm(5))
				w.checkTokens(entity, map[string]int64{"rpm": 25_000})
				w.mustRefuse(py, entity, rpm(26))
				w.mustAdmit(py, entity, rpm(25))
			}
		})
	}
}
