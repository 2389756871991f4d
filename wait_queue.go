package limiter

import (
	"slices"
	"sync"
	"time"
)

// waitQueues holds the waiters of this process: a queue for each entity and
// resource, and estimates of the limits that the first waiters lack.
type waitQueues struct {
	mu       sync.Mutex
	queues   map[queueKey]*waitQueue
	arrivals uint64 // waiters so far
	estimates
}

// queueKey identifies a queue.
type queueKey struct{ namespace, entity, resource string }

// waitQueue is a linked list, so that leaving takes constant time.
type waitQueue struct{ first, last *waiter }

// waiter is one call of Wait. The mutex of its queues guards all fields but the
// channels.
type waiter struct {
	queue      queueKey
	namespace  string        // of its buckets, as Commit names it where the store has no ID
	turn       chan struct{} // closed when the waiter becomes first in its queue
	wake       chan struct{} // buffered; a value makes the waiter call sleepTime again
	prev, next *waiter
	arrival    uint64

	shortages  []shortage // the limits that refused the waiter
	askedAt    uint64     // estimates.credits when it last asked the store
	waitsFor   *estimate  // the estimate whose heap holds it, nil while it asks
	heapIndex  int
	wakeAt     time.Time // when it wakes without a signal
	reserved   bool      // it may ask: the estimates have reserved what it needs
	correcting bool      // it asks in order to correct an estimate
	switched   bool      // a level of its entity was switched while it slept
}

// join appends a new waiter to a queue and reports whether it is first.
func (q *waitQueues) join(key queueKey, namespace string) (w *waiter, first bool) {
	w = &waiter{queue: key, namespace: namespace, turn: make(chan struct{}), wake: make(chan struct{}, 1)}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queues == nil {
		q.queues = map[queueKey]*waitQueue{}
	}

	q.arrivals++
	w.arrival = q.arrivals

	queue := q.queues[key]
	if queue == nil {
		q.queues[key] = &waitQueue{w, w}
		return w, true
	}
	w.prev, queue.last.next, queue.last = queue.last, w, w
	return w, false
}

// leave removes a waiter from its queue. If it was first, the next waiter gets its
// turn. A second call does nothing.
func (q *waitQueues) leave(w *waiter, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.queues[w.queue]
	// The waiter has left before.
	if queue == nil || w.prev == nil && queue.first != w {
		return
	}

	q.abandon(w, now)

	if w.next == nil {
		queue.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	switch {
	case w.prev != nil:
		w.prev.next = w.next
	case w.next != nil:
		queue.first = w.next
		close(queue.first.turn)
	default:
		delete(q.queues, w.queue)
	}

	w.prev, w.next = nil, nil
}

// beforeAcquire locks q and calls the method of estimates.
func (q *waitQueues) beforeAcquire(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.estimates.beforeAcquire(w)
}

// admitted locks q and calls the method of estimates.
func (q *waitQueues) admitted(w *waiter, lease *Lease, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.estimates.admitted(w, lease, now)
}

// refused locks q and calls the method of estimates.
func (q *waitQueues) refused(w *waiter, d Decision, now time.Time) (wait bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.estimates.refused(w, d, now)
}

// sleepTime locks q and calls the method of estimates.
func (q *waitQueues) sleepTime(w *waiter, now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.estimates.sleepTime(w, now)
}

// credited applies stored credits to the estimates, which wakes the waiters that
// they may serve.
func (q *waitQueues) credited(namespace string, credits []Credit, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// Without waiters there is no estimate to correct.
	if len(q.queues) == 0 {
		return
	}

	for i := range credits {
		account := credits[i].Account
		for limit, n := range credits[i].Amounts.All() {
			// A spared credit changes the usage alone.
			if slices.Contains(credits[i].Spared, limit) {
				continue
			}
			q.credit(limitKey{namespace, account.Entity, account.Resource, limit}, n, now)
		}
	}
}

// filled applies a stored reset or top-up to the estimates, which wakes the waiters
// that it may serve.
func (q *waitQueues) filled(namespace string, f *Fill, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queues) == 0 {
		return
	}

	for limit, n := range f.Amounts.All() {
		q.credit(limitKey{namespace, f.Entity, f.Resource, limit}, n, now)
	}
	if f.ID == "" {
		q.reset(limitKey{namespace, f.Entity, f.Resource, ""}, f.Limits, now)
	}
}

// switched makes waiters ask the store, since a level was switched off or on: all
// waiters of its entity, and the first waiter of each estimate, whose entity may be
// a child of the switched one. If the switch refuses that waiter, the next one asks.
func (q *waitQueues) switched(namespace string, of Scope, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queues) == 0 {
		return
	}

	// The count makes a waiter whose answer is on its way ask again.
	q.credits++
	q.lastSwitch = q.credits

	for key, est := range q.byKey {
		if key.namespace != namespace || of.Resource != "" && of.Resource != key.resource {
			continue
		}
		for _, w := range est.waiters {
			if w.queue.entity == of.Entity {
				w.switched = true
				w.signal()
			}
		}
		// Any entity may be a child of the switched one, so the first
		// waiter of each estimate asks.
		est.recheck = now
		q.reschedule(est, now)
	}
}

// waiterHeap orders waiters by need, then by arrival.
type waiterHeap []*waiter

func (h waiterHeap) Len() int { return len(h) }

func (h waiterHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if x, y := a.shortage(a.waitsFor).need, b.shortage(b.waitsFor).need; x != y {
		return x < y
	}
	return a.arrival < b.arrival
}

func (h waiterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

// Push adds a waiter.
func (h *waiterHeap) Push(x any) {
	w, _ := x.(*waiter) // heap.Push is called with nothing else
	w.heapIndex = len(*h)
	*h = append(*h, w)
}

// Pop removes the last waiter.
func (h *waiterHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return w
}
