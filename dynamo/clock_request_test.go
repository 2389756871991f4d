package dynamo_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// sleeper is a machine beside a table. While the machine sleeps, the table's time
// and the machine's go on, and the clock of the bubble, which is steady, does not.
type sleeper struct {
	datedTable
	ahead time.Duration // of the machine's clock
	slept time.Duration
	repo  *dynamo.Repository
}

// newSleeper connects a machine, whose dates are confirmed.
func newSleeper(t *testing.T, ahead time.Duration) *sleeper {
	t.Helper()
	s := &sleeper{ahead: ahead}
	s.date = s.right
	time.Sleep(time.Until(start.Add(24 * time.Hour)))
	cfg := &aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: s,
	}
	var err error
	s.repo, err = dynamo.ConnectAt(t.Context(), "quiet", &dynamo.Options{AWS: cfg}, func() time.Time {
		return time.Now().Add(ahead)
	})
	must(t, err)
	t.Cleanup(func() { _ = s.repo.Close() })
	time.Sleep(2 * time.Second)
	must(t, s.repo.Ping(t.Context()))
	if !s.repo.Stats().ClockKnown {
		t.Fatal("the dates are no evidence")
	}
	return s
}

// right returns the table's time.
func (s *sleeper) right() time.Time { return time.Now().Add(s.slept) }

// now returns the machine's time.
func (s *sleeper) now() time.Time { return s.right().Add(s.ahead) }

// sleep suspends the machine.
func (s *sleeper) sleep(d time.Duration) {
	s.slept += d
	s.repo.StepClock(d)
	s.reset()
}

// reset forgets all earlier requests.
func (s *sleeper) reset() {
	s.Script(nil)
	s.repo.Forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = nil
}

// charge charges bob at the machine's time, and checks the times that are written
// since the sleep.
func (s *sleeper) charge(ctx context.Context, t *testing.T) error {
	t.Helper()
	_, err := s.repo.Consume(ctx, s.now(), quietCharge("bob"))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.writes {
		if off := at.Sub(s.right()); off.Abs() > 4*time.Second {
			t.Errorf("charged at a time that is off by %v", off)
		}
	}
	if err == nil && len(s.writes) == 0 {
		t.Error("nothing is written")
	}
	return err
}

// All calls after a sleep wait for the same date, and none is corrected by the
// offset from before.
func TestCallsAfterASleepWaitForOneDate(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, 5 * time.Minute, -5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := newSleeper(t, ahead)
			s.sleep(30 * time.Minute)
			s.Script(func(string, int) time.Duration { return 50 * time.Millisecond })
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() { must(t, s.charge(t.Context(), t)) })
			}
			wg.Wait()
			if n := s.Count("GetItem"); n != 1 {
				t.Errorf("ahead by %v: %d reads for a date, want 1", ahead, n)
			}
			if got := s.repo.Stats().ClockCorrected; got != (ahead != 0) {
				t.Errorf("ahead by %v: corrected %v", ahead, got)
			}
		})
	}
}

// While the network is not up yet, no call is corrected, and each asks again.
func TestADateThatDoesNotComeIsAskedForAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSleeper(t, 0)
		s.sleep(time.Hour)
		var down atomic.Bool
		down.Store(true)
		s.Script(func(op string, _ int) time.Duration {
			if op == "GetItem" && down.Load() {
				return dynamotest.Never
			}
			return 0
		})
		s.date = func() time.Time { return time.Time{} } // no evidence either
		for range 2 {
			before := s.Count("GetItem")
			must(t, s.charge(t.Context(), t))
			if s.Count("GetItem") == before || s.repo.Stats().ClockCorrected {
				t.Errorf("it asks: %v, corrected: %v", s.Count("GetItem") != before, s.repo.Stats().ClockCorrected)
			}
		}
		down.Store(false)
		s.date = s.right
		before := s.Count("GetItem")
		for range 3 {
			must(t, s.charge(t.Context(), t))
		}
		if n := s.Count("GetItem") - before; n != 1 {
			t.Errorf("%d reads for a date, want 1", n)
		}
	})
}

// A proxy that drops dates from now on leaves nothing to wait for.
func TestRepliesWithoutADateEndTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSleeper(t, 0)
		s.sleep(time.Hour)
		s.age = "1"
		for range 3 {
			must(t, s.charge(t.Context(), t))
		}
		if n := s.Count("GetItem"); n != 1 {
			t.Errorf("%d reads for a date, want 1", n)
		}
	})
}

// A caller that leaves does not end the read that others wait for.
func TestACallerThatLeavesKeepsTheRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSleeper(t, 5*time.Minute)
		s.sleep(time.Hour)
		s.Script(func(op string, _ int) time.Duration {
			if op == "GetItem" {
				return 200 * time.Millisecond
			}
			return 0
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := s.charge(ctx, t); err == nil {
				t.Error("the charge has no error")
			}
		})
		synctest.Wait()
		wg.Go(func() { must(t, s.charge(t.Context(), t)) })
		wg.Wait()
		if n := s.Count("GetItem"); n != 1 {
			t.Errorf("%d reads for a date, want 1", n)
		}
	})
}

// A machine that wakes with a wrong clock waits for a second date, unless the
// caller is in a hurry.
func TestAWrongClockAfterASleepIsConfirmed(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := newSleeper(t, ahead)
			s.sleep(time.Hour)
			s.ahead -= 20 * time.Minute
			s.repo.StepClock(-20 * time.Minute)
			hurried, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			took, err := elapsed(func() error {
				_, err := s.repo.Consume(hurried, s.now(), quietCharge("bob"))
				return err
			})
			if must(t, err); took != 0 {
				t.Errorf("a caller in a hurry waits %v", took)
			}
			s.reset()
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { must(t, s.charge(t.Context(), t)) })
			}
			wg.Wait()
			if n := s.Count("GetItem"); n > 1 || !s.repo.Stats().ClockCorrected {
				t.Errorf("%d reads for a date, corrected %v", n, s.repo.Stats().ClockCorrected)
			}
		})
	}
}

// The clock is set while the program does nothing, after one date.
func TestAClockThatIsSetAfterConnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &datedTable{date: time.Now}
		repo := d.connect(t, dynamo.Options{})
		time.Sleep(10 * time.Minute)
		repo.StepClock(5 * time.Minute)
		for range 3 {
			if got := d.charged(t, repo, time.Now().Add(5*time.Minute)); time.Until(got).Abs() > time.Second {
				t.Errorf("charged at %v, want %v", got, time.Now())
			}
		}
	})
}

// A load balancer answers with a page of its own, dated by its own clock.
func TestThePageOfALoadBalancerIsNoEvidence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &datedTable{date: time.Now}
		repo := d.connect(t, dynamo.Options{})
		d.date = offBy(5 * time.Minute)
		d.fault = func(string) *http.Response {
			return &http.Response{
				StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Content-Type": {"text/html"}},
				Body: io.NopCloser(strings.NewReader("<html>")),
			}
		}
		for range 100 {
			if _, err := repo.Consume(t.Context(), time.Now(), quietCharge("bob")); err == nil {
				t.Fatal("the charge has no error")
			}
			time.Sleep(time.Second)
		}
		d.date, d.fault = time.Now, nil
		if now := time.Now().Truncate(time.Millisecond); !d.charged(t, repo, now).Equal(now) {
			t.Errorf("charged at %v, want %v", d.refilled, now)
		}
	})
}

// lateCredentials take three seconds whenever they are fetched anew.
type lateCredentials struct{}

// Retrieve returns credentials that expire after a minute.
func (lateCredentials) Retrieve(context.Context) (aws.Credentials, error) {
	time.Sleep(3 * time.Second) // in the bubble
	return aws.Credentials{
		AccessKeyID: "a", SecretAccessKey: "b", CanExpire: true, Expires: time.Now().Add(time.Minute),
	}, nil
}

// A call that waits for credentials has the time at which it arrived, in the
// table's time.
func TestACallThatWaitsForCredentialsIsCorrected(t *testing.T) {
	t.Parallel()
	const ahead = 5 * time.Minute
	for name, call := range map[string]func(context.Context, *dynamo.Repository) error{
		"charge": func(ctx context.Context, r *dynamo.Repository) error {
			_, err := r.Consume(ctx, time.Now(), quietCharge("bob"))
			return err
		},
		"look": func(ctx context.Context, r *dynamo.Repository) error {
			_, err := r.Peek(ctx, time.Now(), quietCharge("bob"))
			return err
		},
		"listing": func(ctx context.Context, r *dynamo.Repository) error {
			buckets := r.Buckets(ctx, time.Now(), limiter.Scope{Resource: model})
			time.Sleep(3 * time.Second) // in the bubble: the iteration begins later
			for _, err := range buckets {
				return err
			}
			return nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &datedTable{date: offBy(-ahead)}
			time.Sleep(time.Until(start.Add(24 * time.Hour)))
			cfg := &aws.Config{Region: "us-east-1", Credentials: lateCredentials{}, HTTPClient: d}
			repo, err := dynamo.Connect(t.Context(), "quiet", &dynamo.Options{AWS: cfg})
			must(t, err)
			t.Cleanup(func() { _ = repo.Close() })
			time.Sleep(2 * time.Minute) // in the bubble: the credentials expire
			took, err := elapsed(func() error { return call(t.Context(), repo) })
			if must(t, err); took < 3*time.Second {
				t.Errorf("%s: it takes %v", name, took)
			}
			if !repo.Stats().ClockCorrected {
				t.Errorf("%s: its time is not corrected", name)
			}
			if late := d.refilled.Sub(time.Now().Add(-ahead)); name == "charge" && (late < -4*time.Second || late > 0) {
				t.Errorf("charged at a time that is off by %v", late)
			}
		})
	}
}
