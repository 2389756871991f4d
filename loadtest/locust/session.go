package locust

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/zeroae/zae-limiter-go/loadtest"
)

// States of a worker, as Locust spells them.
const (
	stateReady    = "ready"
	stateSpawning = "spawning"
	stateRunning  = "running"
)

// session is one connection to a master. Its goroutine sends everything and
// changes all fields. Another one receives, and one more runs the current job.
type session struct {
	*worker
	name  string // under which the master knows this worker
	link  link
	inbox chan received
	over  chan struct{} // closed when follow has ended, so that nothing reads inbox

	state       string
	test        testOrder // what the master announced, or empty
	lastSpawn   float64   // the timestamp of the newest spawn order
	stopTimeout time.Duration
	resetStats  bool
	fresh       bool        // the swarm needs its Setup
	stopping    bool        // a stop is under way
	deferred    *spawnOrder // the order that arrived during the stop
	quitting    bool        // the master said quit
	silence     *time.Timer
	jobs
}

type received struct {
	message
	err error
}

// session connects to the master and follows it until it says quit or ctx ends,
// which return nil, or until the connection is lost. No user runs afterwards.
func (w *worker) session(ctx context.Context) error {
	// The last attempt ends with the time to give up, but has a moment of its
	// own.
	limit := min(w.Silence, max(w.GiveUp-time.Since(w.contact), retryPause))
	dialing, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	name := loadtest.WorkerAgain(w.ID, w.opened+1)
	l, err := w.dial(dialing, name)
	if err != nil {
		return err
	}

	w.opened++
	s := &session{
		worker: w, name: name, link: l, inbox: make(chan received), over: make(chan struct{}),
		state: stateReady, jobs: newJobs(),
	}

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.read()
	}()

	err = s.end(s.follow(ctx, limit)) //nolint:contextcheck // users stop in order after ctx has ended
	// The reader may hold a message that follow did not take.
	close(s.over)
	err = errors.Join(err, l.close())
	<-ended

	w.names = append(w.names, name)

	// After an interrupt or the end of the test, a failure has no consequence.
	if s.quitting || ctx.Err() != nil {
		return nil
	}
	return err
}

// read receives until the link fails.
func (s *session) read() {
	for {
		m, err := s.link.receive()
		select {
		case s.inbox <- received{m, err}:
		case <-s.over:
			return
		}

		// The link remains usable after garbage.
		if _, garbage := errors.AsType[*garbageError](err); err != nil && !garbage {
			return
		}
	}
}

// follow announces the worker and does what the master says. It returns nil if
// the master says quit or ctx ends. The master has to answer within limit.
func (s *session) follow(ctx context.Context, limit time.Duration) error {
	heartbeat, report := time.NewTicker(s.HeartbeatInterval), time.NewTicker(s.ReportInterval)
	defer heartbeat.Stop()
	defer report.Stop()
	s.silence = time.NewTimer(limit)
	defer s.silence.Stop()

	if err := s.link.send(message{kind: msgReady, data: Version}); err != nil {
		return err
	}

	for !s.quitting {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case r := <-s.inbox:
			err = s.handle(r) //nolint:contextcheck // jobs have contexts of their own, which end with the session
		case o := <-s.done:
			err = s.finish(o) //nolint:contextcheck // as above
		case <-heartbeat.C:
			err = s.beat()
		case <-report.C:
			err = s.report()
		case <-s.silence.C:
			err = fmt.Errorf("no heartbeat for %v", s.Silence)
		}

		if err != nil {
			return err
		}
	}
	return nil
}

// end stops the users after follow. Unless the connection is lost, it sends the
// last report and takes leave.
func (s *session) end(err error) error {
	grace := stopGrace
	if s.quitting {
		grace = quitGrace
	}

	// The last report does not wait for tasks that ignore the end of their
	// context.
	rest := s.abandon(grace)
	defer rest()
	fatal, isFatal := errors.AsType[*fatalError](err)
	if err != nil && !isFatal {
		return err
	}

	var failed error
	if isFatal {
		failed = s.sendException(fatal.Error())
	}

	return errors.Join(err, failed, s.report(), s.link.send(message{kind: msgQuit}))
}

// beat sends a heartbeat.
func (s *session) beat() error {
	percent, memory := s.usage.read()
	return s.link.send(message{kind: msgHeartbeat, data: map[string]any{
		"state": s.state, "current_cpu_usage": percent, "current_memory_usage": memory,
	}})
}

// report sends the statistics since the last report and the numbers of users. If
// that fails, the next report has them.
func (s *session) report() error {
	rep := s.stats.take()
	rep.Counts, rep.Users = s.counts()
	if err := s.link.send(message{kind: msgStats, data: rep}); err != nil {
		s.stats.restore(rep)
		return err
	}
	s.totals.Requests += rep.Total.Requests
	s.totals.Failures += rep.Total.Failures
	return nil
}

// counts returns the number of users by class and in all. Every class is in it,
// also without users.
func (s *session) counts() (byClass map[string]int, users int) {
	byClass = map[string]int{}
	for _, class := range s.Classes {
		byClass[class] = 0
	}

	if s.swarm == nil || s.state == stateReady {
		return byClass, 0
	}

	for class, n := range s.swarm.Users() {
		byClass[class] = n
		users += n
	}
	return byClass, users
}

// sendException shows a text on the master's page.
func (s *session) sendException(text string) error {
	return s.link.send(message{kind: msgException, data: map[string]any{"msg": text, "traceback": ""}})
}

// usage measures this process for heartbeats.
type usage struct {
	at  time.Time
	cpu time.Duration
}

func newUsage() *usage { return &usage{time.Now(), loadtest.CPUTime()} }

// read returns the share of the cores that the process used since the last call,
// in percent, and its memory in bytes. Locust's own workers have one core, and
// the master warns above 90 %, so all cores together count as 100 %.
func (u *usage) read() (percent float64, memory uint64) {
	now, cpu := time.Now(), loadtest.CPUTime()
	if elapsed := now.Sub(u.at) * time.Duration(runtime.GOMAXPROCS(0)); elapsed > 0 {
		percent = math.Round(1000*float64(cpu-u.cpu)/float64(elapsed)) / 10
	}
	u.at, u.cpu = now, cpu
	return percent, residentMemory()
}

// residentMemory returns what the Go runtime holds and has not given back.
func residentMemory() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
