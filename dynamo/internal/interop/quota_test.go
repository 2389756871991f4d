package interop

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// never returns the limit that Python reads for a quota: one token in 285 years.
func never(name string, capacity int64) limiter.Limit {
	return limiter.Custom(name, capacity, 1, 9_000_000_000*time.Second)
}

func spend(n int64) limiter.Amounts { return limiter.Tokens("spend", n) }

// checkWindow checks the tokens, in thousandths, and the stored window of alice's
// quota. A zero start means that the item has none.
func (w *world) checkWindow(tokens int64, window string, start time.Time) {
	w.Helper()
	want := map[string]string{"tk": fmt.Sprint("N ", tokens)}
	if !start.IsZero() {
		want["wn"], want["wi"] = "S "+window, fmt.Sprint("N ", start.UnixMilli())
	}
	w.Equal("stored quota", w.stored("spend", "tk", "wn", "wi"), want)
}

// stored returns fields of a limit in the bucket of alice, where it has them.
func (w *world) stored(limit string, fields ...string) map[string]string {
	w.Helper()
	item, found := w.bucket("alice"), map[string]string{}
	for _, field := range fields {
		if v := item["b_"+limit+"_"+field]; v != nil {
			found[field] = dynamotest.FormatAttribute(v)
		}
	}
	return found
}

// pythonLimits returns the limits of a scope as Python reads them.
func (p pyProgram) pythonLimits(s limiter.Scope) []limiter.Limit {
	p.Helper()
	var limits []limiter.Limit
	switch {
	case s.Entity != "":
		p.call("get_limits", map[string]any{"entity_id": s.Entity, "resource": pyResource(s)}, &limits)
	case s.Resource != "":
		p.call("get_resource_defaults", map[string]any{"resource": s.Resource}, &limits)
	default:
		var system struct {
			Limits []limiter.Limit `json:"limits"`
		}
		p.call("get_system_defaults", nil, &system)
		limits = system.Limits
	}
	return sortLimits(limits)
}

// availableOf returns what Python says is available of a limit for gpt-4 to all
// entities.
func (p pyProgram) availableOf(limit string) int64 {
	p.Helper()
	var capacity struct {
		Available int64 `json:"total_available"`
	}
	p.call("get_resource_capacity", map[string]any{"resource": "gpt-4", "limit_name": limit}, &capacity)
	return capacity.Available
}

// TestInteropQuotas checks what Python does with a quota.
func TestInteropQuotas(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	hourly := limiter.Quota("spend", 10, limiter.EveryHour)
	for name, test := range map[string]func(w *world, py pyProgram){
		"Python makes the bucket, enforces the capacity and never refills": func(w *world, py pyProgram) {
			w.ours.set(gpt4, hourly)
			w.mustAdmit(py, "alice", spend(4))
			w.checkWindow(6_000, "", time.Time{})
			w.mustRefuse(py, "alice", spend(7))
			w.checkLeft(py, "alice", map[string]int64{"spend": 6})
			w.mustAdmit(w.ours, "alice", spend(5))
			w.checkWindow(1_000, "hour", noon)
			w.mustAdmit(py, "alice", spend(1))
			w.wait(time.Hour) // a boundary, which Python does not know
			w.mustRefuse(py, "alice", spend(1))
			w.Equal("left in Python", py.left("alice", "gpt-4"), map[string]int64{"spend": 0})
			w.Equal("left in Go", w.ours.left("alice", "gpt-4"), map[string]int64{"spend": 10})
			w.Equal("capacity in Python", py.availableOf("spend"), int64(0))
			w.mustAdmit(w.ours, "alice", spend(1)) // steps
			w.checkLeft(py, "alice", map[string]int64{"spend": 9})
			w.mustAdmit(py, "alice", spend(9))
			w.mustRefuse(w.ours, "alice", spend(1))
			w.wait(10 * 365 * 24 * time.Hour)
			w.mustRefuse(py, "alice", spend(1))
			w.Equal("left in Python after ten years", py.left("alice", "gpt-4"), map[string]int64{"spend": 0})
		},
		"a refusal of Python says to retry in 285 years": func(w *world, py pyProgram) {
			w.ours.set(gpt4, hourly)
			w.mustAdmit(w.ours, "alice", spend(10))
			_, err := py.repo.acquire("alice", "gpt-4", spend(1), peerEnd{})
			failure, ok := errors.AsType[*peerError](err)
			if !ok || failure.Type != "RateLimitExceeded" || failure.RetryAfter != 9e9+0.001 {
				w.Errorf("got %v after %v", err, failure)
			}
			var wait float64
			py.call("time_until_available",
				map[string]any{"entity_id": "alice", "resource": "gpt-4", "needed": spend(1)}, &wait)
			w.Equal("time until available", wait, 9e9+0.001)
		},
		"what Python spends before the step counts to the old window": func(w *world, py pyProgram) {
			w.ours.set(gpt4, hourly)
			w.mustAdmit(w.ours, "alice", spend(3))
			w.wait(time.Hour)
			w.mustAdmit(py, "alice", spend(6))
			w.checkWindow(1_000, "hour", noon)
			w.mustAdmit(w.ours, "alice", spend(10))
			w.checkWindow(0, "hour", noon.Add(time.Hour))
			w.mustRefuse(py, "alice", spend(1))
			w.mustRefuse(w.ours, "alice", spend(1))
		},
		"debt that Python leaves is paid by the next window": func(w *world, py pyProgram) {
			w.ours.set(gpt4, hourly)
			py.hold("alice", "gpt-4", spend(10)).commit(spend(4))
			w.checkWindow(-4_000, "", time.Time{})
			w.wait(time.Hour)
			w.mustRefuse(w.ours, "alice", spend(7))
			w.mustAdmit(w.ours, "alice", spend(6))
			w.checkWindow(0, "hour", noon.Add(time.Hour))
		},
		"a rollback by Python after a boundary gives to the new window": func(w *world, py pyProgram) {
			w.ours.set(gpt4, hourly)
			w.mustAdmit(w.ours, "alice", spend(1))
			held := py.hold("alice", "gpt-4", spend(6))
			w.wait(time.Hour)
			w.mustAdmit(w.ours, "alice", spend(5))
			held.rollback()
			w.checkWindow(11_000, "hour", noon.Add(time.Hour))
			w.Equal("left in Go", w.ours.left("alice", "gpt-4"), map[string]int64{"spend": 10})
			w.Equal("left in Python", py.left("alice", "gpt-4"), map[string]int64{"spend": 11})
			w.mustRefuse(w.ours, "alice", spend(11))
			w.mustAdmit(w.ours, "alice", spend(10))
			w.mustRefuse(w.ours, "alice", spend(1))
		},
		"what Python gives back after a boundary, it can spend above the capacity": func(w *world, py pyProgram) {
			w.ours.set(gpt4, hourly)
			w.mustAdmit(w.ours, "alice", spend(1))
			held := py.hold("alice", "gpt-4", spend(6))
			w.wait(time.Hour)
			w.mustAdmit(w.ours, "alice", spend(1)) // steps
			held.rollback()
			w.mustAdmit(py, "alice", spend(15))
			w.mustRefuse(py, "alice", spend(1))
			w.mustRefuse(w.ours, "alice", spend(1))
			w.checkWindow(0, "hour", noon.Add(time.Hour))
		},
		"our aggregator begins a window for Python": func(w *world, py pyProgram) {
			w.ours.set(gpt4, hourly, limiter.PerSecond("rps", 1_000_000))
			w.mustAdmit(w.ours, "alice", spend(10).And("rps", 1))
			w.wait(time.Hour)
			w.mustRefuse(py, "alice", spend(1))
			w.countByGo("1", func() { w.mustAdmit(py, "alice", limiter.Tokens("rps", 1)) }) // any change of the bucket
			w.checkWindow(10_000, "hour", noon.Add(time.Hour))
			w.mustAdmit(py, "alice", spend(10))
			w.mustRefuse(w.ours, "alice", spend(1)) // the step was this window's
		},
		"zones are Go's alone": func(w *world, py pyProgram) {
			w.ours.set(gpt4, limiter.Quota("spend", 10, limiter.EveryDay).In("Europe/Berlin"))
			w.mustAdmit(py, "alice", spend(10))
			w.wait(11*time.Hour - time.Millisecond) // 23:59:59.999 in Berlin
			w.mustRefuse(w.ours, "alice", spend(1))
			w.wait(time.Millisecond)
			w.mustRefuse(py, "alice", spend(1))
			w.mustAdmit(w.ours, "alice", spend(9))
			w.checkWindow(1_000, "day:Europe/Berlin", noon.Add(11*time.Hour))
			w.mustAdmit(py, "alice", spend(1))
		},
		"a top-up and a reset reach Python at once": func(w *world, py pyProgram) {
			w.ours.set(gpt4, hourly)
			w.mustAdmit(py, "alice", spend(10))
			w.topUp(spend(3), "a")
			w.mustAdmit(py, "alice", spend(3))
			w.mustRefuse(py, "alice", spend(1))
			w.wait(time.Hour)
			w.Must(w.ours.lim.Reset(w.Context(), "alice", "gpt-4"))
			w.checkWindow(10_000, "hour", noon.Add(time.Hour))
			w.mustAdmit(py, "alice", spend(10))
			w.mustRefuse(w.ours, "alice", spend(1)) // the reset was this window's step
			w.Equal("usage in the bucket", w.stored("spend", "tc"), map[string]string{"tc": "N 23000"})
		},
		"the largest quota": func(w *world, py pyProgram) {
			w.ours.set(gpt4, limiter.Quota("spend", math.MaxInt64/1000, limiter.EveryMonth))
			w.mustAdmit(py, "alice", spend(5)) // its ttl has more digits than an int64
			w.mustAdmit(w.ours, "alice", spend(5))
			w.mustAdmit(py, "alice", spend(5))
			w.checkLeft(py, "alice", map[string]int64{"spend": math.MaxInt64/1000 - 15})
			w.wait(17 * 24 * time.Hour)
			w.mustAdmit(w.ours, "alice", spend(math.MaxInt64/1000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &exactOptions)
			test(w, w.openPython(p, nil))
		})
	}
}

// TestInteropPythonMovesNoWindow lets a Python program with wrong clocks write the
// time of the bucket with each call. In each hour both together get the capacity.
func TestInteropPythonMovesNoWindow(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	w := newWorld(t, &dynamo.Options{NoRejectionMemory: true})
	py := w.openPython(p, map[string]any{"speculative_writes": false}) // each write sets rf
	w.ours.set(gpt4, limiter.Quota("spend", 10, limiter.EveryHour), limiter.PerSecond("rps", 1_000_000))
	times := map[string]bool{}
	for hour, ahead := range []time.Duration{
		0, -26 * time.Hour, 5 * time.Hour, -time.Hour, 61 * time.Minute, 40 * 24 * time.Hour, -30 * time.Minute,
	} {
		start := noon.Add(time.Duration(hour) * time.Hour)
		w.clock.now, w.clock.ahead = start, 0
		w.wait(0)
		w.mustAdmit(w.ours, "alice", spend(1)) // steps
		admitted := int64(1)
		for i := range 8 {
			w.clock.ahead = ahead * time.Duration(1-2*(i%2)) // back and forth
			w.wait(time.Minute)
			if py.take("alice", "gpt-4", spend(1).And("rps", 1)) {
				admitted++
			}
			times[w.stored("rps", "tk")["tk"]+dynamotest.FormatAttribute(w.bucket("alice")["rf"])] = true
			if w.ours.take("alice", "gpt-4", spend(1).And("rps", 1)) {
				admitted++
			}
			w.Equal("window", w.stored("spend", "wi")["wi"], fmt.Sprint("N ", start.UnixMilli()))
		}
		w.Equal(fmt.Sprint("admitted in hour ", hour), admitted, int64(10))
	}
	if len(times) < 20 {
		t.Errorf("Python wrote %d times of the bucket: the test shows nothing", len(times))
	}
}
