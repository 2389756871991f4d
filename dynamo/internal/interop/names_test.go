package interop

import (
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

// TestInteropNamesOfLimits: a limit may have a name that looks like attributes
// of a bucket. Names with a hyphen or a dot, which Python stores but cannot
// charge, work in Go; Python still reads them.
func TestInteropNamesOfLimits(t *testing.T) {
	eachTable(t, func(w *world, py pyProgram) {
		for _, c := range []struct {
			name   string
			python bool
		}{{"tokens_per_minute", true}, {"b_tk", true}, {"x_tk", true}, {"a_cp_tk", true}, {"in-flight", false}, {"v1.rpm", false}} {
			entity := "of-" + c.name
			one := limiter.Tokens(c.name, 1)
			py.set(limiter.Scope{Entity: entity, Resource: "gpt-4"}, limiter.PerMinute(c.name, 3), limiter.PerMinute("rpm", 9))
			w.admits(w.ours, entity, one)
			want := int64(2)
			if c.python {
				w.admits(py, entity, one)
				want--
			}
			w.leaves(py, entity, map[string]int64{c.name: want, "rpm": 9})
			w.admits(w.ours, entity, limiter.Tokens(c.name, want))
			w.refuses(w.ours, entity, one)
			w.bucketHolds(entity, map[string]int64{c.name: 0, "rpm": 9_000})
		}
	})
}
