package dynamo

import "time"

// ConnectAt is Connect on a machine with the given clock.
var ConnectAt = connect

// StepClock sets the machine's clock forward, but not its steady clock.
func (r *Repository) StepClock(by time.Duration) {
	before := r.clock
	r.clock, r.begun = func() time.Time { return before().Add(by) }, r.begun.Add(by)
}
