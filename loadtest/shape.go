package loadtest

import (
	"math"
	"time"
)

// Length returns the duration of all stages.
func (s Shape) Length() time.Duration {
	var sum time.Duration
	for _, stage := range s.Stages {
		sum += stage.Duration
	}
	return sum
}

// UsersAt returns the number of users at a time since the start. The first user
// of a stage starts or stops with the stage, and the others follow by its rate. A
// stage begins with the users that the one before it reached. After the last
// stage the number stays.
func (s Shape) UsersAt(t time.Duration) int {
	users := 0
	for _, stage := range s.Stages {
		users = stage.move(users, min(t, stage.Duration))
		if t -= stage.Duration; t < 0 {
			break
		}
	}
	return users
}

// move returns the number of users after a time in a stage.
func (s Stage) move(users int, t time.Duration) int {
	// The first user moves at the start of the stage, not after the first
	// period.
	steps := math.Floor(t.Seconds()*s.SpawnRate) + 1

	distance := s.Users - users
	if steps >= math.Abs(float64(distance)) {
		return s.Users
	}
	if distance < 0 {
		return users - int(steps)
	}
	return users + int(steps)
}

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
