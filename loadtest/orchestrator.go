package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// OrchestratorOptions configures NewOrchestrator. The zero value of a field is
// its default.
type OrchestratorOptions struct {
	UsersPerWorker int // default 10
	MinWorkers     int // default 1
	MaxWorkers     int // default: no maximum
	// PendingTimeout is how long an invoked worker may take to connect; default
	// 30 s.
	PendingTimeout time.Duration
	// Lifetime is how long a worker lives; default 5 min.
	Lifetime time.Duration
	// Replacement is the share of its lifetime after which a worker is replaced;
	// default 0.8.
	Replacement float64
	// IdleTimeout is how long a master may be without a test; default 15 min.
	IdleTimeout time.Duration
	// Lead is how far ahead the number of users is predicted, since a worker takes
	// time to start; default 20 s. Negative means no prediction.
	Lead time.Duration
}

func (o OrchestratorOptions) withDefaults() (OrchestratorOptions, error) {
	for _, field := range []struct {
		name  string
		value float64
		most  float64
	}{
		{"users per worker", float64(o.UsersPerWorker), 0},
		{"minimum of workers", float64(o.MinWorkers), 0},
		{"maximum of workers", float64(o.MaxWorkers), 0},
		{"pending timeout", float64(o.PendingTimeout), 0},
		{"lifetime", float64(o.Lifetime), 0},
		{"idle timeout", float64(o.IdleTimeout), 0},
		{"replacement", o.Replacement, 1},
	} {
		// The negation also refuses NaN.
		if !(field.value >= 0) || field.most > 0 && field.value > field.most {
			return o, invalid(field.name, fmt.Sprint(field.value), "must not be negative; a share must be at most 1")
		}
	}

	o.UsersPerWorker = cmp.Or(o.UsersPerWorker, 10)
	o.MinWorkers = cmp.Or(o.MinWorkers, 1)
	o.PendingTimeout = cmp.Or(o.PendingTimeout, 30*time.Second)
	o.Lifetime = cmp.Or(o.Lifetime, 5*time.Minute)
	o.Replacement = cmp.Or(o.Replacement, 0.8)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 15*time.Minute)
	o.Lead = cmp.Or(o.Lead, 20*time.Second)
	o.Lead = max(o.Lead, 0)

	if o.MaxWorkers > 0 && o.MinWorkers > o.MaxWorkers {
		return o, invalid("minimum of workers", fmt.Sprint(o.MinWorkers),
			"must be at most the maximum of workers, %d", o.MaxWorkers)
	}
	return o, nil
}

// Orchestrator decides how many workers a distributed test has to invoke. It
// reads no clock and makes no calls, so that [Orchestrate] and tests can drive
// it. It is not safe for concurrent use.
//
// Workers that are to be replaced may run for a moment beside their successors;
// all others together never exceed the maximum.
type Orchestrator struct {
	opts    OrchestratorOptions
	polled  bool      // a poll has reached the master
	busy    time.Time // when a test ran last
	users   int       // at the last poll that reached the master
	at      time.Time // of that poll
	pending []invocation
	active  []invocation // connected, oldest first
	lost    []invocation // lost their connection after they were active
}

// invocation is a worker that was invoked or adopted.
type invocation struct {
	id    string // "" if it is not known
	at    time.Time
	until time.Time // the time until which it may connect, or connect again
}

// returnTimeout is how long a disconnected worker may take to connect again. A
// worker notices the end of its master after 5 s without a heartbeat.
const returnTimeout = 15 * time.Second

// Decision holds the result of a poll.
type Decision struct {
	Reached   bool // the master responded
	State     string
	Users     int
	Connected int // workers at the master
	// Pending counts the workers that may still connect, or connect again,
	// before this decision invokes others.
	Pending  int
	Expiring int // connected workers near the end of their life
	Desired  int // workers that the test needs
	Invoke   int // workers to invoke now
	// Done reports that no test has run for the idle timeout, so that the
	// orchestrator ends.
	Done bool
}

// NewOrchestrator returns an orchestrator that knows no workers.
func NewOrchestrator(opts *OrchestratorOptions) (*Orchestrator, error) {
	if opts == nil {
		opts = &OrchestratorOptions{}
	}
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Orchestrator{opts: o}, nil
}

// Poll decides on the state of the master at now. A nil master did not respond.
// After that the caller invokes Decision.Invoke workers and calls Invoked for
// each.
func (o *Orchestrator) Poll(now time.Time, m *MasterStats) Decision {
	// The idle time counts from the first poll, before any test.
	if o.busy.IsZero() {
		o.busy = now
	}

	// A worker past its time ends without joining, so its successor may be
	// invoked.
	o.pending = slices.DeleteFunc(o.pending, func(i invocation) bool { return now.After(i.until) })

	if m == nil {
		return o.pollBlind(now)
	}

	running := m.Running()
	if running {
		o.busy = now
	}

	d := Decision{Reached: true, State: m.State, Users: m.Users, Desired: o.desired(now, m)}
	ids := m.Connected()
	o.track(now, ids)
	d.Connected, d.Pending = len(ids), len(o.pending)+o.returning(now)
	d.Expiring = o.expiring(now)
	// A shrinking test replaces only the workers that it still needs: of 10
	// workers with 3 near their end, 3 are replaced if 10 are desired, and 1 if
	// 8 are.
	missing := max(0, d.Desired-d.Connected-d.Pending)
	replaced := min(d.Expiring, max(0, d.Desired-(d.Connected-d.Expiring+d.Pending+missing)))
	d.Invoke = missing + replaced

	d.Done = now.Sub(o.busy) >= o.opts.IdleTimeout
	o.polled, o.users, o.at = true, m.Users, now
	return d
}

// pollBlind decides without the master. Its workers may still be connected, so
// only workers that nothing accounts for are missing. Workers that could not
// connect meanwhile get more time.
func (o *Orchestrator) pollBlind(now time.Time) Decision {
	for i := range o.pending {
		o.pending[i].until = later(o.pending[i].until, now.Add(returnTimeout))
	}

	o.active = o.living(now, o.active)
	d := Decision{
		Pending: len(o.pending) + o.returning(now), Desired: o.clamp(0),
		Done: now.Sub(o.busy) >= o.opts.IdleTimeout,
	}

	d.Invoke = max(0, d.Desired-len(o.active)-d.Pending)
	return d
}

// Invoked records a worker that was invoked at now. The ID may be "" if it is
// unknown.
func (o *Orchestrator) Invoked(now time.Time, id string) {
	o.pending = append(o.pending, invocation{id, now, now.Add(o.opts.PendingTimeout)})
}

// desired returns the number of workers that the users need, now or within the
// time that a worker takes to start. It never predicts fewer users.
func (o *Orchestrator) desired(now time.Time, m *MasterStats) int {
	if !m.Running() {
		return o.clamp(0)
	}

	need := ceilDiv(float64(m.Users), o.opts.UsersPerWorker)
	if passed := now.Sub(o.at).Seconds(); o.polled && passed > 0 {
		rate := float64(m.Users-o.users) / passed
		if rate > 0 {
			need = max(need, ceilDiv(float64(m.Users)+rate*o.opts.Lead.Seconds(), o.opts.UsersPerWorker))
		}
	}

	return o.clamp(need)
}

// ceilDiv returns n/d, rounded up. It tolerates the error of a sum of floats.
func ceilDiv(n float64, d int) int {
	const tolerance = 1e-9
	q := n / float64(d)
	whole := int(q)
	if q-float64(whole) > tolerance {
		whole++
	}
	return whole
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (o *Orchestrator) clamp(n int) int {
	n = max(n, o.opts.MinWorkers)
	if o.opts.MaxWorkers > 0 {
		n = min(n, o.opts.MaxWorkers)
	}
	return n
}

// living returns the invocations whose lifetime has not passed.
func (o *Orchestrator) living(now time.Time, all []invocation) []invocation {
	return slices.DeleteFunc(all, func(i invocation) bool { return now.Sub(i.at) >= o.opts.Lifetime })
}

// expiring returns the number of active workers that are to be replaced.
func (o *Orchestrator) expiring(now time.Time) (n int) {
	for _, i := range o.active {
		if o.isOld(now, i) {
			n++
		}
	}
	return n
}

// returning returns the number of lost workers that may connect again. Old ones
// have ended.
func (o *Orchestrator) returning(now time.Time) (n int) {
	for _, i := range o.lost {
		if !o.isOld(now, i) && !now.After(i.until) {
			n++
		}
	}
	return n
}

// isOld reports whether a worker is to be replaced because of its age.
func (o *Orchestrator) isOld(now time.Time, i invocation) bool {
	return now.Sub(i.at) >= time.Duration(o.opts.Replacement*float64(o.opts.Lifetime))
}

// track updates the invocations with the IDs of the connected workers.
func (o *Orchestrator) track(now time.Time, ids []string) {
	connected := map[string]bool{}
	for _, id := range ids {
		connected[id] = true
	}

	var active []invocation
	for _, i := range o.active {
		if connected[i.id] {
			active = append(active, i)
			delete(connected, i.id)
		} else {
			i.until = now.Add(returnTimeout)
			o.lost = append(o.lost, i)
		}
	}

	o.lost = o.living(now, o.lost)
	for _, id := range ids {
		if connected[id] {
			delete(connected, id)
			active = append(active, o.joined(now, id))
		}
	}

	slices.SortStableFunc(active, func(a, b invocation) int { return a.at.Compare(b.at) })
	o.active = active
}

// joined returns the invocation of a worker that connected: the one with its ID,
// else the oldest one that waits, else an adopted one. An adopted worker is about
// to end if the orchestrator has just started, else it is new.
func (o *Orchestrator) joined(now time.Time, id string) invocation {
	byID := func(i invocation) bool { return i.id == id }
	if at := slices.IndexFunc(o.lost, byID); at >= 0 {
		i := o.lost[at]
		o.lost = slices.Delete(o.lost, at, at+1)
		return i
	}

	if len(o.pending) > 0 {
		at := max(0, slices.IndexFunc(o.pending, byID))
		i := o.pending[at]
		o.pending = slices.Delete(o.pending, at, at+1)
		return invocation{id: id, at: i.at}
	}

	// The age of an adopted worker is unknown, and one from before this
	// orchestrator may end at any time.
	age := o.opts.Lead
	if !o.polled {
		age = max(0, o.opts.Lifetime-o.opts.Lead)
	}
	return invocation{id: id, at: now.Add(-age)}
}

// OrchestrateOptions configures Orchestrate.
type OrchestrateOptions struct {
	OrchestratorOptions
	// Interval is the time between two polls; default 5 s.
	Interval time.Duration
	// Stats returns the statistics of the master.
	Stats func(context.Context) (MasterStats, error)
	// Invoke starts a worker, which has to connect before the deadline, and
	// returns its ID, or "" if that is unknown. It does not wait for the worker.
	Invoke func(ctx context.Context, deadline time.Time) (id string, err error)
	// Report, if not nil, is called with each decision, and with the error of the
	// poll or of an invocation.
	Report func(Decision, error)
}

// Orchestrate keeps the workers of a distributed test running until no test has
// run for the idle timeout, and returns nil then, or until ctx ends. Errors of the
// master and of invocations do not end it: the next poll tries again.
func Orchestrate(ctx context.Context, opts OrchestrateOptions) error {
	o, err := NewOrchestrator(&opts.OrchestratorOptions)
	if err != nil {
		return err
	}

	if opts.Interval < 0 {
		return invalid("interval", opts.Interval.String(), "must not be negative")
	}
	opts.Interval = cmp.Or(opts.Interval, 5*time.Second)
	if opts.Report == nil {
		opts.Report = func(Decision, error) {}
	}

	tick := time.NewTicker(opts.Interval)
	defer tick.Stop()
	for {
		if d := opts.poll(ctx, o); d.Done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// poll makes a decision and carries it out.
func (opts *OrchestrateOptions) poll(ctx context.Context, o *Orchestrator) Decision {
	var master *MasterStats
	stats, err := opts.Stats(ctx)
	if err == nil {
		master = &stats
	}

	d := o.Poll(time.Now(), master)
	// A poll that ctx cancelled looks like a lost master, whose workers must
	// not be replaced.
	if d.Done || ctx.Err() != nil {
		opts.Report(d, err)
		return d
	}

	for range d.Invoke {
		// The worker has to begin before the same deadline until which Invoked
		// waits for it, so it never joins beside its successor.
		now := time.Now()
		id, failed := opts.Invoke(ctx, now.Add(o.opts.PendingTimeout))
		if failed != nil {
			err = errors.Join(err, failed)
			break
		}
		o.Invoked(now, id)
	}

	opts.Report(d, err)
	return d
}
