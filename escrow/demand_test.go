package escrow_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/escrow"
	"github.com/zeroae/zae-limiter-go/memory"
)

// remote is a store behind a network. It counts requests, and each takes a while.
type remote struct {
	limiter.Repository
	latency  time.Duration
	consumes atomic.Int64
	credits  atomic.Int64
}

func newRemote(t *testing.T, latency time.Duration, limits ...limiter.Limit) *remote {
	t.Helper()
	store := &remote{Repository: memory.New(nil), latency: latency}
	must(t, store.SetConfig(t.Context(), limiter.Config{Limits: limits}, limiter.AuditEvent{ID: "01", At: time.Now()}))
	return store
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// chargeOf returns a charge of the limit rpm.
func chargeOf(n int64) limiter.Charge {
	return limiter.Charge{Entity: "key", Resource: "gpt-4", Amounts: limiter.Tokens("rpm", n)}
}

// Consume passes a charge on, halfway through the time of the request.
func (r *remote) Consume(ctx context.Context, now time.Time, c limiter.Charge) (limiter.Outcome, error) {
	r.consumes.Add(1)
	time.Sleep(r.latency / 2)
	defer time.Sleep(r.latency / 2)
	return r.Repository.Consume(ctx, now, c)
}

// Credit passes credits on, halfway through the time of the request.
func (r *remote) Credit(ctx context.Context, now time.Time, credits ...limiter.Credit) error {
	r.credits.Add(int64(len(credits)))
	time.Sleep(r.latency / 2)
	defer time.Sleep(r.latency / 2)
	return r.Repository.Credit(ctx, now, credits...)
}

// Close keeps the store open for other processes.
func (r *remote) Close() error { return nil }

// demand is calls of several processes on one bucket, by default of 6,000 a minute
// on a store that answers within 5 ms.
type demand struct {
	processes int
	perSecond int
	seconds   int
	limit     limiter.Limit
	latency   time.Duration
}

type served struct {
	admitted, refused, consumes, credits int64
	stats                                escrow.Stats
}

// run makes one call after the other in even steps, by processes in turn.
func (d demand) run(t *testing.T) (s served) {
	t.Helper()
	if d.latency == 0 {
		d.limit, d.latency = limiter.PerMinute("rpm", 6000), 5*time.Millisecond
	}
	store := newRemote(t, d.latency, d.limit)
	var processes []*escrow.Repository
	for range d.processes {
		processes = append(processes, escrow.New(store, nil))
	}
	var admitted, refused atomic.Int64
	var calls sync.WaitGroup
	for i := range d.perSecond * d.seconds {
		calls.Go(func() {
			out, err := processes[i%d.processes].Consume(t.Context(), time.Now(), chargeOf(1))
			switch {
			case err != nil:
				t.Error(err)
			case out.Admitted:
				admitted.Add(1)
			default:
				refused.Add(1)
			}
		})
		time.Sleep(time.Second / time.Duration(d.perSecond))
	}
	calls.Wait()
	for _, p := range processes {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		s.stats.AdmittedLocally += p.Stats().AdmittedLocally
		s.stats.Returned += p.Stats().Returned
		s.stats.Dropped += p.Stats().Dropped
	}
	s.admitted, s.refused, s.consumes, s.credits = admitted.Load(), refused.Load(), store.consumes.Load(), store.credits.Load()
	return s
}

// At 20 times the limit, few refused calls need a request.
func TestOverDemandNeedsFewRequests(t *testing.T) {
	for _, c := range []struct {
		processes  int
		perRefusal float64
	}{{1, 0.13}, {8, 0.45}} {
		t.Run(fmt.Sprint(c.processes, " processes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := demand{processes: c.processes, perSecond: 2000, seconds: 15}
				s := d.run(t)
				if got := float64(s.consumes+s.credits) / float64(s.refused); got > c.perRefusal {
					t.Errorf("%.3f requests for each refused call, want at most %.2f: %+v", got, c.perRefusal, s)
				} else {
					t.Logf("%.3f requests for each refused call", got)
				}
				s.checkAdmitted(t, d)
			})
		})
	}
}

// A store that answers after the end of a hold loses nothing: no extra is taken
// that could not be spent.
func TestASlowStoreLosesNothing(t *testing.T) {
	for _, limit := range []limiter.Limit{
		limiter.PerSecond("rpm", 1000), limiter.PerMinute("rpm", 60_000).WithBurst(3000),
	} {
		synctest.Test(t, func(t *testing.T) {
			d := demand{processes: 1, perSecond: 600, seconds: 10, limit: limit, latency: 25 * time.Millisecond}
			if s := d.run(t); s.refused > 0 || s.stats.Dropped > 0 || s.stats.Returned > 0 {
				t.Errorf("%v: %+v", limit, s)
			}
		})
	}
}

// A key with few calls costs what it would cost without escrow, or less.
func TestFewCallsNeedFewRequests(t *testing.T) {
	for _, c := range []struct {
		perSecond    int
		perAdmission float64
	}{{1, 1.05}, {2, 0.6}, {5, 0.4}, {10, 0.25}} {
		t.Run(fmt.Sprint(c.perSecond, " a second"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := demand{processes: 1, perSecond: c.perSecond, seconds: 60}.run(t)
				if s.refused > 0 {
					t.Errorf("%d calls were refused", s.refused)
				}
				if got := float64(s.consumes+s.credits) / float64(s.admitted); got > c.perAdmission {
					t.Errorf("%.3f requests for each call, want at most %.2f: %+v", got, c.perAdmission, s)
				} else {
					t.Logf("%.3f requests for each call", got)
				}
			})
		})
	}
}

// Eight processes share what a bucket allows, and leave nothing of it unused.
func TestDemandIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := demand{processes: 8, perSecond: 400, seconds: 60}
		s := d.run(t)
		s.checkAdmitted(t, d)
		if s.stats.AdmittedLocally < s.admitted/2 {
			t.Errorf("only %d of %d calls were admitted from a pot", s.stats.AdmittedLocally, s.admitted)
		}
	})
}

// checkAdmitted checks the calls admitted since the bucket was full: between 97 %
// of what the limit allows, and that with 3 % of the capacity more.
func (s served) checkAdmitted(t *testing.T, d demand) {
	t.Helper()
	capacity, refill := int64(6000), int64(100*d.seconds)
	if s.admitted < (capacity+refill)*97/100 || s.admitted > capacity+refill+capacity*3/100 {
		t.Errorf("%d calls were admitted, and the limit allows %d: %+v", s.admitted, capacity+refill, s)
	}
}
