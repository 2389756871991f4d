package loadtest

import (
	"slices"
	"testing"
	"time"
)

func TestUsersAt(t *testing.T) {
	shape := Shape{Stages: []Stage{{10 * time.Second, 5, 1}, {10 * time.Second, 100, 2}, {4 * time.Second, 0, 0.5}}}
	for at, want := range map[time.Duration]int{
		0: 1, time.Second: 2, 3500 * time.Millisecond: 4, 9 * time.Second: 5,
		10 * time.Second: 6, 12 * time.Second: 10, // 2 a second
		19999 * time.Millisecond: 25,
		20 * time.Second:         25, // from the 26 that the second stage reached, at half a user a second
		22 * time.Second:         24,
		time.Hour:                23,
	} {
		if got := shape.UsersAt(at); got != want {
			t.Errorf("%d users after %v, want %d", got, at, want)
		}
	}
}

// TestMixKeepsProportion checks that at every size each class is within one user
// of its share, that growing stops no user, and that shrinking starts none.
func TestMixKeepsProportion(t *testing.T) {
	for _, weights := range [][]int{{1}, {1, 1}, {3, 1}, {5, 3, 1}, {100, 5, 1, 1}, {0, 2}} {
		var classes []Class
		total := 0
		for _, w := range weights {
			classes = append(classes, Class{Weight: w})
			total += max(1, w)
		}
		m := newMix(classes)
		inShare := func(n int) {
			for i, w := range weights {
				if share := float64(n*max(1, w)) / float64(total); float64(m.counts[i]) < share-1 ||
					float64(m.counts[i]) > share+1 {
					t.Errorf("weights %v: %v of %d users", weights, m.counts, n)
				}
			}
		}
		for n := range 300 {
			before := slices.Clone(m.counts)
			m.resize(n)
			inShare(n)
			for i := range before {
				if m.counts[i] < before[i] {
					t.Fatalf("weights %v: growing to %d stops a user: %v to %v", weights, n, before, m.counts)
				}
			}
		}
		for n := 299; n >= 0; n-- {
			before := slices.Clone(m.counts)
			m.resize(n)
			inShare(n)
			for i := range before {
				if m.counts[i] > before[i] {
					t.Fatalf("weights %v: shrinking to %d starts a user: %v to %v", weights, n, before, m.counts)
				}
			}
		}
	}
}
