package loadtest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// lateAfter is how long after its intended start a task counts as late.
const lateAfter = 10 * time.Millisecond

// arrivals begins tasks at times that do not depend on earlier tasks (the open
// model). A task goes to a free user of its class. If none is free, the task
// waits and another user starts, but the latency of the task still counts from
// its intended start.
type arrivals struct {
	swarm *Swarm
	rate  float64
	rand  *rand.Rand
	// limit is the most users that run at once.
	limit int
	late  atomic.Int64

	mu     sync.Mutex
	pools  []*pool
	size   int // number of users
	closed bool

	// dropped counts the tasks that found a full queue and never waited.
	dropped int
}

// maxWaiting bounds the tasks of a class that wait for a user. A rate above
// what the machine can do would otherwise use up its memory. A task beyond the
// bound never begins.
const maxWaiting = 1_000_000

// pool holds the users of one class and the intended starts of tasks that wait
// for one of them.
type pool struct {
	class *Class
	queue []time.Time
	idle  *sync.Cond
	// users is at least 1 once the class has a task, even above the limit, so
	// that no class starves.
	users int
	free  int // users that wait for a task
	begun int // users that have not asked for a first task
}

func newArrivals(w *Swarm, rate float64, limit int) *arrivals {
	// No user has the number 1<<63, so the arrivals share no random sequence
	// with a user.
	//nolint:gosec // load is no secret
	a := &arrivals{swarm: w, rate: rate, limit: limit, rand: rand.New(rand.NewPCG(w.opts.Seed, 1<<63))}

	for i := range w.scenario.Classes {
		c := &w.scenario.Classes[i]
		a.pools = append(a.pools, &pool{class: c, idle: sync.NewCond(&a.mu)})
	}
	return a
}

// generate adds tasks until ctx ends. If it wakes late, it adds the tasks that
// are due with the starts that were intended.
func (a *arrivals) generate(ctx context.Context) {
	next := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}

		// A generator that is behind may have many tasks to add, and must still
		// end with ctx.
		for now := time.Now(); !next.After(now) && ctx.Err() == nil; {
			a.add(next)
			// Independent callers arrive with exponentially distributed gaps.
			// Even gaps would hide the queues that bursts cause.
			next = next.Add(time.Duration(a.rand.ExpFloat64() / a.rate * float64(time.Second)))
		}

		timer.Reset(time.Until(next))
	}
}

// add adds a task of a class chosen by weight, and a user if none is free.
func (a *arrivals) add(intended time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()

	p := a.pools[choose(a.rand, len(a.pools), func(i int) int { return a.pools[i].class.Weight })]
	if len(p.queue) >= maxWaiting {
		a.dropped++
		return
	}

	p.queue = append(p.queue, intended)
	p.idle.Signal()

	// A user that has just started will take a task as a free one does, so both
	// count. Only the first user of a class may exceed the limit.
	if p.free+p.begun >= len(p.queue) || a.size >= a.limit && p.users > 0 {
		return
	}

	a.size++
	p.users++
	p.begun++
	a.swarm.mu.Lock()
	r := a.swarm.newRunner(p.class)
	a.swarm.mu.Unlock()

	a.swarm.done.Go(func() { a.serve(p, r) })
}

// serve runs tasks on a user until the test ends.
func (a *arrivals) serve(p *pool, r *runner) {
	ctx := a.swarm.ctx
	ready := r.start(ctx) == nil

	a.mu.Lock()
	p.begun--
	a.mu.Unlock()

	// A user whose start failed takes no task. The next task of its class
	// starts another user.
	for ready {
		intended, ok := a.next(p)
		if !ok {
			break
		}

		if time.Since(intended) > lateAfter {
			a.late.Add(1)
		}
		r.user.intended = intended
		r.runTask(ctx)
	}

	a.mu.Lock()
	a.size--
	p.users--
	a.mu.Unlock()
}

// next returns the intended start of the next task of a pool. It reports false
// when the test ends.
func (a *arrivals) next(p *pool) (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.free++
	defer func() { p.free-- }()

	for len(p.queue) == 0 && !a.closed {
		p.idle.Wait()
	}
	if a.closed {
		return time.Time{}, false
	}

	intended := p.queue[0]
	p.queue = p.queue[1:]
	return intended, true
}

// close ends all users after their current tasks. Tasks that wait never begin.
func (a *arrivals) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, p := range a.pools {
		p.idle.Broadcast()
	}
}

// users returns the number of users.
func (a *arrivals) users() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.size
}

// waiting returns the number of tasks that have not begun.
func (a *arrivals) waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.dropped
	for _, p := range a.pools {
		n += len(p.queue)
	}
	return n
}
