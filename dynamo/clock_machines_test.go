package dynamo_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

// machine is a process with a clock of its own.
type machine struct {
	repo  *dynamo.Repository
	clock func() time.Time
}

// newMachines connects machines whose clocks are ahead of the engine's.
func newMachines(t *testing.T, table string, guard time.Duration, ahead ...time.Duration) []machine {
	t.Helper()
	machines := make([]machine, len(ahead))
	var wg sync.WaitGroup
	for i, by := range ahead {
		wg.Go(func() {
			m := &machines[i]
			m.clock = func() time.Time { return time.Now().Add(by) }
			opts := &dynamo.Options{
				AWS: dynamotest.Config(dynamotest.Endpoint(t)), Timeout: dynamotest.LongTimeout, Exact: true,
				ClockGuard: guard,
			}
			var err error
			if m.repo, err = dynamo.ConnectAt(t.Context(), table, opts, m.clock); err != nil {
				t.Error(err)
			}
		})
	}
	if wg.Wait(); t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() {
		for _, m := range machines {
			_ = m.repo.Close()
		}
	})
	return machines
}

// attempt charges alice a token several times, and returns how many were admitted.
func (m machine) attempt(t *testing.T, charges int) (admitted int) {
	t.Helper()
	for range charges {
		out, err := m.repo.Consume(t.Context(), m.clock(), chargeOf("alice", 1))
		if err != nil {
			t.Error(err)
		} else if out.Admitted {
			admitted++
		}
	}
	return admitted
}

// Machines minutes ahead and behind share a bucket with one whose clock is right.
// Together they take what the limit allows, and the bucket's time is the right
// one. Without the guard they take more, and the bucket stands still.
func TestWrongClocksBesideARightOne(t *testing.T) {
	t.Parallel()
	dynamotest.Endpoint(t)
	for name, c := range map[string]struct {
		guard time.Duration
		first int // of the machines, which creates the bucket
		fair  bool
	}{
		"right first":               {0, 0, true},
		"ahead first":               {0, 1, true},
		"behind first":              {0, 2, true},
		"without a guard":           {-1, 0, false},
		"without a guard, ahead":    {-1, 1, false},
		"without a guard, behind":   {-1, 2, false},
		"with a guard of an hour":   {time.Hour, 0, false},
		"with a guard of a second":  {time.Second, 1, true},
		"with a guard of 4 minutes": {4 * time.Minute, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const allowed = 60 // an hour: one more each minute
			table := dynamotest.NewTable(t)
			machines := newMachines(t, table, c.guard, 0, 5*time.Minute, -5*time.Minute)
			right := machines[0]
			setDefaults(t, right.repo, limiter.PerHour("rpm", allowed))
			began := time.Now()
			admitted := machines[c.first].attempt(t, allowed-10)
			var wg sync.WaitGroup
			var mu sync.Mutex
			for _, m := range machines {
				wg.Go(func() {
					n := m.attempt(t, 20)
					mu.Lock()
					defer mu.Unlock()
					admitted += n
				})
			}
			wg.Wait()
			most := allowed + int((time.Since(began)+3*time.Second)/time.Minute)
			refill, _ := storedNumber(t, table, right.repo.NamespaceID(), "rf")
			ahead := time.Until(time.UnixMilli(refill))
			over, frozen := admitted > most, ahead > 1500*time.Millisecond
			if admitted < allowed || c.fair && (over || frozen) || !c.fair && !over && !frozen {
				t.Errorf("%d admitted of %d, the bucket is ahead by %v; want that fair: %v", admitted, most, ahead,
					c.fair)
			}
			if !c.fair {
				return
			}
			later := time.Now().Add(3*time.Minute + 2*time.Second) // by a clock that is right
			out, err := right.repo.Consume(t.Context(), later, chargeOf("alice", 3))
			if must(t, err); !out.Admitted {
				t.Errorf("nothing is refilled after three minutes: %v", out.Payers[0].Tokens)
			}
		})
	}
}

// dateHider is a client that can hide the dates of replies.
type dateHider struct{ off atomic.Bool }

// Do sends a request.
func (h *dateHider) Do(req *http.Request) (*http.Response, error) {
	reply, err := dynamotest.Transport.RoundTrip(req)
	if err == nil && !h.off.Load() {
		reply.Header.Del("Date")
	}
	return reply, err
}

// A process that finds out later that its clock is ahead forgets the times of its
// own charges. Otherwise it would go on refilling up to the latest of them.
func TestACorrectionThatBeginsLate(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	clock := func() time.Time { return time.Now().Add(90 * time.Second) }
	hider, cfg := &dateHider{}, dynamotest.Config(dynamotest.Endpoint(t))
	cfg.HTTPClient = hider
	repo, err := dynamo.ConnectAt(t.Context(), table,
		&dynamo.Options{AWS: cfg, Timeout: dynamotest.LongTimeout, Exact: true}, clock)
	must(t, err)
	t.Cleanup(func() { _ = repo.Close() })
	setDefaults(t, repo, limiter.PerHour("rpm", 60))
	right := dynamotest.Connect(t, table, &exactOptions)
	_, err = right.Consume(t.Context(), time.Now(), chargeOf("alice", 57))
	must(t, err)
	ahead := machine{repo, clock}
	if n := ahead.attempt(t, 1); n != 1 || repo.Stats().ClockKnown {
		t.Fatalf("%d admitted of 1, and the offset is known: %v", n, repo.Stats().ClockKnown)
	}
	hider.off.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), dynamotest.LongTimeout)
	defer cancel()
	for !repo.Stats().ClockKnown {
		must(t, repo.Ping(ctx))
	}
	for _, n := range []int64{3, 2} { // 2 are left, and 1.5 more in 90 s
		out, err := repo.Consume(t.Context(), clock(), chargeOf("alice", n))
		if must(t, err); out.Admitted != (n == 2) {
			t.Errorf("a charge of %d is admitted: %v", n, out.Admitted)
		}
	}
	if !repo.Stats().ClockCorrected {
		t.Error("nothing was corrected")
	}
}

// Whatever else writes or shows a bucket has the table's time too.
func TestCreditsReadsAndRefillsUseTheTablesTime(t *testing.T) {
	t.Parallel()
	table := dynamotest.NewTable(t)
	machines := newMachines(t, table, 0, 5*time.Minute, 0)
	m, right := machines[0], machines[1]
	setDefaults(t, right.repo, limiter.PerHour("rpm", 60))
	if n := right.attempt(t, 60); n != 60 {
		t.Fatalf("%d admitted of 60", n)
	}
	empty := func(what string, b limiter.Bucket) {
		t.Helper()
		if len(b.Tokens) != 1 || b.Tokens[0] >= 1000 {
			t.Errorf("%s shows %v, want less than a token", what, b.Tokens)
		}
	}
	out, err := m.repo.Peek(t.Context(), m.clock(), chargeOf("alice", 3))
	if must(t, err); out.Admitted {
		t.Error("a look admits what is not there yet")
	}
	empty("a look", out.Payers[0])
	for b, err := range m.repo.Buckets(t.Context(), m.clock(), limiter.Scope{Resource: model}) {
		must(t, err)
		empty("a listing", b)
	}
	notAhead := func(what string) {
		t.Helper()
		if refill, _ := storedNumber(t, table, m.repo.NamespaceID(), "rf"); time.UnixMilli(refill).After(
			time.Now().Add(1500 * time.Millisecond),
		) {
			t.Errorf("after %s the bucket is ahead by %v", what, time.Until(time.UnixMilli(refill)))
		}
	}
	change, reason, ok := record("1", nil, rawBucket(t, table, m.repo.NamespaceID(), "alice")).Change()
	if !ok {
		t.Fatal(reason)
	}
	_, err = m.repo.UsageStore(0).Refill(t.Context(), m.clock(), change.Bucket, change.State)
	must(t, err)
	notAhead("a refill")
	for _, n := range []int64{58, -1} { // the second may lock a bucket that is nearly full
		must(t,
			m.repo.Credit(t.Context(), m.clock(), limiter.Credit{
				Account: out.Payers[0].Account, Amounts: limiter.Tokens("rpm", n),
			}))
		notAhead("a credit")
	}
	must(t, m.repo.SetConfig(t.Context(),
		limiter.Config{
			Scope:  limiter.Scope{Entity: "alice", Resource: model},
			Limits: []limiter.Limit{limiter.PerHour("rpm", 30)},
		},
		limiter.AuditEvent{ID: "01JPCOUNT0000000000000000B", Action: "limits_set", Entity: "alice", At: m.clock()}))
	notAhead("a change of limits")
}

// slowWriter is a client on a machine whose clocks go on by three seconds during
// each transaction.
type slowWriter struct{ passed atomic.Int64 }

// Do sends a request.
func (w *slowWriter) Do(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.Header.Get("X-Amz-Target"), ".TransactWriteItems") {
		w.passed.Add(int64(3 * time.Second))
	}
	return dynamotest.Transport.RoundTrip(req)
}

// A change of limits that takes long repairs the bucket at the time at which the
// change began.
func TestASlowChangeOfLimitsUsesTheTablesTime(t *testing.T) {
	t.Parallel()
	dynamotest.Endpoint(t)
	for name, change := range map[string]func(context.Context, *limiter.RateLimiter) error{
		"set": func(ctx context.Context, lim *limiter.RateLimiter) error {
			return lim.SetLimits(ctx, "alice", model, limiter.PerHour("rpm", 120))
		},
		"delete": func(ctx context.Context, lim *limiter.RateLimiter) error {
			return lim.DeleteLimits(ctx, "alice", model)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := dynamotest.NewTable(t)
			right := dynamotest.Connect(t, table, &exactOptions)
			setDefaults(t, right, limiter.PerHour("rpm", 60))
			must(t,
				right.SetConfig(t.Context(),
					limiter.Config{
						Scope:  limiter.Scope{Entity: "alice", Resource: model},
						Limits: []limiter.Limit{limiter.PerHour("rpm", 30)},
					},
					auditEvent("limits_set")))
			_, err := right.Consume(t.Context(), time.Now(), chargeOf("alice", 30))
			must(t, err)
			slow, cfg := &slowWriter{}, dynamotest.Config(dynamotest.Endpoint(t))
			cfg.HTTPClient = slow
			clock := func() time.Time { return time.Now().Add(5*time.Minute + time.Duration(slow.passed.Load())) }
			repo, err := dynamo.ConnectAt(t.Context(), table,
				&dynamo.Options{AWS: cfg, Timeout: dynamotest.LongTimeout}, clock)
			must(t, err)
			t.Cleanup(func() { _ = repo.Close() })
			lim, err := limiter.New(repo, &limiter.Options{Now: clock})
			must(t, err)
			must(t, change(t.Context(), lim))
			refill, _ := storedNumber(t, table, repo.NamespaceID(), "rf")
			capacity, _ := storedNumber(t, table, repo.NamespaceID(), "b_rpm_cp")
			if ahead := time.Until(time.UnixMilli(refill)); capacity == 30_000 || slow.passed.Load() == 0 ||
				ahead > 1500*time.Millisecond {
				t.Errorf("the capacity is %d, the bucket is ahead by %v", capacity, ahead)
			}
		})
	}
}
