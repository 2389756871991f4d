package demo

import (
	"fmt"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// frame is how things stand at one moment: all that the displays know.
type frame struct {
	Store             string
	Seed              uint64
	Elapsed, Duration time.Duration
	Totals            totals
	Rows              []row
	Events            []event // since the frame before, oldest first
	SettingUp         bool    // no call has arrived yet, nor has the time begun
}

// row is one bucket.
type row struct {
	Entity, Model     string
	Key               bool // not a project
	Gauges            []gauge
	Admitted, Refused int
	Retry             time.Duration // until the caller refused last may try again; zero is now
	RetryLimit        string
}

// gauge is one limit of a bucket.
type gauge struct {
	Limit     limiter.Limit
	Available int64 // whole tokens; negative is debt
}

// newRow is a bucket as the limiter explains it.
func newRow(at limiter.Scope, d limiter.Decision) row {
	r := row{Entity: at.Entity, Model: at.Resource}
	for _, s := range d.Statuses {
		if s.Entity == at.Entity {
			r.Gauges = append(r.Gauges, gauge{s.Limit, s.Available})
		} else {
			r.Key = true // its project's come after its own
		}
	}
	return r
}

// blank is the frame before there is a store: what will be seen, without numbers.
func blank(o Options) frame {
	f := frame{Store: o.Store, Seed: o.Seed, Duration: o.Duration, SettingUp: true}
	project := map[string]bool{}
	for _, k := range keys() {
		project[k.project] = true
	}
	for _, at := range buckets() {
		f.Rows = append(f.Rows, row{Entity: at.Entity, Model: at.Resource, Key: !project[at.Entity]})
	}
	return f
}

// setting is what the run can be repeated with.
func (f frame) setting() string { return fmt.Sprintf("%s, seed %d", f.Store, f.Seed) }

// clock is how far the demo is.
func (f frame) clock() string {
	if f.SettingUp {
		return "setting up"
	}
	if f.Elapsed >= f.Duration {
		return fmt.Sprintf("%d calls to finish", f.Totals.Working)
	}
	return fmt.Sprintf("%s of %s", seconds(f.Elapsed.Truncate(100*time.Millisecond)), f.Duration)
}

func (t totals) String() string {
	return fmt.Sprintf("calls %d   admitted %d   refused %d   waiting %d   gave up %d   rolled back %d",
		t.Calls, t.Admitted, t.Refused, t.Waiting, t.GaveUp, t.RolledBack)
}
