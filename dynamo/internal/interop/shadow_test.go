package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// checkShadow checks the tokens of alice's shadow limit, in thousandths, and how many
// charges it would have refused.
func (w *world) checkShadow(tokens, wouldRefuse int64) {
	w.Helper()
	want := map[string]string{"tk": fmt.Sprint("N ", tokens), "sh": "BOOL true"}
	if wouldRefuse > 0 {
		want["wr"] = fmt.Sprint("N ", wouldRefuse)
	}
	w.Equal("stored shadow limit", w.stored("rpm", "tk", "sh", "wr"), want)
}

// itemsUnder counts the items of an entity whose sort key has a prefix.
func (w *world) itemsUnder(entity, prefix string) (n int) {
	w.Helper()
	for _, key := range w.SortKeys("{ns}/ENTITY#" + entity) {
		if strings.HasPrefix(key, prefix) {
			n++
		}
	}
	return n
}

// TestInteropShadowLimits checks that Python enforces shadow limits, counts nothing
// that they would refuse, and keeps the count.
func TestInteropShadowLimits(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	for name, test := range map[string]func(w *world, py pyProgram){
		"in a bucket of Go": func(w *world, py pyProgram) {
			w.mustAdmit(w.ours, "alice", rpm(7))
			w.mustRefuse(py, "alice", rpm(4))
			w.checkShadow(3_000, 0)
			w.mustAdmit(w.ours, "alice", rpm(4)) // spared
			w.checkShadow(3_000, 1)
			w.mustAdmit(py, "alice", rpm(3))
			w.mustRefuse(py, "alice", rpm(1))
			w.checkShadow(0, 1)
			w.mustAdmit(w.ours, "alice", rpm(1))
			w.checkShadow(0, 2)
			w.Equal("usage in the bucket", w.stored("rpm", "tc"), map[string]string{"tc": "N 15000"})
			w.wait(24 * time.Hour) // Python refills
			w.mustAdmit(py, "alice", rpm(10))
			w.checkShadow(0, 2)
		},
		"in a bucket of Python": func(w *world, py pyProgram) {
			w.mustAdmit(py, "alice", rpm(7))
			w.Equal("marks", w.stored("rpm", "sh", "wr"), map[string]string{})
			w.mustRefuse(py, "alice", rpm(4))
			w.mustAdmit(w.ours, "alice", rpm(4))
			w.checkShadow(3_000, 1)
			w.mustRefuse(py, "alice", rpm(4))
		},
		"debt that Python leaves": func(w *world, py pyProgram) {
			py.hold("alice", "gpt-4", rpm(10)).commit(rpm(5))
			w.mustAdmit(w.ours, "alice", rpm(1))
			w.checkShadow(-5_000, 1)
			w.mustRefuse(py, "alice", rpm(0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &exactOptions)
			w.ours.set(gpt4, limiter.PerDay("rpm", 10).Shadow())
			test(w, w.openPython(p, nil))
		})
	}
}

// TestInteropPythonReplacesLimits checks that Python shows quotas and shadow limits
// as plain ones at every level, and that its changes replace the item: window, zone
// and shadow are lost, and the balance stays.
func TestInteropPythonReplacesLimits(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	for _, s := range []limiter.Scope{
		{Entity: "alice", Resource: "gpt-4"}, {Entity: "alice"}, {Resource: "gpt-4"}, {},
	} {
		t.Run(s.Level(), func(t *testing.T) {
			w := newWorld(t, &exactOptions)
			py := w.openPython(p, nil)
			w.ours.set(s, limiter.PerDay("rpm", 10).Shadow(),
				limiter.Quota("spend", 100, limiter.EveryMonth).In("Europe/Berlin"))
			w.mustAdmit(w.ours, "alice", rpm(4).And("spend", 30))
			w.mustAdmit(w.ours, "alice", rpm(7)) // spared
			shown := py.pythonLimits(s)
			w.Equal("limits in Python", shown, []limiter.Limit{limiter.PerDay("rpm", 10), never("spend", 100)})
			py.set(s, shown...) // as a program does that reads, changes and writes
			cfg, err := w.Repo.Config(w.Context(), s)
			w.Must(err)
			w.Equal("limits in Go", cfg.Limits, shown)
			w.wait(defaultCacheTTL)
			w.mustRefuse(w.ours, "alice", rpm(7))
			w.mustAdmit(w.ours, "alice", rpm(6).And("spend", 70))
			w.Equal("spend in the bucket", w.stored("spend", "tk", "wn", "wi"), map[string]string{"tk": "N 0"})
			w.Equal("rpm in the bucket", w.stored("rpm", "sh", "wr"), map[string]string{"wr": "N 1"})
			w.wait(31 * 24 * time.Hour) // a rate that never refills is no quota any more
			w.mustRefuse(w.ours, "alice", spend(1))
			w.ours.set(s, limiter.Quota("spend", 100, limiter.EveryMonth)) // the window is the one of the last write
			w.wait(defaultCacheTTL)
			w.mustAdmit(w.ours, "alice", spend(100))
			w.mustRefuse(w.ours, "alice", spend(1))
		})
	}
	t.Run("a quota that is set again has used what it had used", func(t *testing.T) {
		w := newWorld(t, &exactOptions)
		py, of := w.openPython(p, nil), limiter.Scope{Entity: "alice", Resource: "gpt-4"}
		quota := limiter.Quota("spend", 10, limiter.EveryHour)
		w.ours.set(of, quota)
		w.mustAdmit(w.ours, "alice", spend(8))
		for _, capacity := range []int64{5, 30} {
			before := w.stored("spend", "tk")
			py.set(of, never("spend", capacity))
			w.Equal("tokens after Python's change", w.stored("spend", "tk"), before)
			w.ours.set(of, quota)
			w.Equal("left", w.ours.left("alice", "gpt-4"), map[string]int64{"spend": 2})
		}
	})
	t.Run("a bucket of Python between both changes", func(t *testing.T) {
		w := newWorld(t, &exactOptions)
		py := w.openPython(p, nil)
		w.ours.set(gpt4, limiter.Quota("rpm", 100, limiter.EveryDay))
		w.mustAdmit(w.ours, "alice", rpm(40))
		py.set(gpt4, limiter.PerMinute("rpm", 60))
		w.wait(defaultCacheTTL)
		w.mustAdmit(py, "alice", rpm(10)) // still by the bucket's own capacity
		w.mustRefuse(w.ours, "alice", rpm(61))
		w.mustAdmit(w.ours, "alice", rpm(50))
		w.Equal("the bucket", w.stored("rpm", "tk", "wn", "wi"), map[string]string{"tk": "N 0"})
		w.wait(time.Minute)
		w.mustAdmit(py, "alice", rpm(60))
	})
}
