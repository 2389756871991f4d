package loadtest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/memory"
)

// stuck returns a scenario whose tasks end only when they are cancelled.
func stuck() Scenario {
	return Scenario{Name: "stuck", Classes: []Class{{Name: "User", Tasks: []Task{{
		Name: "wait",
		Run: func(ctx context.Context, _ *User) error {
			<-ctx.Done()
			return nil
		},
	}}}}}
}

// A rate that no machine reaches ends in time, with a bounded queue.
func TestTooManyArrivals(t *testing.T) {
	w, err := NewSwarm(memory.New(nil), stuck(), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := newArrivals(w, maxRate, 1)
	for range maxWaiting + 10 {
		a.add(time.Now())
	}
	if n := len(a.pools[0].queue); n > maxWaiting {
		t.Errorf("%d tasks wait", n)
	}
	if n := a.waiting(); n < maxWaiting+8 { // a user may have taken one
		t.Errorf("%d tasks have not begun", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.generate(ctx) // returns
	a.close()
	w.cancel()
	w.done.Wait()
}

// A test with a high rate ends, also if its tasks do not. Their cancellation is no
// error.
func TestTasksThatDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Run(t.Context(), memory.New(nil), stuck(), &Options{
			Rate: maxRate, Users: 3, Duration: 20 * time.Millisecond, StopTimeout: time.Millisecond,
		})
		if err != nil || !r.Cancelled || r.Waiting == 0 {
			t.Errorf("%v, cancelled %v, waiting %d", err, r.Cancelled, r.Waiting)
		}
	})
	for _, o := range []Options{{Rate: 2 * maxRate}, {SpawnRate: 1e308}} {
		if _, err := Run(t.Context(), memory.New(nil), stuck(), &o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
