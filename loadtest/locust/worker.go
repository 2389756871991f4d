package locust

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/loadtest"
)

// Swarm runs the users of this process. A *[loadtest.Swarm] is one. Work calls
// one method at a time, but for Users.
type Swarm interface {
	Setup(ctx context.Context) error
	Teardown(ctx context.Context) error
	Scale(counts map[string]int) error
	Users() map[string]int
	Stop(ctx context.Context) error
}

// Test describes a test that a master starts.
type Test struct {
	// ID is equal in all workers of the test. It is empty if the master's file is
	// not one that File wrote, since such a master names no test.
	ID     string
	Worker string // the identity of this worker
	// Record counts an event. It is safe for concurrent use.
	Record func(loadtest.Event)
}

// Options configures Work. The zero value of a field is its default.
type Options struct {
	// ID identifies the worker at the master. Default: the host's name and a random
	// number. After a lost connection, the worker adds a number to it, since a
	// master miscounts the users of a worker that announces itself twice.
	ID string
	// Scenario is the name of the scenario that this worker runs. A master whose
	// file is for another one is an error. Default: any.
	Scenario string
	// Classes names the classes of users that this worker knows. Users of other
	// classes are reported to the master and not started.
	Classes []string
	// Log, if not nil, is called with one sentence about a connection, a test or a
	// message that is unknown. Calls do not overlap.
	Log func(text string)
	// Left, if not nil, is called with the ID of a test that this worker has left
	// before its end. If no other worker takes part, its namespace stays.
	Left func(test string)

	ReportInterval    time.Duration // between two reports; default 3 s
	HeartbeatInterval time.Duration // between two heartbeats; default 1 s
	// Silence is the time without a heartbeat of the master after which the worker
	// stops its users, connects again and announces itself; default 5 s. It is at
	// most GiveUp, but longer than a heartbeat takes.
	Silence time.Duration
	// GiveUp is the time without a master after which Work removes the namespace of
	// its test and fails; default 60 s. Only heartbeats and orders show that there
	// is a master.
	GiveUp time.Duration

	dial func(ctx context.Context, name string) (link, error) // for tests
}

// Totals counts what a worker has reported.
type Totals struct {
	Requests int64 `json:"requests"`
	Failures int64 `json:"failures"`
}

// Limits of time for ending users.
const (
	retryPause = 250 * time.Millisecond // between two connections
	// quitGrace is for tasks after quit, since the master waits 0.5 s for the
	// last report.
	quitGrace = 300 * time.Millisecond
	// stopGrace is for tasks after stop, unless the master's stop timeout is
	// longer.
	stopGrace = 5 * time.Second
	// cancelGrace is for cancelled tasks, before the last report.
	cancelGrace = 100 * time.Millisecond
	tearLimit   = 2 * time.Minute // for the removal of a namespace
	maxSaid     = 100             // texts that are logged once

	maxStopTimeout = 3600 // seconds
)

// Work runs users as a worker of the Locust master at an address of the form
// host or host:port until the master says quit. For each test it calls open,
// Setup, Scale as often as the master changes the number of users, and Stop. When
// ctx ends, Work stops its users, sends the last report, tells the master, and
// returns nil.
//
// A connection that is lost is opened again. Work fails if it finds no master for
// Options.GiveUp, if open or Setup fails, and if the master's file is for another
// scenario. It leaves no goroutine behind, unless a task ignores the end of its
// context.
func Work(ctx context.Context, master string, open func(Test) (Swarm, error), opts *Options) (Totals, error) {
	w := newWorker(master, open, opts)
	defer w.leaveTest()
	for {
		err := w.session(ctx)
		// An interrupt is no failure.
		if err == nil || ctx.Err() != nil {
			return w.totals, nil
		}

		if fatal, ok := errors.AsType[*fatalError](err); ok {
			return w.totals, fatal.err
		}

		if lost := time.Since(w.contact); lost >= w.GiveUp {
			w.removeTest(ctx)
			return w.totals, fmt.Errorf("no Locust master at %s for %v: %w", w.master, w.GiveUp, err)
		}

		if !w.lost {
			w.lost = true
			w.log("no connection to the Locust master at %s: %v; trying again for %v", w.master, err, w.GiveUp)
		}
		// The end of ctx ends the next session.
		_ = pause.For(ctx, retryPause)
	}
}

// worker is the part of Work that outlives a connection. All fields belong to the
// goroutine of Work.
type worker struct {
	Options
	master  string
	open    func(Test) (Swarm, error)
	stats   *recorder
	usage   *usage
	totals  Totals
	contact time.Time // time of the master's last heartbeat or order
	lost    bool      // a connection has failed since then
	// names are the names under which this worker announced itself on
	// connections that are lost.
	names   []string
	opened  int    // number of connections
	swarm   Swarm  // of the last test; nil before the first
	current string // the ID of its test
	// unended is the ID of the test, if the master has not ended it and its
	// namespace should not stay.
	unended string
	said    map[string]bool // what was logged and need not be repeated
}

func newWorker(master string, open func(Test) (Swarm, error), opts *Options) *worker {
	// The time to give up counts from here until a master responds.
	w := &worker{
		master: withPort(master), open: open, stats: newRecorder(), usage: newUsage(), contact: time.Now(),
		said: map[string]bool{},
	}

	if opts != nil {
		w.Options = *opts
	}

	w.ID = cmp.Or(w.ID, newID())
	w.ReportInterval = cmp.Or(w.ReportInterval, 3*time.Second)
	w.HeartbeatInterval = cmp.Or(w.HeartbeatInterval, time.Second)
	w.Silence = cmp.Or(w.Silence, 5*time.Second)
	w.GiveUp = cmp.Or(w.GiveUp, time.Minute)

	// A silence shorter than a heartbeat takes would end every connection,
	// however short GiveUp is.
	w.Silence = min(w.Silence, max(w.GiveUp, w.HeartbeatInterval*3/2))

	if w.dial == nil {
		w.dial = func(ctx context.Context, name string) (link, error) { return dial(ctx, w.master, name) }
	}
	return w
}

// withPort adds the default port to an address without one.
func withPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(address, DefaultPort)
}

func newID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}

	number := make([]byte, 16)
	_, _ = rand.Read(number) // never fails
	return host + "_" + hex.EncodeToString(number)
}

func (w *worker) log(format string, args ...any) {
	if w.Log != nil {
		w.Log(fmt.Sprintf(format, args...))
	}
}

// logOnce logs a text unless it was logged before.
func (w *worker) logOnce(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); w.firstTime(text) {
		w.log("%s", text)
	}
}

// firstTime reports whether a text is new. After maxSaid texts it always
// reports false, so that a master that makes up texts fills neither the log nor
// the memory.
func (w *worker) firstTime(text string) bool {
	if w.said[text] || len(w.said) >= maxSaid {
		return false
	}
	w.said[text] = true
	return true
}

// fatalError ends Work instead of a connection.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// leaveTest reports the test that this worker leaves before its end.
func (w *worker) leaveTest() {
	if w.unended != "" && w.Left != nil {
		w.Left(w.unended)
	}
	w.unended = ""
}

// removeTest removes the namespace of the test whose master is gone. Other workers
// of the test have lost it, too, and do the same.
func (w *worker) removeTest(ctx context.Context) {
	if w.unended == "" {
		return
	}
	if err := tearDown(ctx, w.swarm); err != nil {
		w.log("the namespace of test %s was not removed: %v", w.unended, err)
		return
	}

	w.log("removed the namespace of test %s, since its master is gone", w.unended)
	w.unended = ""
}
