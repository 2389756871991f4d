package limiter

import "testing"

// A line that nobody stands in is forgotten.
func TestLinesAreForgotten(t *testing.T) {
	var l lines
	a, first := l.join(place{entity: "a", resource: "r"})
	b, second := l.join(place{entity: "a", resource: "r"})
	c, other := l.join(place{entity: "b", resource: "r"})
	if !first || second || !other {
		t.Errorf("at the front: %t, %t, %t", first, second, other)
	}
	l.wake("r")
	l.wake("r") // holds one
	l.wake("other")
	if len(a.wake) != 1 || len(b.wake) != 0 || len(c.wake) != 1 {
		t.Errorf("woken: %d, %d, %d", len(a.wake), len(b.wake), len(c.wake))
	}
	l.leave(b)
	l.leave(a)
	l.leave(a) // again
	l.leave(c)
	if len(l.by) != 0 {
		t.Errorf("%d lines are left", len(l.by))
	}
}
