package limiter

import (
	"sync"
	"time"
)

// lines are the waiters of this process: a line for each entity and resource,
// and what the first of each line lacks.
type lines struct {
	mu      sync.Mutex
	by      map[place]*line
	arrived uint64 // waiters so far
	wants
}

// place is where a line stands.
type place struct{ space, entity, resource string }

// line is a list, so that leaving takes the same time wherever one stands.
type line struct{ first, last *waiter }

// waiter is one call of Wait. The lock of its lines guards what is not a
// channel.
type waiter struct {
	of         place
	space      string        // of the buckets that it lacks
	turn       chan struct{} // closed when it is first in line
	wake       chan struct{} // holds one: it is to call sleep again
	prev, next *waiter
	arrived    uint64
	craving
}

// join goes to the end of a line, and reports whether that is its front.
func (l *lines) join(of place, space string) (me *waiter, first bool) {
	me = &waiter{of: of, space: space, turn: make(chan struct{}), wake: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[place]*line{}
	}
	l.arrived++
	me.arrived = l.arrived
	in := l.by[of]
	if in == nil {
		l.by[of] = &line{me, me}
		return me, true
	}
	me.prev, in.last.next, in.last = in.last, me, me
	return me, false
}

// leave takes a waiter out of its line and lets the next one go if it was the
// first. It does so once.
func (l *lines) leave(me *waiter, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.by[me.of]
	if in == nil || me.prev == nil && in.first != me {
		return
	}
	l.renounce(me, now)
	if me.next == nil {
		in.last = me.prev
	} else {
		me.next.prev = me.prev
	}
	switch {
	case me.prev != nil:
		me.prev.next = me.next
	case me.next != nil:
		in.first = me.next
		close(in.first.turn)
	default:
		delete(l.by, me.of)
	}
	me.prev, me.next = nil, nil
}

// asks notes that a waiter is about to ask the store.
func (l *lines) asks(me *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wants.asks(me)
}

// served notes that a waiter has its lease.
func (l *lines) served(me *waiter, lease *Lease, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wants.served(me, lease, now)
}

// refused notes what a waiter lacks by the store's answer, and reports whether
// to wait for that: otherwise it may be there by now, and is to be asked for at
// once.
func (l *lines) refused(me *waiter, d Decision, now time.Time) (wait bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wants.refused(me, d, now)
}

// sleep is how long a refused waiter sleeps before it calls sleep again; zero
// when it is to ask the store.
func (l *lines) sleep(me *waiter, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wants.sleep(me, now)
}

// credited lets those waiters ask again who lack what the store was given back,
// as far as it goes.
func (l *lines) credited(space string, credits []Credit, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.by) == 0 {
		return
	}
	for i := range credits {
		account := credits[i].Account
		for limit, n := range credits[i].Amounts.All() {
			l.credit(shortage{space, account.Entity, account.Resource, limit}, n, now)
		}
	}
}
