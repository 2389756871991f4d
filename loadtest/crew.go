package loadtest

import (
	"container/heap"
	"sync"
	"time"
)

// maxIdle is the number of goroutines that wait for a user to run.
const maxIdle = 64

// crew runs users on few goroutines, so that many users fit into little memory:
// a user that waits is an entry of a heap. There are as many goroutines as users
// that are inside a call, and a few more. A goroutine that takes a user starts at
// most one other, for the users that are due; if calls do not block, few
// goroutines run all of them.
type crew struct {
	mu       sync.Mutex
	waiting  wakeups
	alarm    *time.Timer // for the first of waiting
	due      []*runner
	idle     int
	free     *sync.Cond // idle goroutines wait for it
	starting bool       // a goroutine is about to take a user
	ending   bool
	all      sync.WaitGroup
}

func newCrew() *crew {
	c := new(crew)
	c.free = sync.NewCond(&c.mu)
	return c
}

// start makes a user due.
func (c *crew) start(r *runner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = append(c.due, r)
	c.hire()
}

// hire makes sure that a goroutine takes the next user. The caller holds c.mu.
func (c *crew) hire() {
	// The goroutine that is about to take a user hires the next one itself.
	if len(c.due) == 0 || c.starting {
		return
	}

	c.starting = true
	if c.idle > 0 {
		c.free.Signal()
		return
	}
	c.all.Go(c.work)
}

// work runs users until enough goroutines are idle or the crew ends.
func (c *crew) work() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starting = false

	for {
		for len(c.due) == 0 {
			if c.ending || c.idle >= maxIdle {
				return
			}
			c.idle++
			c.free.Wait()
			c.idle--
			c.starting = false
		}

		r := c.due[0]
		c.due[0] = nil
		c.due = c.due[1:]

		// The call of this user may block, so another goroutine takes the users
		// that are due.
		c.hire()
		c.mu.Unlock()
		pause, more := r.run()
		c.mu.Lock()

		// A user that was stopped during its task ends here, since stop ends
		// only users that wait.
		if more && !r.stopped.Load() {
			c.sleep(r, pause)
		} else {
			r.swarm.done.Done()
		}
	}
}

// sleep makes a user due after a pause. The caller holds c.mu.
func (c *crew) sleep(r *runner, pause time.Duration) {
	r.wakeAt = time.Now().Add(pause)
	heap.Push(&c.waiting, r)
	// An earlier wake-up comes first, and its alarm is set.
	if r.place > 0 {
		return
	}

	if c.alarm == nil {
		c.alarm = time.AfterFunc(pause, c.wake)
	} else {
		c.alarm.Reset(pause)
	}
}

// wake makes all users due whose pause is over.
func (c *crew) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()

	now := time.Now()
	for len(c.waiting) > 0 && !c.waiting[0].wakeAt.After(now) {
		r, _ := heap.Pop(&c.waiting).(*runner)
		c.due = append(c.due, r)
	}

	if len(c.waiting) > 0 {
		c.alarm.Reset(c.waiting[0].wakeAt.Sub(now))
	}

	c.hire()
}

// stop ends a user after its current task, or at once if it waits.
func (c *crew) stop(r *runner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.stopped.Store(true)
	if r.place >= 0 {
		heap.Remove(&c.waiting, r.place)
		r.swarm.done.Done()
	}
}

// end ends the idle goroutines. All users must have ended. The crew can run users
// again afterwards.
func (c *crew) end() {
	c.mu.Lock()
	c.ending = true
	if c.alarm != nil {
		c.alarm.Stop()
	}
	c.free.Broadcast()
	c.mu.Unlock()

	c.all.Wait()
	c.mu.Lock()
	c.ending = false
	c.mu.Unlock()
}

// wakeups is a heap of users by the end of their pause.
type wakeups []*runner

func (w wakeups) Len() int           { return len(w) }
func (w wakeups) Less(i, j int) bool { return w[i].wakeAt.Before(w[j].wakeAt) }

func (w wakeups) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].place, w[j].place = i, j
}

// Push adds a user at the end.
func (w *wakeups) Push(x any) {
	r, _ := x.(*runner)
	r.place = len(*w)
	*w = append(*w, r)
}

// Pop removes the last user.
func (w *wakeups) Pop() any {
	last := len(*w) - 1
	r := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	r.place = -1
	return r
}
