package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// checkTTL checks the ttl of alice's bucket relative to now; 0 means none.
func (w *world) checkTTL(after time.Duration) {
	w.Helper()
	want := "none"
	if after != 0 {
		want = fmt.Sprint("N ", w.clock.now.Add(after).Unix())
	}
	got := "none"
	if v := w.bucket("alice")["ttl"]; v != nil {
		got = dynamotest.FormatAttribute(v)
	}
	w.Equal("ttl", got, want)
}

// TestInteropExpiryMatchesPython checks that both libraries give a bucket the
// same time to live: seven times the time to fill. A bucket of an entity with
// limits of its own for the resource does not expire.
func TestInteropExpiryMatchesPython(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	for name, c := range map[string]struct {
		limits []limiter.Limit
		idle   time.Duration
	}{
		"one limit":       {[]limiter.Limit{limiter.PerMinute("rpm", 100)}, 420 * time.Second},
		"slow to fill":    {[]limiter.Limit{limiter.Custom("rpm", 1000, 10, time.Minute)}, 42000 * time.Second},
		"bursts":          {[]limiter.Limit{limiter.Custom("rpm", 15000, 10000, time.Minute)}, 630 * time.Second},
		"longest of them": {[]limiter.Limit{limiter.PerMinute("rpm", 5), limiter.PerDay("rpd", 5)}, 7 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &exactOptions)
			py := w.openPython(p, map[string]any{"speculative_writes": false}) // its fast path never renews
			w.checkExpiry(py, c.idle, c.limits)
			w.checkNoExpiry(py, c.idle, c.limits)
		})
	}
}

func (w *world) checkExpiry(py pyProgram, idle time.Duration, limits []limiter.Limit) {
	w.Helper()
	for _, s := range []limiter.Scope{{}, {Resource: "gpt-4"}, {Entity: "alice"}} {
		w.ours.set(s, limits...)
		for _, maker := range []program{py, w.ours} {
			w.mustAdmit(maker, "alice", rpm(1))
			w.checkTTL(idle)
			w.wait(time.Minute + time.Second)
			w.mustAdmit(py, "alice", rpm(0))
			w.checkTTL(idle)
			w.wait(time.Minute + time.Second)
			w.mustAdmit(w.ours, "alice", rpm(1))
			w.checkTTL(idle)
			w.dropBucket("alice")
		}
	}
}

func (w *world) checkNoExpiry(py pyProgram, idle time.Duration, limits []limiter.Limit) {
	w.Helper()
	own := limiter.Scope{Entity: "alice", Resource: "gpt-4"}
	w.mustAdmit(py, "alice", rpm(1))
	for _, setter := range []program{w.ours, py} {
		setter.set(own, limits...)
		w.checkTTL(0)
		w.wait(defaultCacheTTL)
		w.mustAdmit(w.ours, "alice", rpm(1))
		w.checkTTL(0)
		setter.unset(own)
		w.checkTTL(idle)
	}
	w.ours.set(own, limits...)
	for _, maker := range []program{py, w.ours} {
		w.dropBucket("alice")
		w.mustAdmit(maker, "alice", rpm(1))
		w.checkTTL(0)
	}
}

// TestInteropExpiryOutlastsDebt checks that a bucket in debt does not expire: it
// would start full again, for Python too.
func TestInteropExpiryOutlastsDebt(t *testing.T) {
	t.Parallel()
	p := startPython(t)
	w := newWorld(t, &exactOptions)
	py := w.openPython(p, nil)
	w.ours.set(limiter.Scope{Resource: "gpt-4"}, limiter.PerMinute("rpm", 100))
	w.ours.hold("alice", "gpt-4", rpm(1)).commit(rpm(1999))
	w.checkTTL(20 * time.Minute) // until it is full
	w.wait(19*time.Minute - time.Second)
	w.mustRefuse(py, "alice", rpm(0))
	w.wait(time.Second)
	w.mustAdmit(py, "alice", rpm(0))
}
