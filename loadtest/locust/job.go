package locust

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

// jobs are calls of the swarm, which take time. They run one after the other
// beside the session, so that heartbeats go on.
type jobs struct {
	queue   []job
	running *job // nil if none
	cancel  context.CancelFunc
	done    chan outcome // buffered, so that a job never waits
}

// job is a call of the swarm.
type job struct {
	kind jobKind
	run  func(ctx context.Context) outcome
}

type jobKind int

const (
	jobScale jobKind = iota
	jobStop
	jobTeardown
)

// outcome says what to send after a job.
type outcome struct {
	state    string // the new state; empty if it stays
	report   bool   // a report precedes the messages
	messages []message
	err      error // ends the session
}

func newJobs() jobs { return jobs{done: make(chan outcome, 1)} }

// enqueue runs a job after the ones before it.
func (j *jobs) enqueue(next job) {
	// Only the newest number of users counts, so it replaces one that waits.
	if n := len(j.queue); n > 0 && next.kind == jobScale && j.queue[n-1].kind == jobScale {
		j.queue[n-1] = next
		return
	}

	j.queue = append(j.queue, next)
	j.startNext()
}

func (j *jobs) startNext() {
	if j.running != nil || len(j.queue) == 0 {
		return
	}

	next := j.queue[0]
	j.queue = j.queue[1:]

	ctx, cancel := context.WithCancel(context.Background())
	j.running, j.cancel = &next, cancel
	go func() { j.done <- next.run(ctx) }()
}

// dropScale ends a running Setup and forgets orders to run users.
func (j *jobs) dropScale() {
	if j.running != nil && j.running.kind == jobScale {
		j.cancel()
	}

	for len(j.queue) > 0 && j.queue[len(j.queue)-1].kind == jobScale {
		j.queue = j.queue[:len(j.queue)-1]
	}
}

// finish sends what a job leaves to send, and starts the next one.
func (s *session) finish(o outcome) error {
	s.cancel()
	s.running = nil
	if o.err != nil {
		return o.err
	}

	if o.state != "" {
		s.state = o.state
	}

	if o.report {
		if err := s.report(); err != nil {
			return err
		}
	}

	for _, m := range o.messages {
		if err := s.link.send(m); err != nil {
			return err
		}
	}

	s.startNext()

	// The order came while the users of the last test were stopping.
	if order := s.deferred; o.state == stateReady && order != nil {
		s.stopping, s.deferred = false, nil
		return s.run(order)
	}

	s.stopping = s.stopping && o.state != stateReady
	return nil
}

// scale runs numbers of users.
func (s *session) scale(counts map[string]int) {
	swarm := s.swarm
	s.enqueue(job{jobScale, func(ctx context.Context) outcome {
		if s.fresh {
			if err := swarm.Setup(ctx); err != nil {
				return setupFailed(ctx, err)
			}
			// Once a test has begun, only jobs use fresh, one after the other.
			s.fresh = false
		}

		if err := swarm.Scale(counts); err != nil {
			return outcome{err: &fatalError{err}}
		}

		users := 0
		for _, n := range counts {
			users += n
		}

		spawned := message{kind: msgSpawned, data: map[string]any{"user_classes_count": counts, "user_count": users}}
		return outcome{state: stateRunning, messages: []message{spawned}}
	}})
}

// setupFailed ends the worker, unless a stop cancelled the setup.
func setupFailed(ctx context.Context, err error) outcome {
	if ctx.Err() != nil {
		return outcome{}
	}
	return outcome{err: &fatalError{err}}
}

// stop ends all users after their tasks, reports, and sends messages.
func (s *session) stop(messages ...message) {
	s.dropScale()
	s.stopping, s.deferred, s.unended = true, nil, ""
	swarm, grace := s.swarm, max(s.stopTimeout, stopGrace)
	// Without a test, the swarm belongs to a test that has ended.
	if s.state == stateReady {
		swarm = nil
	}

	s.enqueue(job{jobStop, func(ctx context.Context) outcome {
		if swarm != nil {
			if err := stopWithin(ctx, swarm, grace); err != nil {
				messages = append(messages, message{
					kind: msgException, data: map[string]any{"msg": err.Error(), "traceback": ""},
				})
			}
		}
		return outcome{state: stateReady, report: true, messages: messages}
	}})
}

func stopWithin(ctx context.Context, swarm Swarm, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err := swarm.Stop(ctx)
	// Tasks that were cancelled count as failed, so the end of the time is no
	// other error.
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// teardown removes the namespace of a test.
func (s *session) teardown(m message) {
	var test testOrder
	swarm, err := Swarm(nil), m.decode(&test)
	if err == nil {
		swarm, err = s.swarmOf(test)
	}

	// The master learns whether the namespace is removed, so this worker need
	// not care.
	if test.ID == s.unended {
		s.unended = ""
	}

	s.enqueue(job{jobTeardown, func(ctx context.Context) outcome {
		result := map[string]any{"id": test.ID, "error": nil}
		if err == nil {
			err = tearDown(ctx, swarm)
		}

		if err != nil {
			result["error"] = err.Error()
		}

		return outcome{messages: []message{{kind: msgTornDown, data: result}}}
	}})
}

// swarmOf returns the swarm of a test. If this worker took no part in it, the
// swarm can only remove the namespace.
func (s *session) swarmOf(test testOrder) (Swarm, error) {
	switch {
	case test.ID == "" || s.Scenario != "" && test.Scenario != s.Scenario:
		return nil, fmt.Errorf("this worker has no test %q of scenario %q", test.ID, test.Scenario)
	case s.swarm != nil && test.ID == s.current:
		return s.swarm, nil
	}

	return s.open(Test{ID: test.ID, Worker: s.ID, Record: func(loadtest.Event) {}})
}

func tearDown(ctx context.Context, swarm Swarm) error {
	ctx, cancel := context.WithTimeout(ctx, tearLimit)
	defer cancel()
	return swarm.Teardown(ctx)
}

// abandon stops the users when a session ends. It returns after grace and
// cancelGrace at the latest. The function that it returns waits for the rest: a
// teardown that runs, and tasks that ignore their end.
func (s *session) abandon(grace time.Duration) (rest func()) {
	s.queue = nil
	s.dropScale()
	swarm, idle := s.swarm, s.state == stateReady

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if s.running != nil && s.running.kind != jobTeardown {
			// The running job may be a stop with a longer grace.
			defer time.AfterFunc(grace, s.cancel).Stop()
			<-s.done
		}

		if swarm != nil && !idle {
			_ = stopWithin(context.Background(), swarm, grace)
		}
	}()

	wait(stopped, grace+cancelGrace)
	return func() {
		wait(stopped, stopGrace)
		if s.running == nil {
			return
		}
		if s.running.kind == jobTeardown {
			<-s.done
		}
		s.cancel()
	}
}

// wait waits for a channel to be closed, but not longer than limit.
func wait(closed <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}
