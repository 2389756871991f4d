package sqlite

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// queuedWrite is a call in the writer's queue. Its caller waits until done is
// closed, or abandons it when its context ends. The work may outlive its caller,
// so it must not share memory with it.
type queuedWrite struct {
	began time.Time
	now   int64 // of the caller, in milliseconds
	work  func(*tx) error
	undo  func(*tx) error // reverts the work if the caller abandoned it; nil if it stays
	alone bool            // gets its own transaction, since a shared one failed
	ran   bool            // the work ran in the last transaction
	state atomic.Int32    // waiting, running, abandoned or finished
	err   error           // set before done is closed
	done  chan struct{}
}

const (
	waiting int32 = iota
	running
	abandoned
	finished
)

// start reports whether the work may run: false if the caller has abandoned it.
func (q *queuedWrite) start() bool { return q.state.CompareAndSwap(waiting, running) }

// requeue returns the write to the queue after its transaction failed. It runs
// alone the next time.
func (q *queuedWrite) requeue() {
	q.alone, q.ran = true, false
	// A write that was abandoned meanwhile stays abandoned.
	q.state.CompareAndSwap(running, waiting)
}

// abandon abandons the write, unless it is finished, and returns the state that it
// had. Work that was waiting never starts afterwards.
func (q *queuedWrite) abandon() int32 {
	for {
		// The writer may requeue the write in the meantime, so this is
		// repeated.
		state := q.state.Load()
		if state == finished || q.state.CompareAndSwap(state, abandoned) {
			return state
		}
	}
}

// finish completes a batch. If err is not nil, every write of it fails with err.
// finish returns the writes that revert what callers left behind.
func finish(batch []*queuedWrite, err error) (undo []*queuedWrite) {
	for _, q := range batch {
		if err != nil {
			q.err = err
		}

		// From here on the write cannot be abandoned. If the caller left before
		// and the commit has stored its work, the work is reverted.
		if left := q.state.Swap(finished) == abandoned; left && q.ran && q.err == nil && q.undo != nil {
			undo = append(undo, newQueuedWrite(q.now, q.undo))
		}

		close(q.done)
	}
	return undo
}

func newQueuedWrite(now int64, work func(*tx) error) *queuedWrite {
	return &queuedWrite{began: time.Now(), now: now, work: work, done: make(chan struct{})}
}

// do queues a write and waits for its commit. If ctx ends first, the work never
// runs, or it is reverted, or the error says that its outcome is unknown.
func (w *writer) do(ctx context.Context, q *queuedWrite) error {
	// The select below chooses at random between a closed writer and a queue
	// with room, so this comes first.
	select {
	case <-w.closing:
		return limiter.ErrClosed
	default:
	}

	select {
	case w.queue <- q:
	case <-w.closing:
		return limiter.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}

	select {
	case <-q.done:
		return q.err
	case <-w.ended:
		// The queue may have taken the write too late for the last batch.
		select {
		case <-q.done: // by the last batch
			return q.err
		default:
			return limiter.ErrClosed
		}
	case <-ctx.Done():
	}

	switch q.abandon() {
	case waiting:
		return ctx.Err()
	case finished: // the result came at the same moment
		<-q.done
		return q.err
	}

	// The work has begun, so the caller can only learn what will become of it.
	fate := "whether the call was stored is unknown"
	if q.undo != nil {
		fate = "what the call stores is reverted"
	}
	return fmt.Errorf("sqlite: %s did not answer in time; %s: %w", w.file.path, fate, ctx.Err())
}

// wait waits for a queued write. It returns false when the writer is closed and
// the queue is empty.
func (w *writer) wait() bool {
	// Writes that run again or revert a call wait here already.
	if len(w.waiting) > 0 {
		return true
	}

	select {
	case q := <-w.queue:
		w.waiting = append(w.waiting, q)
		// Callers that have just got their answer may queue their next call, which then
		// shares this commit.
		runtime.Gosched()
	case <-w.closing:
	}

	w.drain(maxBatch)
	return len(w.waiting) > 0
}

// drain moves writes from the queue to waiting, until limit of them wait.
func (w *writer) drain(limit int) {
	for len(w.waiting) < limit {
		select {
		case q := <-w.queue:
			w.waiting = append(w.waiting, q)
		default:
			return
		}
	}
}

// nextBatch removes the writes of the next transaction from waiting.
func (w *writer) nextBatch() []*queuedWrite {
	n := min(len(w.waiting), maxBatch)

	// A write that has to run alone ends the batch before it. If it comes
	// first, it is the batch.
	if i := slices.IndexFunc(w.waiting[:n], func(q *queuedWrite) bool { return q.alone }); i >= 0 {
		n = max(i, 1)
	}

	// The capacity of the batch ends with it: commit appends to it, which must
	// not overwrite the writes that still wait.
	batch := w.waiting[:n:n]

	// An empty slice would keep the finished writes in memory.
	if w.waiting = w.waiting[n:]; len(w.waiting) == 0 {
		w.waiting = nil
	}

	return batch
}

// reject fails the waiting writes that match, and drops the abandoned ones.
func (w *writer) reject(err error, match func(*queuedWrite) bool) {
	w.waiting = slices.DeleteFunc(w.waiting, func(q *queuedWrite) bool {
		if q.state.Load() == abandoned {
			return true
		}

		if !match(q) {
			return false
		}
		finish([]*queuedWrite{q}, err) // nothing ran
		return true
	})
}
