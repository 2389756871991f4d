package loadtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// world simulates a master and its workers, one second at a time.
type world struct {
	opts    OrchestratorOptions
	rand    *rand.Rand
	now     time.Time
	workers []*simulated
	down    int // seconds until the master responds again
	users   int
	invoked int
}

// simulated is a worker that was invoked.
type simulated struct {
	id        string
	invokedAt time.Time
	connects  time.Time // when it connects, or connects again
	ends      time.Time
}

// invoke starts a worker. Some are slow, and some never start. A slow one finds
// its deadline passed, and ends without a connection.
func (w *world) invoke(slow bool) string {
	w.invoked++
	s := &simulated{id: fmt.Sprint("w", w.invoked), invokedAt: w.now, ends: w.now.Add(w.opts.Lifetime * 9 / 10)}
	delay := time.Duration(1+w.rand.IntN(8)) * time.Second
	if slow && w.rand.IntN(4) == 0 {
		delay = time.Duration(20+w.rand.IntN(60)) * time.Second
	}
	s.connects = w.now.Add(delay)
	if delay > w.opts.PendingTimeout || slow && w.rand.IntN(20) == 0 {
		return s.id // it never connects
	}
	w.workers = append(w.workers, s)
	return s.id
}

// step moves the time by a second: workers end at their time or die.
func (w *world) step(deaths bool) {
	w.now = w.now.Add(time.Second)
	w.down = max(0, w.down-1)
	var left []*simulated
	for _, s := range w.workers {
		if w.now.Before(s.ends) && (!deaths || w.rand.IntN(2000) > 0) {
			left = append(left, s)
		}
	}
	w.workers = left
}

// restart restarts the master. Its workers notice that and connect again.
func (w *world) restart() {
	w.down = 1 + w.rand.IntN(5)
	for _, s := range w.workers {
		if s.connects.Before(w.now) {
			s.connects = w.now.Add(time.Duration(w.down+w.rand.IntN(6)) * time.Second)
		}
	}
}

// stats returns what the master answers, or nil while it is down.
func (w *world) stats() *MasterStats {
	if w.down > 0 {
		return nil
	}
	m := master("running", w.users)
	for _, s := range w.workers {
		if !s.connects.After(w.now) {
			m.Workers = append(m.Workers, MasterWorker{ID: s.id, State: "running"})
		}
	}
	return m
}

// young returns the number of workers that are not about to be replaced.
func (w *world) young() (n int) {
	for _, s := range w.workers {
		if w.now.Sub(s.invokedAt) < time.Duration(w.opts.Replacement*float64(w.opts.Lifetime)) {
			n++
		}
	}
	return n
}

// In random histories of slow starts, deaths, changes of the load and restarts of
// the master, there are never more workers than the maximum besides those that
// are about to end. When the disturbances end, there are as many as needed, and
// it stays so over the replacement of all workers.
func TestOrchestratorSimulation(t *testing.T) {
	for seed := range uint64(100) {
		opts, err := OrchestratorOptions{MinWorkers: 2, MaxWorkers: 20}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		w := &world{opts: opts, rand: rand.New(rand.NewPCG(seed, 1)), now: start, users: 100}
		o := &Orchestrator{opts: opts}
		poll := func(slow bool) {
			for range o.Poll(w.now, w.stats()).Invoke {
				o.Invoked(w.now, w.invoke(slow))
			}
		}
		const disturbed, calm = 900, 700
		for second := range disturbed + calm {
			wild := second < disturbed
			if wild && w.rand.IntN(200) == 0 {
				w.restart()
			}
			if wild && w.rand.IntN(60) == 0 {
				w.users = w.rand.IntN(400)
			}
			if second%5 == 0 {
				poll(wild)
			}
			w.step(wild)
			if n := w.young(); n > opts.MaxWorkers {
				t.Fatalf("seed %d, second %d: %d workers at once, want at most %d", seed, second, n, opts.MaxWorkers)
			}
			need := o.clamp(ceilDiv(float64(w.users), opts.UsersPerWorker))
			if have := len(w.stats().connected()); second > disturbed+100 && have < need {
				t.Fatalf("seed %d, second %d: %d workers for %d users, want %d", seed, second, have, w.users, need)
			}
		}
		if n, need := len(w.workers), o.clamp(ceilDiv(float64(w.users), opts.UsersPerWorker)); n > 2*need {
			t.Errorf("seed %d: %d workers are left for %d", seed, n, need)
		}
	}
}

func (m *MasterStats) connected() []string {
	if m == nil {
		return nil
	}
	return m.Connected()
}
