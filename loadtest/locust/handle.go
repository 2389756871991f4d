package locust

import (
	"errors"
	"fmt"
	"time"
)

// handle does what a message says.
func (s *session) handle(r received) error {
	if garbage, ok := errors.AsType[*garbageError](r.err); ok {
		s.logOnce("ignored a message of the master: %v", garbage)
		return nil
	}

	if r.err != nil {
		return r.err
	}

	switch r.kind {
	case msgAck:
		return s.acknowledged()
	case msgHeartbeat:
		s.alive()
	case msgSpawn:
		return s.spawn(r.message)
	case msgStop:
		s.stop(message{kind: msgStopped}, message{kind: msgReady, data: Version})
	case msgQuit:
		// A master that quits ends its test first, so this worker does not
		// leave it early.
		s.quitting, s.unended = true, ""
	case msgReconnect:
		return errors.New("the master asked for a new connection")
	case msgSpawned:
		// With the option --reset-stats, Locust counts from the time when all
		// users run.
		if s.resetStats {
			s.stats.clear()
		}
	// A worker in Go has no Python classes whose attributes could change.
	case msgUpdateClass:
	default:
		return s.handleOwn(r.message)
	}
	return nil
}

// handleOwn does what a message of our own file says.
func (s *session) handleOwn(m message) error {
	switch m.kind {
	case msgTest:
		return s.announced(m)
	case msgTestStop:
		s.stop(message{kind: msgTestEnded})
	case msgTeardown:
		s.teardown(m)
	default:
		s.logOnce("ignored a message of the master of the unknown type %.50q", m.kind)
	}
	return nil
}

// acknowledged sends quit under the names of lost connections. It does so only
// after an acknowledgement, since a master that has no other worker would end
// the test.
func (s *session) acknowledged() error {
	if s.firstTime(msgAck) {
		s.log("connected to the Locust master at %s as %s", s.master, s.name)
	}

	s.silence.Reset(s.Silence)
	for len(s.names) > 0 {
		if err := s.link.send(message{kind: msgQuit, from: s.names[0]}); err != nil {
			return err
		}
		s.names = s.names[1:]
	}
	return nil
}

// alive restarts the time after which a silent master counts as lost.
func (s *session) alive() {
	if s.lost {
		s.log("connected to the Locust master at %s again as %s", s.master, s.name)
	}
	s.lost = false
	s.contact = time.Now()
	s.silence.Reset(s.Silence)
}

// announced remembers the test that the next spawn order begins.
func (s *session) announced(m message) error {
	var test testOrder
	if err := m.decode(&test); err != nil {
		s.logOnce("ignored a message of the master: %v", err)
		return nil
	}

	if s.Scenario != "" && test.Scenario != s.Scenario {
		return &fatalError{fmt.Errorf(
			"the master at %s runs scenario %q and this worker %q; start both with the same scenario", s.master,
			test.Scenario, s.Scenario,
		)}
	}

	s.test = test
	return s.link.send(message{kind: msgJoined, data: test})
}

// spawn follows an order to run other numbers of users. The first one after a
// stop begins a test.
func (s *session) spawn(m message) error {
	var order spawnOrder
	if err := m.decode(&order); err != nil {
		s.logOnce("ignored a message of the master: %v", err)
		return nil
	}

	if err := s.link.send(message{kind: msgSpawning}); err != nil {
		return err
	}
	s.alive()

	// A newer order has overtaken this one.
	if order.Timestamp <= s.lastSpawn {
		return nil
	}

	s.lastSpawn = order.Timestamp

	// Until the stop has ended, the order would go to the swarm that stops.
	if s.stopping {
		s.deferred = &order
		return nil
	}

	return s.run(&order)
}

// run runs the users of a spawn order.
func (s *session) run(order *spawnOrder) error {
	// The timeout comes from the master, so it is bounded before it becomes a
	// duration.
	s.stopTimeout = time.Duration(min(max(order.StopTimeout, 0), maxStopTimeout) * float64(time.Second))
	s.resetStats = order.Options.ResetStats

	known, err := s.knownClasses(order.Counts)
	if err != nil {
		return err
	}

	if s.state == stateReady {
		if err := s.begin(); err != nil {
			return err
		}
	}

	s.state = stateSpawning
	s.scale(known)
	return nil
}

// begin creates the swarm of a test. Statistics of an earlier test are dropped,
// but a worker that lost its master keeps those that it could not send.
func (s *session) begin() error {
	if s.test.ID == "" || s.test.ID != s.current {
		s.stats.clear()
	}

	swarm, err := s.open(Test{ID: s.test.ID, Worker: s.ID, Record: s.stats.record})
	if err != nil {
		return &fatalError{err}
	}

	// A worker that has lost its master may come back to the same test, which
	// it has not left then.
	if s.unended != s.test.ID {
		s.leaveTest()
	}

	s.swarm, s.current, s.fresh = swarm, s.test.ID, true
	if !s.test.Keep {
		s.unended = s.test.ID
	}
	return nil
}

// knownClasses returns the counts of the classes that this worker has, and
// reports others.
func (s *session) knownClasses(counts map[string]int) (map[string]int, error) {
	known := map[string]int{}
	for _, class := range s.Classes {
		known[class] = max(counts[class], 0)
	}

	for class, n := range counts {
		if _, ok := known[class]; ok || n == 0 {
			continue
		}
		text := fmt.Sprintf("class %.50q: this worker has no such class, but %q", class, s.Classes)
		if !s.firstTime(text) {
			continue
		}

		s.log("%s", text)
		if err := s.sendException(text); err != nil {
			return nil, err
		}
	}

	return known, nil
}
