package demo

import (
	"testing"
	"time"
)

func TestTrafficRepeatsWithItsSeed(t *testing.T) {
	a, b, other := newTraffic(5), newTraffic(5), newTraffic(6)
	differ := false
	for range 1000 {
		first, second := a.next(), b.next()
		if first != second {
			t.Fatalf("%+v, and then %+v", first, second)
		}
		differ = differ || first != other.next()
	}
	if !differ {
		t.Error("another seed gives the same calls")
	}
}

func TestTrafficIsPlausible(t *testing.T) {
	traffic, last, seen := newTraffic(1), time.Duration(0), map[string]int{}
	for range 2000 {
		c := traffic.next()
		if c.at < last || c.work < 50*time.Millisecond || c.work > 800*time.Millisecond || c.estimate <= 0 ||
			c.actual <= 0 {
			t.Fatalf("%+v after %v", c, last)
		}
		last = c.at
		seen[c.key.id]++
		seen[c.model]++
		if c.fails {
			seen["fails"]++
		}
		if c.actual > 2*c.estimate {
			seen["surprise"]++
		}
	}
	for _, what := range []string{"web", "search", "bot", "notes", "batch", large, small, "fails", "surprise"} {
		if seen[what] < 50 {
			t.Errorf("%s: %d of 2000", what, seen[what])
		}
	}
}
