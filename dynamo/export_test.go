package dynamo

import "time"

// ConnectAt is Connect on a machine with the given clock.
var ConnectAt = connect

// StepClock sets the machine's clock forward, but not its steady clock.
func (r *Repository) StepClock(by time.Duration) {
	before := r.clock
	r.clock, r.begun = func() time.Time { return before().Add(by) }, r.begun.Add(by)
}

// StopClock makes the machine's clock stand still, so that nothing in a cache ages,
// however long a test takes. The dates of replies do not count.
func (r *Repository) StopClock() {
	now := r.clock()
	r.clock, r.tableClock.guard = func() time.Time { return now }, 24*time.Hour
}
