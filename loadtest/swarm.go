package loadtest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"

	"github.com/zeroae/zae-limiter-go"
)

// SwarmOptions configures NewSwarm. The zero value of a field is its default.
type SwarmOptions struct {
	// ID names the test: 8 hexadecimal digits, equal in all processes of a
	// distributed test. Default: random.
	ID string
	// Worker distinguishes the processes of a test, for names and seeds.
	Worker string
	// Namespace is the namespace of the test. Default: one of its own, from the
	// names of scenario and test.
	Namespace string
	// Seed makes choices repeatable; default: random.
	Seed uint64
	// Getenv returns the settings of a scenario; default os.Getenv.
	Getenv func(string) string
	// Record is called with every event, from many goroutines at once.
	Record func(Event)
}

// Swarm holds the users of a scenario in this process. Its methods are safe for
// concurrent use, except that Setup must end before the first user starts, and
// that Scale must not run during Stop.
type Swarm struct {
	scenario Scenario
	opts     SwarmOptions
	repo     limiter.Repository
	wrap     func(limiter.Repository) limiter.Repository // nil for none
	test     *Test
	// limiter works in the namespace of the test. It is nil before Setup.
	limiter *limiter.RateLimiter
	nsID    string
	ctx     context.Context //nolint:containedctx // ends the tasks of users, which outlive the call that started them
	cancel  context.CancelFunc
	ended   atomic.Int64 // tasks that ended
	crew    *crew

	mu      sync.Mutex
	next    int // the number of the next user
	running map[string][]*runner
	done    sync.WaitGroup
}

// NewSwarm returns a swarm without users on a store. It makes no call.
func NewSwarm(repo limiter.Repository, s Scenario, opts *SwarmOptions) (*Swarm, error) {
	if repo == nil {
		return nil, invalid("repository", "", "must not be nil")
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}

	var o SwarmOptions
	if opts != nil {
		o = *opts
	}
	if o.ID == "" {
		o.ID = NewID()
	}
	if o.Namespace == "" {
		o.Namespace = "loadtest-" + s.Name + "-" + o.ID
	}

	if err := (limiter.Namespace{Name: o.Namespace}).Validate(); err != nil {
		return nil, err
	}

	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Record == nil {
		o.Record = func(Event) {}
	}

	w := &Swarm{scenario: s, opts: o, repo: repo, running: map[string][]*runner{}, crew: newCrew()}
	w.test = &Test{Scenario: s.Name, Namespace: o.Namespace, ID: o.ID, Worker: o.Worker, Getenv: o.Getenv}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w, nil
}

// NewID returns the ID of a new test.
func NewID() string { return fmt.Sprintf("%08x", rand.Uint32()) }

// Test returns the test that the users of the swarm belong to.
func (w *Swarm) Test() *Test { return w.test }

// Setup registers the namespace of the test and calls the scenario's Setup.
func (w *Swarm) Setup(ctx context.Context) error {
	plain, err := limiter.New(w.repo, nil)
	if err != nil {
		return err
	}

	registered, err := plain.RegisterNamespaces(ctx, w.opts.Namespace)
	if err != nil {
		return fmt.Errorf("set up %s: %w", w.scenario.Name, err)
	}
	w.nsID = registered[0].ID

	view, err := w.repo.Namespace(ctx, w.opts.Namespace)
	if err != nil {
		return fmt.Errorf("set up %s: %w", w.scenario.Name, err)
	}
	if w.wrap != nil {
		view = w.wrap(view)
	}

	if w.limiter, err = limiter.New(view, &limiter.Options{Principal: "loadtest"}); err != nil {
		return err
	}

	// Setup and teardown are no load, so this client reports no events.
	w.test.Client = &Client{session: &session{limiter: w.limiter}}

	if w.scenario.Setup == nil {
		return nil
	}
	if err := w.scenario.Setup(ctx, w.test); err != nil {
		return fmt.Errorf("set up %s: %w", w.scenario.Name, err)
	}
	return nil
}

// Teardown calls the scenario's Teardown and removes the namespace. It
// succeeds if another process removed it.
func (w *Swarm) Teardown(ctx context.Context) error {
	var err error
	// A worker that only removes the namespace of a test has no client.
	if w.scenario.Teardown != nil && w.test.Client != nil {
		err = w.scenario.Teardown(ctx, w.test)
	}

	if err := errors.Join(err, w.removeNamespace(ctx)); err != nil {
		return fmt.Errorf("tear down %s: %w", w.opts.Namespace, err)
	}
	return nil
}

// removeNamespace deletes and purges the namespace, if it exists.
func (w *Swarm) removeNamespace(ctx context.Context) error {
	plain, err := limiter.New(w.repo, nil)
	if err != nil {
		return err
	}

	// A deleted namespace can be purged by its ID only, so the ID is read
	// before the deletion.
	id, err := w.namespaceID(ctx, plain)
	if err != nil {
		return err
	}

	// Another process of the test may have removed the namespace already.
	if err := plain.DeleteNamespace(ctx, w.opts.Namespace); err != nil && !errors.Is(err, limiter.ErrNotFound) {
		return err
	}

	if id == "" {
		return nil
	}

	if err := plain.PurgeNamespace(ctx, id); err != nil && !errors.Is(err, limiter.ErrNotFound) {
		return err
	}
	return nil
}

// namespaceID returns the ID of the namespace, which another process may have
// registered, or "" if there is none.
func (w *Swarm) namespaceID(ctx context.Context, plain *limiter.RateLimiter) (string, error) {
	if w.nsID != "" {
		return w.nsID, nil
	}

	for n, err := range plain.Namespaces(ctx) {
		if err != nil {
			return "", err
		}
		if n.Name == w.opts.Namespace && n.DeletedAt.IsZero() {
			return n.ID, nil
		}
	}
	return "", nil
}

// Scale starts and stops users until there are counts[class] of each class. It
// returns without waiting for the tasks of users that stop.
func (w *Swarm) Scale(counts map[string]int) error {
	if w.limiter == nil {
		return errors.New("scale: the test is not set up; call Setup first")
	}

	// All counts are checked first, so that a wrong one changes nothing.
	for name, n := range counts {
		if w.class(name) == nil {
			return invalid("class", name, "scenario %s has no such class", w.scenario.Name)
		}
		if n < 0 {
			return invalid("users", fmt.Sprint(n), "must be 0 or more")
		}
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.scenario.Classes {
		c := &w.scenario.Classes[i]
		w.scaleClass(c, counts[c.Name])
	}
	return nil
}

// scaleClass starts or stops users of a class. The caller holds w.mu.
func (w *Swarm) scaleClass(c *Class, n int) {
	all := w.running[c.Name]
	for len(all) > n {
		last := len(all) - 1
		w.crew.stop(all[last])
		all[last] = nil
		all = all[:last]
	}

	for len(all) < n {
		r := w.newRunner(c)
		w.done.Add(1)
		w.crew.start(r)
		all = append(all, r)
	}

	w.running[c.Name] = all
}

func (w *Swarm) class(name string) *Class {
	for i := range w.scenario.Classes {
		if w.scenario.Classes[i].Name == name {
			return &w.scenario.Classes[i]
		}
	}
	return nil
}

// Users returns the number of running users by class, without those that were
// stopped and are at their last task.
func (w *Swarm) Users() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := make(map[string]int, len(w.scenario.Classes))
	for _, c := range w.scenario.Classes {
		counts[c.Name] = len(w.running[c.Name])
	}
	return counts
}

// Tasks returns the number of tasks that have ended.
func (w *Swarm) Tasks() int64 { return w.ended.Load() }

// Stop stops all users and waits until their tasks have ended, so that every
// event has been recorded. When ctx ends, Stop cancels the tasks that still run
// and returns the error of ctx after they have ended. A cancelled swarm starts no
// more users.
func (w *Swarm) Stop(ctx context.Context) error {
	w.mu.Lock()
	for i := range w.scenario.Classes {
		w.scaleClass(&w.scenario.Classes[i], 0)
	}
	w.mu.Unlock()

	defer w.crew.end()

	ended := make(chan struct{})
	go func() {
		w.done.Wait()
		close(ended)
	}()

	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		w.cancel()
		<-ended
		return ctx.Err()
	}
}

// hash32 returns a hash of texts.
func hash32(texts ...string) uint32 {
	h := fnv.New32a()
	for _, t := range texts {
		_, _ = h.Write([]byte(t))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum32()
}
