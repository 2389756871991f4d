package limiter

import (
	"testing"
	"time"
)

// TestEmptyQueuesAreDeleted checks that an empty queue goes, with the estimates of
// its waiters.
func TestEmptyQueuesAreDeleted(t *testing.T) {
	var q waitQueues
	a, first := q.join(queueKey{entity: "a", resource: "r"}, "")
	b, second := q.join(queueKey{entity: "a", resource: "r"}, "")
	c, other := q.join(queueKey{entity: "b", resource: "r"}, "")
	if !first || second || !other {
		t.Errorf("at the front: %t, %t, %t", first, second, other)
	}
	now := time.Unix(0, 0)
	for _, w := range []*waiter{a, c} {
		q.beforeAcquire(w)
		if !q.refused(w, refusalOf(w.queue.entity, 2), now) {
			t.Errorf("%s does not wait", w.queue.entity)
		}
	}
	if len(q.byKey) != 2 {
		t.Errorf("%d estimates, want 2", len(q.byKey))
	}
	q.leave(b, time.Unix(0, 0))
	q.leave(a, time.Unix(0, 0))
	q.leave(a, time.Unix(0, 0)) // again
	q.leave(c, time.Unix(0, 0))
	if len(q.queues) != 0 || len(q.byKey) != 0 {
		t.Errorf("%d queues and %d estimates are left", len(q.queues), len(q.byKey))
	}
}

// refusalOf returns the refusal of n tokens to an entity with an empty bucket.
func refusalOf(entity string, n int64) Decision {
	limit := PerHour("rpm", 100)
	return Decision{Statuses: []Status{{
		Entity: entity, Resource: "r", Limit: limit, Requested: n, Exceeded: true,
		RetryAfter: time.Duration(n)*36*time.Second + time.Millisecond,
	}}}
}

// TestLeavingKeepsTheOrder checks that the next waiter gets its turn when the
// first one leaves, even if others have left before.
func TestLeavingKeepsTheOrder(t *testing.T) {
	var q waitQueues
	var all []*waiter
	for range 5 {
		w, _ := q.join(queueKey{entity: "a", resource: "r"}, "")
		all = append(all, w)
	}
	turn := func(want ...bool) {
		t.Helper()
		for i, w := range all {
			got := false
			select {
			case <-w.turn:
				got = true
			default:
			}
			if got != want[i] {
				t.Errorf("waiter %d has its turn: %t, want %t", i, got, want[i])
			}
		}
	}
	q.leave(all[2], time.Unix(0, 0)) // from the middle
	q.leave(all[4], time.Unix(0, 0)) // from the end
	turn(false, false, false, false, false)
	q.leave(all[0], time.Unix(0, 0))
	turn(false, true, false, false, false)
	late, first := q.join(queueKey{entity: "a", resource: "r"}, "")
	if first {
		t.Error("a late waiter is first")
	}
	q.leave(all[1], time.Unix(0, 0))
	turn(false, true, false, true, false)
	q.leave(all[3], time.Unix(0, 0))
	select {
	case <-late.turn:
	default:
		t.Error("the last waiter does not get its turn")
	}
}
