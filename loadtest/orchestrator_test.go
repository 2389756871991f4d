package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

var start = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// master returns the statistics of a master with workers of these IDs.
func master(state string, users int, ids ...string) *MasterStats {
	m := &MasterStats{State: state, Users: users}
	for _, id := range ids {
		m.Workers = append(m.Workers, MasterWorker{ID: id, State: state})
	}
	return m
}

func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint("w", i))
	}
	return all
}

// pollStep is one poll of a test, at a time after the start.
type pollStep struct {
	at     time.Duration
	master *MasterStats
	want   int // workers to invoke; the test then invokes them
}

func TestOrchestratorInvokes(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		name  string
		opts  OrchestratorOptions
		steps []pollStep
	}{
		{"the minimum while no test runs", OrchestratorOptions{MinWorkers: 3}, []pollStep{
			{0, master("ready", 0), 3},
			{5 * s, master("ready", 0), 0},
			{10 * s, master("ready", 0, "w0", "w1"), 0},
			{15 * s, master("ready", 0, "w0", "w1", "w2"), 0},
			{40 * s, master("stopped", 500, "w0", "w1", "w2"), 0},
		}},
		{"a worker for each ten users, rounded up", OrchestratorOptions{}, []pollStep{
			{0, master("running", 95), 10},
			{5 * s, master("running", 95, names(10)...), 0},
			{10 * s, master("running", 95, names(10)...), 0},
		}},
		{"never twice while workers are pending", OrchestratorOptions{}, []pollStep{
			{0, master("running", 100), 10},
			{5 * s, master("running", 100), 0},
			{10 * s, master("running", 100, names(4)...), 0},
			{29 * s, master("running", 100, names(9)...), 0},
		}},
		{"again when a worker does not connect in time", OrchestratorOptions{}, []pollStep{
			{0, master("running", 20), 2},
			{30 * s, master("running", 20, "w0"), 0},
			{31 * s, master("running", 20, "w0"), 1},
		}},
		{"ahead of a rise", OrchestratorOptions{}, []pollStep{
			{0, master("spawning", 0), 1},
			// 10 users in 5 s are 40 more within the lead of 20 s.
			{5 * s, master("spawning", 10, "w0"), 4},
			{10 * s, master("running", 10, names(5)...), 0},
		}},
		{"no fewer because of a fall", OrchestratorOptions{}, []pollStep{
			{0, master("running", 100), 10},
			{5 * s, master("running", 50, names(8)...), 0},
			{10 * s, master("running", 50, names(4)...), 0},
			{31 * s, master("running", 50, names(4)...), 1},
		}},
		{"at most the maximum", OrchestratorOptions{MaxWorkers: 4}, []pollStep{
			{0, master("running", 1000), 4},
			{5 * s, master("running", 2000, names(4)...), 0},
		}},
		{"what is missing beside workers of others", OrchestratorOptions{MinWorkers: 3, MaxWorkers: 3}, []pollStep{
			{0, master("ready", 0, "foreign"), 2 + 1}, // the foreign one counts as about to end
			{5 * s, master("ready", 0, "foreign", "w0", "w1", "w2"), 0},
		}},
		{"a successor for a worker of a former orchestrator", OrchestratorOptions{}, []pollStep{
			{0, master("running", 20, "a", "b"), 2},
			{5 * s, master("running", 20, "a", "b", "w0", "w1"), 0},
			{10 * s, master("running", 20, "w0", "w1"), 0},
		}},
		{"none for workers that join later by themselves", OrchestratorOptions{}, []pollStep{
			{0, master("running", 10), 1},
			{5 * s, master("running", 30, "w0", "a", "b"), 8}, // for 80 more users within the lead
		}},
		{"successors at 80 % of the lifetime", OrchestratorOptions{MinWorkers: 2, MaxWorkers: 2}, []pollStep{
			{0, master("running", 20), 2},
			{5 * s, master("running", 20, "w0", "w1"), 0},
			{239 * s, master("running", 20, "w0", "w1"), 0},
			{240 * s, master("running", 20, "w0", "w1"), 2},
			{245 * s, master("running", 20, "w0", "w1", "w2"), 0},
			{250 * s, master("running", 20, "w0", "w1", "w2", "w3"), 0},
			{271 * s, master("running", 20, "w2", "w3"), 0},
		}},
		{"no successors for more workers than are needed", OrchestratorOptions{}, []pollStep{
			{0, master("running", 40), 4},
			{5 * s, master("running", 40, names(4)...), 0},
			{240 * s, master("running", 10, names(4)...), 1},
		}},
		{"no second set when the master restarts", OrchestratorOptions{MinWorkers: 4, MaxWorkers: 4}, []pollStep{
			{0, master("running", 40), 4},
			{5 * s, master("running", 40, names(4)...), 0},
			{60 * s, nil, 0},
			{65 * s, nil, 0},
			{70 * s, master("ready", 0), 0},
			{75 * s, master("ready", 0, "w1", "w3"), 0},
			{80 * s, master("ready", 0, names(4)...), 0},
			{240 * s, master("running", 40, names(4)...), 4}, // their age is not forgotten
		}},
		{"a replacement for a worker that died", OrchestratorOptions{MinWorkers: 2, MaxWorkers: 2}, []pollStep{
			{0, master("ready", 0), 2},
			{5 * s, master("ready", 0, "w0", "w1"), 0},
			{
				60 * s,
				&MasterStats{
					State:   "ready",
					Workers: []MasterWorker{{ID: "w0", State: "ready"}, {ID: "w1", State: "missing"}},
				},
				0,
			},
			{
				76 * s,
				&MasterStats{
					State:   "ready",
					Workers: []MasterWorker{{ID: "w0", State: "ready"}, {ID: "w1", State: "missing"}},
				},
				1,
			},
		}},
		{"the minimum before the master responds, once", OrchestratorOptions{MinWorkers: 2}, []pollStep{
			{0, nil, 2},
			{5 * s, nil, 0},
			{10 * s, master("ready", 0, "w0"), 0},
			{15 * s, nil, 0},
			{20 * s, master("ready", 0, "w0", "w1"), 0},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, err := NewOrchestrator(&test.opts)
			if err != nil {
				t.Fatal(err)
			}
			invoked := 0
			for _, step := range test.steps {
				now := start.Add(step.at)
				d := o.Poll(now, step.master)
				if d.Invoke != step.want {
					t.Fatalf("at %v: %+v; want to invoke %d", step.at, d, step.want)
				}
				for range d.Invoke {
					o.Invoked(now, fmt.Sprint("w", invoked))
					invoked++
				}
			}
		})
	}
}

func TestOrchestratorEndsWhenIdle(t *testing.T) {
	o, err := NewOrchestrator(&OrchestratorOptions{IdleTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		at   time.Duration
		m    *MasterStats
		done bool
	}{
		{0, master("ready", 0), false},
		{59 * time.Second, master("ready", 0), false},
		{60 * time.Second, master("running", 1), false},
		{100 * time.Second, master("spawning", 1), false},
		{159 * time.Second, master("stopped", 0), false},
		{159 * time.Second, nil, false},
		{160 * time.Second, master("stopped", 0), true},
		{161 * time.Second, nil, true},
	} {
		if d := o.Poll(start.Add(step.at), step.m); d.Done != step.done {
			t.Errorf("at %v: %+v; want done %v", step.at, d, step.done)
		}
	}
}

func TestOrchestratorRejectsOptions(t *testing.T) {
	for _, o := range []OrchestratorOptions{
		{UsersPerWorker: -1},
		{MinWorkers: -1},
		{MaxWorkers: -1},
		{MinWorkers: 5, MaxWorkers: 4},
		{Replacement: 1.5},
		{Replacement: math.NaN()},
		{Lifetime: -1},
		{PendingTimeout: -1},
		{IdleTimeout: -1},
	} {
		if _, err := NewOrchestrator(&o); !isInvalid(err) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// The loop polls every five seconds, gives each worker its deadline, survives
// failures of the master and of invocations, and ends when idle.
func TestOrchestrate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, polls, deadlines := time.Now(), 0, []time.Duration{}
		var failed []error
		err := Orchestrate(t.Context(), OrchestrateOptions{
			OrchestratorOptions: OrchestratorOptions{MinWorkers: 2, IdleTimeout: time.Minute},
			Stats: func(context.Context) (MasterStats, error) {
				polls++
				switch {
				case polls == 1:
					return MasterStats{}, errors.New("no master yet")
				case polls < 5:
					return *master("running", 20, "w0"), nil
				}
				return *master("stopped", 0, "w0", "w1"), nil
			},
			Invoke: func(_ context.Context, deadline time.Time) (string, error) {
				if len(deadlines) == 1 && polls == 1 {
					return "", errors.New("throttled")
				}
				deadlines = append(deadlines, time.Until(deadline))
				return fmt.Sprint("w", len(deadlines)-1), nil
			},
			Report: func(_ Decision, err error) {
				if err != nil {
					failed = append(failed, err)
				}
			},
		})
		if took := time.Since(began); err != nil || took != 75*time.Second {
			t.Errorf("%v after %v; want the end after a minute without a test", err, took)
		}
		if len(deadlines) != 2 || deadlines[0] != 30*time.Second {
			t.Errorf("workers were invoked with the deadlines %v; want two of 30 s", deadlines)
		}
		if len(failed) != 1 || failed[0].Error() != "no master yet\nthrottled" {
			t.Errorf("it reported %q", failed)
		}
	})
}

func TestOrchestrateEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		invoked := 0
		err := Orchestrate(ctx, OrchestrateOptions{
			Stats: func(ctx context.Context) (MasterStats, error) { return *master("running", 10), ctx.Err() },
			Invoke: func(context.Context, time.Time) (string, error) {
				invoked++
				return "", nil
			},
		})
		if !errors.Is(err, context.DeadlineExceeded) || invoked != 1 {
			t.Errorf("%v after %d invocations", err, invoked)
		}
	})
}
