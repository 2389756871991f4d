package sqlite

import (
	"sync/atomic"
	"time"
)

// job is one call of the writer. Its caller waits until done is closed, or leaves
// when its context ends. A caller that leaves after the work began does not know
// what became of it, so work must not share memory with its caller.
type job struct {
	began time.Time
	now   int64 // the caller's, in milliseconds
	work  func(*tx) error
	alone bool         // shares no transaction any more, since one that it shared failed
	state atomic.Int32 // waiting, running or left
	err   error        // set before done is closed
	done  chan struct{}
}

const (
	waiting int32 = iota
	running
	left
)

// claim begins the job. It reports false if the caller has left.
func (j *job) claim() bool { return j.state.CompareAndSwap(waiting, running) }

// again puts the job back after its transaction failed, to be run alone.
func (j *job) again() {
	j.alone = true
	j.state.CompareAndSwap(running, waiting)
}

// leave is the caller's way out. It reports whether the job has written nothing
// and never will.
func (j *job) leave() bool { return j.state.Swap(left) == waiting }

// finish answers jobs; err, if any, goes for all.
func finish(batch []*job, err error) {
	for _, j := range batch {
		if err != nil {
			j.err = err
		}
		close(j.done)
	}
}
