package loadtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// runner runs the tasks of one user. While the user waits, it needs no goroutine
// but a timer, so that many users fit into little memory.
type runner struct {
	swarm   *Swarm
	class   *Class
	user    User
	started bool
	total   int // the sum of the weights of the tasks

	mu      sync.Mutex
	timer   *time.Timer // armed while the user waits
	waiting bool
	stopped bool
}

// newRunner returns a user of a class. The caller holds w.mu.
func (w *Swarm) newRunner(c *Class) *runner {
	number := w.next
	w.next++
	seed := w.opts.Seed ^ uint64(hash32(w.opts.Worker))<<32
	s := &session{limiter: w.limiter, record: w.opts.Record, stopped: func() bool { return w.ctx.Err() != nil }}
	r := &runner{swarm: w, class: c}
	r.user = User{
		Client: &Client{session: s}, Test: w.test, Class: c.Name, Number: number,
		Rand: rand.New(rand.NewPCG(seed, uint64(number))), //nolint:gosec // load is no secret
	}
	for _, t := range c.Tasks {
		r.total += weight(t.Weight)
	}
	return r
}

// weight returns a configured weight, in which 0 means 1.
func weight(n int) int { return max(1, n) }

// ID returns prefix and 8 hexadecimal digits that follow from the test, the
// process and the number of the user. Within a process no two users have the
// same.
func (u *User) ID(prefix string) string {
	key := hash32(u.Test.ID, u.Test.Worker)
	return fmt.Sprintf("%s-%08x", prefix, permute(uint32(u.Number)^key)) //nolint:gosec // numbers of users are small
}

// SharedID returns prefix and 8 hexadecimal digits that are equal in all
// processes of the test.
func (t *Test) SharedID(prefix string) string {
	return fmt.Sprintf("%s-%08x", prefix, permute(hash32(t.ID)))
}

// permute maps each number to another. Its steps can be undone, so that no two
// numbers have the same result.
func permute(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x7feb352d
	x ^= x >> 15
	x *= 0x846ca68b
	return x ^ x>>16
}

// run starts the user and runs its tasks until it has to wait or stop.
func (r *runner) run() {
	for !r.isStopped() {
		pause := r.step()
		if pause > 0 && r.wait(pause) {
			return // the timer calls run
		}
	}
	r.swarm.done.Done()
}

// step starts the user or runs one task. It returns the time until the next.
func (r *runner) step() time.Duration {
	ctx := r.swarm.ctx
	if !r.started {
		if err := r.start(ctx); err != nil {
			return time.Second
		}
	}
	r.runTask(ctx)
	return r.pause()
}

func (r *runner) start(ctx context.Context) error {
	if r.class.Start != nil {
		if err := r.class.Start(ctx, &r.user); err != nil {
			r.reportError("start", err)
			return err
		}
	}
	r.started = true
	return nil
}

// runTask runs a task chosen by weight.
func (r *runner) runTask(ctx context.Context) {
	task := r.pick()
	if err := task.Run(ctx, &r.user); err != nil {
		r.reportError(task.Name, err)
	}
	r.user.intended = time.Time{} // a task without a call
	r.swarm.ended.Add(1)
}

func (r *runner) pick() *Task {
	tasks := r.class.Tasks
	if len(tasks) == 1 {
		return &tasks[0]
	}
	n := r.user.Rand.IntN(r.total)
	for i := range tasks {
		if n -= weight(tasks[i].Weight); n < 0 {
			return &tasks[i]
		}
	}
	return &tasks[len(tasks)-1]
}

// reportError reports an error of a task or start, unless a call reported it.
func (r *runner) reportError(name string, err error) {
	if !r.user.counted(err) && r.swarm.ctx.Err() == nil {
		r.swarm.opts.Record(Event{Type: TaskError, Name: name, At: time.Now(), Err: &taskError{err}})
	}
}

// taskError marks the error of a task.
type taskError struct{ err error }

func (e *taskError) Error() string { return e.err.Error() }
func (e *taskError) Unwrap() error { return e.err }

// pause returns the time until the next task.
func (r *runner) pause() time.Duration {
	if r.class.Pause != nil {
		return r.class.Pause(&r.user)
	}
	w := r.class.Wait
	if w.Max <= w.Min {
		return w.Min
	}
	return w.Min + time.Duration(r.user.Rand.Int64N(int64(w.Max-w.Min)+1))
}

// wait arms the timer that continues the user. It reports false if the user was
// stopped.
func (r *runner) wait(d time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return false
	}
	r.waiting = true
	if r.timer == nil {
		r.timer = time.AfterFunc(d, r.wake)
	} else {
		r.timer.Reset(d)
	}
	return true
}

// wake continues the user after a wait, unless it was stopped at the same time.
func (r *runner) wake() {
	r.mu.Lock()
	mine := r.waiting
	r.waiting = false
	r.mu.Unlock()
	if mine {
		r.run()
	}
}

func (r *runner) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// end stops the user after its current task, or at once if it waits.
func (r *runner) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	if r.waiting {
		r.waiting = false
		r.timer.Stop()
		r.swarm.done.Done()
	}
}
