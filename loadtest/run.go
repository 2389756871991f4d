package loadtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// spawnInterval is the time between two changes of the number of users.
const spawnInterval = 50 * time.Millisecond

// localTest is a test in this process.
type localTest struct {
	opts       Options
	swarm      *Swarm
	statistics *Statistics
	auditor    *auditor
	open       *arrivals // nil in the closed model

	begin     time.Time // when the users started
	cpu       time.Duration
	used      Usage
	last      map[rowKey]int64 // requests of the last report
	lastTotal int64
	lastTime  time.Duration
	points    []Point
	stopped   atomic.Bool // from the end of the load on, users returns lastUsers
	lastUsers int
	cancelled bool // whether tasks were cancelled at the end
}

// Run runs a scenario on a store: setup, users, teardown. When ctx ends, Run
// stops the users and returns the result up to then and a nil error. The test
// has a namespace of its own, which Run removes. After an error of the teardown,
// the result is complete.
func Run(ctx context.Context, repo limiter.Repository, s Scenario, opts *Options) (Result, error) {
	o, shape, err := opts.withDefaults(s)
	if err != nil {
		return Result{}, err
	}
	if s, err = s.Select(o.Classes); err != nil {
		return Result{}, err
	}

	t := &localTest{opts: o, statistics: NewStatistics(), auditor: newAuditor(o.Slack), last: map[rowKey]int64{}}
	t.swarm, err = NewSwarm(repo, s, &SwarmOptions{
		ID: o.ID, Seed: o.Seed, Getenv: o.Getenv, Record: t.statistics.Record,
	})
	if err != nil {
		return Result{}, err
	}
	t.swarm.wrap = t.auditor.wrap

	result := Result{Scenario: s.Name}
	o.Phase(PhaseSetup)

	if err = t.swarm.Setup(ctx); err == nil {
		err = t.run(ctx, shape)
		result.Snapshot, result.Points = t.snapshot(true), t.points
		result.Promise, result.Cancelled = t.auditor.promise(), t.cancelled
	}

	// An interrupt during the setup ends the test as one during the load does.
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}

	return result, t.teardown(ctx, err)
}

// teardown removes the namespace and adds its error to that of the test.
func (t *localTest) teardown(ctx context.Context, err error) error {
	t.opts.Phase(PhaseTeardown)

	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.opts.TeardownTimeout)
	defer cancel()
	left := t.swarm.Teardown(last)

	// A setup that could not register the namespace fails for the same reason
	// as its removal.
	if err != nil && t.swarm.nsID == "" {
		return err
	}
	return errors.Join(err, left)
}

// run runs the users until the test ends and waits for their tasks.
func (t *localTest) run(ctx context.Context, shape Shape) error {
	t.begin, t.cpu = time.Now(), cpuTime()

	if t.opts.Meter != nil {
		t.used = t.opts.Meter()
	}

	t.opts.Phase(PhaseRunning)
	running, cancel := context.WithTimeout(ctx, t.opts.Duration)
	defer cancel()

	if t.opts.Rate > 0 {
		t.open = newArrivals(t.swarm, t.opts.Rate, t.opts.Users)
	}

	ended := make(chan struct{})
	var monitor sync.WaitGroup
	monitor.Go(func() { t.monitor(ended) })

	var err error
	if t.open != nil {
		t.open.generate(running)
	} else {
		err = t.follow(running, shape)
	}

	// The monitor goes on with the number of users before the stop, since they
	// leave while their last tasks end.
	t.lastUsers = t.users()
	t.stopped.Store(true)
	t.opts.Phase(PhaseStopping)

	// The last tasks get their time even if ctx has ended.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.stopTimeout(ctx))
	defer cancel()
	// An interrupt from here on shortens that time.
	defer context.AfterFunc(ctx, func() { time.AfterFunc(interruptedStop, cancel) })()

	if t.open != nil {
		t.open.close()
	}

	t.cancelled = t.swarm.Stop(last) != nil
	close(ended)
	monitor.Wait()

	return err
}

// interruptedStop is how long tasks may take after an interrupt.
const interruptedStop = 2 * time.Second

// stopTimeout returns how long the last tasks may take.
func (t *localTest) stopTimeout(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return min(t.opts.StopTimeout, interruptedStop)
	}
	return t.opts.StopTimeout
}

// follow changes the number of users by the shape until ctx ends.
func (t *localTest) follow(ctx context.Context, shape Shape) error {
	classes := newMix(t.swarm.scenario.Classes)
	tick := time.NewTicker(spawnInterval)
	defer tick.Stop()

	for last := -1; ; {
		if n := shape.UsersAt(time.Since(t.begin)); n != last {
			classes.resize(n)
			if err := t.swarm.Scale(classes.byName(t.swarm.scenario.Classes)); err != nil {
				return err
			}
			last = n
		}

		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// monitor adds a point each second and reports each interval, until the test has
// ended.
func (t *localTest) monitor(ended <-chan struct{}) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	interval := time.NewTicker(t.opts.Interval)
	defer interval.Stop()

	for {
		select {
		case <-ended:
			// The requests since the last full second still belong to the
			// points.
			if p := t.statistics.take(); p.Requests > 0 {
				t.addPoint(p)
			}
			return
		case <-second.C:
			t.addPoint(t.statistics.take())
		case <-interval.C:
			t.opts.Report(t.snapshot(false))
		}
	}
}

func (t *localTest) addPoint(p Point) {
	p.At, p.Users = time.Since(t.begin), t.users()
	t.points = append(t.points, p)
}

// users returns the number of users, or their number before the stop.
func (t *localTest) users() int {
	if t.stopped.Load() {
		return t.lastUsers
	}
	if t.open != nil {
		return t.open.users()
	}

	n := 0
	for _, count := range t.swarm.Users() {
		n += count
	}
	return n
}

// snapshot returns the state of the test. Rates are over the whole test or over
// the time since the last call.
func (t *localTest) snapshot(whole bool) Snapshot {
	elapsed := time.Since(t.begin)
	s := t.statistics.Snapshot(elapsed)
	s.Users = t.users()
	s.CPU = cpuTime() - t.cpu

	if t.opts.Meter != nil {
		used := t.opts.Meter().sub(t.used)
		s.Usage = &used
	}

	if t.open != nil {
		s.Late, s.Waiting = t.open.late.Load(), int64(t.open.waiting())
	}

	if whole {
		return s
	}

	since := (elapsed - t.lastTime).Seconds()
	t.lastTime = elapsed
	for i := range s.Rows {
		row := &s.Rows[i]
		key := rowKey{row.Type, row.Name}
		row.PerSecond = float64(row.Requests-t.last[key]) / since
		t.last[key] = row.Requests
	}

	s.Total.PerSecond = float64(s.Total.Requests-t.lastTotal) / since
	t.lastTotal = s.Total.Requests
	return s
}
