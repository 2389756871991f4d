package loadtest

import (
	"cmp"
	"fmt"
	"time"
)

// Defaults of Options.
const (
	DefaultUsers     = 20
	DefaultOpenUsers = 1000
	DefaultSpawnRate = 10
	DefaultDuration  = time.Minute
)

// maxRate is the highest rate of tasks or of new users a second. No machine
// reaches it.
const maxRate = 1_000_000

// Phases of a test.
const (
	PhaseSetup    = "setup"    // the namespace and its limits are stored
	PhaseRunning  = "running"  // users run
	PhaseStopping = "stopping" // users end their last tasks
	PhaseTeardown = "teardown" // the namespace is removed
)

// Options configures Run. The zero value of a field is its default.
type Options struct {
	Classes []string // names of the classes to use; default: all
	// Users is the number of users of the closed model, 20 by default. In the open
	// model it is the most that run at once, 1000 by default.
	Users     int
	SpawnRate float64 // users a second in the closed model; default 10
	// Rate selects the open model: so many tasks begin each second on average,
	// whether or not earlier ones have ended, and their latency counts from the
	// intended start. The times between them are exponentially distributed, since
	// independent callers arrive so.
	Rate     float64
	Shape    string        // name of a shape of the scenario, for the closed model
	Duration time.Duration // default 60 s, or the length of the shape
	Seed     uint64        // makes choices repeatable; default: random
	ID       string        // of the test; default: random
	// Slack is the share of a capacity that the store may admit in excess, such
	// as 0.02.
	Slack float64
	// Getenv returns the settings of a scenario; default os.Getenv.
	Getenv func(string) string
	// Meter, if not nil, returns the requests and capacity units that the store
	// has used since it was opened.
	Meter func() Usage
	// Report, if not nil, is called with a snapshot every Interval, 1 s by
	// default. Calls do not overlap.
	Report   func(Snapshot)
	Interval time.Duration
	// Phase, if not nil, is called as each phase of the test begins.
	Phase func(string)
	// StopTimeout bounds how long the last tasks of users may take before they are
	// cancelled, 10 s by default, and 2 s at most if the context of Run has ended.
	// TeardownTimeout bounds the removal of the namespace, 2 min by default. It does
	// not end with the context of Run.
	StopTimeout, TeardownTimeout time.Duration
}

// withDefaults returns a valid copy of o, and the shape that the users follow.
func (o *Options) withDefaults(s Scenario) (Options, Shape, error) {
	var out Options
	if o != nil {
		out = *o
	}
	if err := out.validate(); err != nil {
		return out, Shape{}, err
	}

	users := DefaultUsers
	if out.Rate > 0 {
		users = DefaultOpenUsers
	}

	out.Users = cmp.Or(out.Users, users)
	out.SpawnRate = cmp.Or(out.SpawnRate, DefaultSpawnRate)
	out.Interval = cmp.Or(out.Interval, time.Second)
	out.StopTimeout = cmp.Or(out.StopTimeout, 10*time.Second)
	out.TeardownTimeout = cmp.Or(out.TeardownTimeout, 2*time.Minute)

	if out.Report == nil {
		out.Report = func(Snapshot) {}
	}
	if out.Phase == nil {
		out.Phase = func(string) {}
	}

	if out.Shape != "" {
		shape, err := s.Shape(out.Shape)
		out.Duration = cmp.Or(out.Duration, shape.Length())
		return out, shape, err
	}

	out.Duration = cmp.Or(out.Duration, DefaultDuration)
	return out, Shape{Stages: []Stage{{Duration: out.Duration, Users: out.Users, SpawnRate: out.SpawnRate}}}, nil
}

func (o *Options) validate() error {
	for _, d := range []struct {
		field string
		time.Duration
	}{
		{"duration", o.Duration},
		{"interval", o.Interval},
		{"stop_timeout", o.StopTimeout},
		{"teardown_timeout", o.TeardownTimeout},
	} {
		if d.Duration < 0 {
			return invalid(d.field, d.String(), "must not be negative; 0 is the default")
		}
	}

	for _, f := range []struct {
		field string
		value float64
	}{{"spawn_rate", o.SpawnRate}, {"rate", o.Rate}, {"slack", o.Slack}} {
		if f.value != 0 && (!positive(f.value) || f.value > maxRate) {
			return invalid(f.field, fmt.Sprint(f.value),
				"must be a number above 0 and at most %d; 0 is the default", maxRate)
		}
	}

	switch {
	case o.Users < 0:
		return invalid("users", fmt.Sprint(o.Users), "must not be negative; 0 is the default")
	case o.Rate > 0 && o.Shape != "":
		return invalid("rate", fmt.Sprint(o.Rate),
			"cannot be combined with a shape, which sets the number of users; give one of them")
	}
	return nil
}
