package loadtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// runner runs the tasks of one user.
type runner struct {
	swarm   *Swarm
	class   *Class
	user    User
	started bool
	stopped atomic.Bool
	wakeAt  time.Time // the end of its pause
	// place is the index in the heap of the crew, or -1 while the user does not
	// wait.
	place int
}

// newRunner returns a user of a class. The caller holds w.mu.
func (w *Swarm) newRunner(c *Class) *runner {
	number := w.next
	w.next++

	// The workers of a test share its seed, but their users must not make the
	// same choices.
	seed := w.opts.Seed ^ uint64(hash32(w.opts.Worker))<<32
	s := &session{limiter: w.limiter, record: w.opts.Record, stopped: func() bool { return w.ctx.Err() != nil }}

	r := &runner{swarm: w, class: c, place: -1}
	r.user = User{
		Client: &Client{session: s}, Test: w.test, Class: c.Name, Number: number,
		Rand: rand.New(rand.NewPCG(seed, uint64(number))), //nolint:gosec // load is no secret
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

// run starts the user and runs its tasks until it has to wait, and returns for
// how long. It reports false if the user was stopped.
func (r *runner) run() (pause time.Duration, more bool) {
	for !r.stopped.Load() {
		if pause = r.step(); pause > 0 {
			return pause, true
		}
	}
	return 0, false
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
	// A task that made no call leaves its intended start behind, which must not
	// count for the next task.
	r.user.intended = time.Time{}
	r.swarm.ended.Add(1)
}

func (r *runner) pick() *Task {
	tasks := r.class.Tasks
	if len(tasks) == 1 {
		return &tasks[0]
	}

	return &tasks[choose(r.user.Rand, len(tasks), func(i int) int { return tasks[i].Weight })]
}

// choose returns the index of one of n choices at random, by their weights.
func choose(random *rand.Rand, n int, weightOf func(int) int) int {
	total := 0
	for i := range n {
		total += weight(weightOf(i))
	}

	at := random.IntN(total)
	for i := range n {
		if at -= weight(weightOf(i)); at < 0 {
			return i
		}
	}
	return 0
}

// reportError reports an error of a task or start, unless a call reported it.
func (r *runner) reportError(name string, err error) {
	// The end of the test cancels tasks, which is no failure of theirs.
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
