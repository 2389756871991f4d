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
