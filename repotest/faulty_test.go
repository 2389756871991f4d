package repotest

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/memory"
)

// plan is a fault for every method. Tests change it between calls.
type plan struct {
	fault  Fault
	method string // of the last call
}

func (p *plan) next(method string) Fault {
	p.method = method
	return p.fault
}

func TestFaultyWithoutFaultsIsTheRepository(t *testing.T) {
	t.Parallel()
	Run(t, func(*testing.T) limiter.Repository {
		return NewFaulty(memory.New(nil), func(string) Fault { return None })
	})
}

func TestEveryCallFailsByPlan(t *testing.T) {
	t.Parallel()
	for fault, want := range map[Fault]error{None: nil, Before: ErrInjected, After: ErrInjected} {
		p := new(plan)
		f := newFixture(t, NewFaulty(memory.New(nil), p.next))
		for _, inside := range []*fixture{f, viewOf(f)} {
			calls := inside.calls(inside.populate())
			for _, c := range calls {
				p.fault = fault
				err := c.do(f.ctx)
				p.fault = None
				f.fails(c.name, err, want)
				f.equal("method asked for", p.method, c.name)
			}
		}
	}
}

func viewOf(f *fixture) *fixture {
	f.Helper()
	_, view := f.namespace("view")
	return view
}

func TestBeforeWritesNothing(t *testing.T) {
	t.Parallel()
	p := new(plan)
	f := newFixture(t, NewFaulty(memory.New(nil), p.next))
	calls := f.calls(f.populate())
	before := f.state(0)
	p.fault = Before
	for _, c := range calls {
		f.fails(c.name, c.do(f.ctx), ErrInjected)
	}
	p.fault = None
	f.equal("state", f.state(0), before)
}

// TestAfterWritesEverything checks that calls with the fault After leave the
// same store as calls without faults.
func TestAfterWritesEverything(t *testing.T) {
	t.Parallel()
	var states []state
	for _, fault := range []Fault{None, After} {
		p := new(plan)
		f := newFixture(t, NewFaulty(memory.New(nil), p.next))
		calls := f.calls(f.populate())
		p.fault = fault
		for _, c := range calls {
			err := c.do(f.ctx)
			if fault == None {
				f.ok(c.name, err)
			}
		}
		p.fault = None
		s := f.state(0)
		for i := range s.Namespaces {
			s.Namespaces[i].ID, s.Namespaces[i].CreatedAt = "", epoch // random, and from the clock
		}
		states = append(states, s)
	}
	newFixture(t, nil).equal("state", states[1], states[0])
}

func TestAfterDropsTheAnswer(t *testing.T) {
	t.Parallel()
	p := new(plan)
	f := newFixture(t, NewFaulty(memory.New(nil), p.next))
	f.setDefaults(perMinute60)
	p.fault = After
	out, err := f.repo.Consume(f.ctx, epoch, ask("key-1", rpm(1)))
	f.fails("Consume", err, ErrInjected)
	f.equal("outcome", out, limiter.Outcome{})
	all, err := gather(f, "Buckets", f.repo.Buckets(f.ctx, epoch, limiter.Scope{Entity: "key-1"}))
	f.fails("Buckets", err, ErrInjected)
	f.equal("buckets before the error", len(all), 1)
	p.fault = None
	f.holds(0, "key-1", 59_000)
}

func TestInjectedFaultIsAnOutage(t *testing.T) {
	t.Parallel()
	repo := NewFaulty(memory.New(nil), func(string) Fault { return Before })
	lim, err := limiter.New(repo, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lim.Acquire(t.Context(), limiter.Request{Entity: "key-1", Resource: model, Consume: rpm(1)})
	if _, ok := errors.AsType[*limiter.UnavailableError](err); !ok || !errors.Is(err, ErrInjected) {
		t.Errorf("error %v, want an *UnavailableError that wraps ErrInjected", err)
	}
}
