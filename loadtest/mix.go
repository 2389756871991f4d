package loadtest

import "math"

// mix keeps the classes of a growing or shrinking number of users in proportion
// to their weights. It adds a user to the class that is furthest below its share
// (the method of Sainte-Laguë), so that no user stops while their number grows.
type mix struct {
	weights []int
	counts  []int
	total   int
}

func newMix(classes []Class) *mix {
	m := &mix{counts: make([]int, len(classes))}
	for _, c := range classes {
		m.weights = append(m.weights, weight(c.Weight))
	}
	return m
}

// resize adds or removes users until there are n.
func (m *mix) resize(n int) {
	for m.total < n {
		m.counts[m.best(func(i int) float64 { return float64(m.weights[i]) / float64(2*m.counts[i]+1) })]++
		m.total++
	}
	for m.total > max(0, n) {
		m.counts[m.best(func(i int) float64 {
			if m.counts[i] == 0 {
				return math.Inf(-1)
			}
			return -float64(m.weights[i]) / float64(2*m.counts[i]-1)
		})]--
		m.total--
	}
}

// best returns the first class with the highest score. On a tie while removing,
// that is not the class that was added last, but the shares are equal.
func (m *mix) best(score func(i int) float64) int {
	best := 0
	for i := range m.counts {
		if score(i) > score(best) {
			best = i
		}
	}
	return best
}

// byName returns the counts by class.
func (m *mix) byName(classes []Class) map[string]int {
	counts := make(map[string]int, len(classes))
	for i, c := range classes {
		counts[c.Name] = m.counts[i]
	}
	return counts
}
