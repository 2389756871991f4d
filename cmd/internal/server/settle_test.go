package server

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
	"github.com/zeroae/zae-limiter-go/repotest"
)

// stuckCredits answers no credit until its context ends.
type stuckCredits struct{ limiter.Repository }

func (stuckCredits) Credit(ctx context.Context, _ time.Time, _ ...limiter.Credit) error {
	<-ctx.Done()
	return ctx.Err()
}

// Settling takes no longer than its context, also for leases that expire, and says
// how many leases are lost. Leases without corrections need no store.
func TestSettleIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		ttl, wait time.Duration
		want      string
	}{
		"open": {time.Hour, 0, "200 leases could not be settled: context deadline exceeded"},
		"expired": {
			time.Minute, time.Minute + time.Second,
			"200 leases could not be settled: context deadline exceeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stuckCredits{memory.New(nil)}, Options{LeaseTTL: test.ttl})
				for i := range 300 {
					id := r.acquire("", "key"+string(rune('a'+i%26))+string(rune('a'+i/26)), `{"tpm":2}`)
					if i%3 != 0 {
						r.want(200, request{path: "/v1/leases/" + id + "/adjust", body: `{"used":{"tpm":1}}`})
					}
				}
				time.Sleep(test.wait)
				begin := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				err := r.Settle(ctx)
				if took := time.Since(begin); took > 3*time.Second {
					t.Errorf("settling took %v", took)
				}
				if err == nil || err.Error() != test.want {
					t.Errorf("Settle: %v, want %s", err, test.want)
				}
				time.Sleep(time.Minute) // for the settlements that were given up
			})
		})
	}
}

// A server whose charges fail is not ready, although the store answers reads. It is
// ready again after a charge, or after a while without any.
func TestWriteOutageIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		r := newRig(t, repotest.NewFaulty(memory.New(nil), func(method string) repotest.Fault {
			if failing.Load() && method == "Consume" {
				return repotest.Before
			}
			return repotest.None
		}), Options{})
		spend := func(want int) {
			t.Helper()
			r.want(want, request{
				path: "/v1/acquire",
				body: `{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1},"commit":true}`,
			})
		}
		ready := func(want int) {
			t.Helper()
			r.want(want, request{method: "GET", path: "/readyz"})
		}
		ready(200)
		failing.Store(true)
		spend(503)
		ready(200) // one failure may be bad luck
		spend(503)
		spend(503)
		ready(503)
		time.Sleep(writeFailureAge)
		ready(200)
		spend(503)
		ready(503)
		failing.Store(false)
		spend(200)
		ready(200)
	})
}

// An outage that a lease allows is an outage of the server all the same.
func TestAllowedOutageOfALeaseIsNotReady(t *testing.T) {
	var failing atomic.Bool
	reported := 0
	r := newRig(t, repotest.NewFaulty(memory.New(nil), func(method string) repotest.Fault {
		if failing.Load() && method == "Consume" {
			return repotest.Before
		}
		return repotest.None
	}), Options{OnError: func(error) { reported++ }})
	var leases []string
	for range writeFailures {
		leases = append(leases, r.acquire("", "key", `{"rpm":1},"on_unavailable":"allow"`))
	}
	failing.Store(true)
	for _, id := range leases {
		r.want(200, request{path: "/v1/leases/" + id + "/consume", body: `{"consume":{"rpm":1}}`})
	}
	if reported != len(leases) {
		t.Errorf("%d outages are reported, want %d", reported, len(leases))
	}
	r.want(503, request{method: "GET", path: "/readyz"})
	// The lease shows its first outage alone, so this one says nothing of the store.
	failing.Store(false)
	r.want(200, request{path: "/v1/leases/" + leases[0] + "/consume", body: `{"consume":{"rpm":1}}`})
	r.want(503, request{method: "GET", path: "/readyz"})
	r.acquire("", "key", `{"rpm":1}`)
	r.want(200, request{method: "GET", path: "/readyz"})
}

// Where all leases are taken, calls without a lease pass.
func TestSpendingNeedsNoPlace(t *testing.T) {
	r := newMemoryRig(t, Options{MaxLeases: 1})
	r.acquire("", "key", `{"rpm":1}`)
	r.want(200, request{
		path: "/v1/acquire", body: `{"entity_id":"key","resource":"gpt-4","consume":{"rpm":1},"commit":true}`,
	})
	r.want(503, request{path: "/v1/acquire", body: acquireJSON("key", `{"rpm":1}`)})
	if err := r.Settle(context.Background()); err != nil {
		t.Error(err)
	}
}

// A call that ends with its client says nothing about the store.
func TestWriteHealthIgnoresClients(t *testing.T) {
	var health writeHealth
	gone, leave := context.WithCancel(context.Background())
	leave()
	outage := &limiter.UnavailableError{Op: "acquire", Err: errors.New("down")}
	for range 2 * writeFailures {
		health.note(gone, outage)
		health.note(context.Background(), &limiter.ExceededError{})
	}
	if health.down() {
		t.Error("calls that ended and refusals count as failures")
	}
}
