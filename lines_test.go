package limiter

import (
	"testing"
	"time"
)

// A line that no waiter stands in is forgotten, and what its waiters lacked.
func TestLinesAreForgotten(t *testing.T) {
	var l lines
	a, first := l.join(place{entity: "a", resource: "r"}, "")
	b, second := l.join(place{entity: "a", resource: "r"}, "")
	c, other := l.join(place{entity: "b", resource: "r"}, "")
	if !first || second || !other {
		t.Errorf("at the front: %t, %t, %t", first, second, other)
	}
	now := time.Unix(0, 0)
	for _, w := range []*waiter{a, c} {
		l.asks(w)
		if !l.refused(w, lacking(w.of.entity, 2), now) {
			t.Errorf("%s does not wait", w.of.entity)
		}
	}
	if len(l.of) != 2 {
		t.Errorf("%d wants, want 2", len(l.of))
	}
	l.leave(b, time.Unix(0, 0))
	l.leave(a, time.Unix(0, 0))
	l.leave(a, time.Unix(0, 0)) // again
	l.leave(c, time.Unix(0, 0))
	if len(l.by) != 0 || len(l.of) != 0 {
		t.Errorf("%d lines and %d wants are left", len(l.by), len(l.of))
	}
}

// lacking is the refusal of an entity that asked for n more than is there.
func lacking(entity string, n int64) Decision {
	limit := PerHour("rpm", 100)
	return Decision{Statuses: []Status{{
		Entity: entity, Resource: "r", Limit: limit, Requested: n, Exceeded: true,
		RetryAfter: time.Duration(n)*36*time.Second + time.Millisecond,
	}}}
}

// The first that leaves lets the second go, whoever left before.
func TestLeavingKeepsTheOrder(t *testing.T) {
	var l lines
	var all []*waiter
	for range 5 {
		w, _ := l.join(place{entity: "a", resource: "r"}, "")
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
	l.leave(all[2], time.Unix(0, 0)) // from the middle
	l.leave(all[4], time.Unix(0, 0)) // from the end
	turn(false, false, false, false, false)
	l.leave(all[0], time.Unix(0, 0))
	turn(false, true, false, false, false)
	late, first := l.join(place{entity: "a", resource: "r"}, "")
	if first {
		t.Error("one that comes late is the first")
	}
	l.leave(all[1], time.Unix(0, 0))
	turn(false, true, false, true, false)
	l.leave(all[3], time.Unix(0, 0))
	select {
	case <-late.turn:
	default:
		t.Error("the last in line has not its turn")
	}
}
