package loadtest

// mix keeps the classes of a growing or shrinking number of users in proportion
// to their weights, each within one user of its share. Unlike the method of the
// largest remainder it never stops a user of one class while the number grows:
// the next user belongs to the class with the highest weight for each user that
// would not exceed its share (the quota method of Balinski and Young).
type mix struct {
	weights []int
	counts  []int
	total   int   // sum of the weights
	order   []int // the class of each user
}

func newMix(classes []Class) *mix {
	m := &mix{counts: make([]int, len(classes))}
	for _, c := range classes {
		m.weights = append(m.weights, weight(c.Weight))
		m.total += weight(c.Weight)
	}
	return m
}

// resize adds or removes users until there are n.
func (m *mix) resize(n int) {
	for len(m.order) < n {
		i := m.next()
		m.counts[i]++
		m.order = append(m.order, i)
	}

	// The users that started last stop first, so that the counts return to
	// those before the growth.
	for last := len(m.order) - 1; last >= max(0, n); last-- {
		m.counts[m.order[last]]--
		m.order = m.order[:last]
	}
}

// next returns the class of the next user.
func (m *mix) next() int {
	best := -1
	for i, w := range m.weights {
		// Both comparisons are multiplied out, so that no division rounds.
		fits := m.counts[i]*m.total < w*(len(m.order)+1)
		if fits && (best < 0 || w*(m.counts[best]+1) > m.weights[best]*(m.counts[i]+1)) {
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
