package loadtest

import (
	"context"

	"github.com/zeroae/zae-limiter-go"
)

// SwarmOptions configures NewSwarm. The zero value of a field is its default.
type SwarmOptions struct {
	// ID names the test: 8 hexadecimal digits, equal in all processes of a
	// distributed test. Default: random.
	ID string
	// Worker tells the processes of a test apart, for names and seeds.
	Worker string
	// Namespace is the namespace of the test. Default: one of its own, from the
	// names of scenario and test.
	Namespace string
	// Seed makes choices repeatable; default: random.
	Seed uint64
	// Record is called with every event, from many goroutines at once.
	Record func(Event)
}

// Swarm holds the users of a scenario in this process.
type Swarm struct{}

// NewSwarm returns a swarm without users on a store. It makes no call.
func NewSwarm(repo limiter.Repository, s Scenario, opts *SwarmOptions) (*Swarm, error) {
	panic("not built yet")
}

// Setup registers the namespace of the test and calls the scenario's Setup.
func (w *Swarm) Setup(ctx context.Context) error { panic("not built yet") }

// Teardown calls the scenario's Teardown and removes the namespace. It
// succeeds if another process removed it.
func (w *Swarm) Teardown(ctx context.Context) error { panic("not built yet") }

// Scale starts and stops users until there are counts[class] of each class. It
// returns without waiting for the tasks of users that stop.
func (w *Swarm) Scale(counts map[string]int) error { panic("not built yet") }

// Users returns the number of running users by class.
func (w *Swarm) Users() map[string]int { panic("not built yet") }

// Stop stops all users and waits until their tasks have ended, so that every
// event has been recorded. When ctx ends, tasks are cancelled.
func (w *Swarm) Stop(ctx context.Context) error { panic("not built yet") }
