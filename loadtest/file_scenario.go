package loadtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/pause"
)

// scenario returns the scenario that p describes.
func (p plan) scenario() Scenario {
	s := Scenario{Name: p.name, Description: p.description, Shapes: p.shapes, Setup: p.setUp}
	for _, c := range p.classes {
		s.Classes = append(s.Classes, c.class())
	}
	return s
}

// setUp stores the limits of all levels, and the entities that users share.
func (p plan) setUp(ctx context.Context, test *Test) error {
	for _, level := range p.levels {
		if err := setLevel(ctx, test, level); err != nil {
			return err
		}
	}

	for _, c := range p.classes {
		if c.parent == "" {
			continue
		}
		if err := createShared(ctx, test.Client, limiter.Entity{ID: c.parent}); err != nil {
			return err
		}

		// A class may have 10,000 such entities, which take long one after the
		// other.
		shared := c.entity.shared()
		err := inParallel(ctx, len(shared), func(i int) error {
			return createShared(ctx, test.Client, limiter.Entity{ID: shared[i], Parent: c.parent, Cascade: c.cascade})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func setLevel(ctx context.Context, test *Test, level limiter.Config) error {
	switch s := level.Scope; {
	case s.Entity != "":
		return test.SetLimits(ctx, s.Entity, s.Resource, level.Limits...)
	case s.Resource != "":
		return test.SetResourceDefaults(ctx, s.Resource, level.Limits...)
	}
	return test.SetSystemDefaults(ctx, level.Limits...)
}

// shared returns the entities that users share.
func (e entityChoice) shared() []string {
	if e.name != "" {
		return []string{e.name}
	}

	var ids []string
	for i := range e.count {
		ids = append(ids, numberedEntity(i))
	}
	return ids
}

func numberedEntity(i int) string { return fmt.Sprintf("entity-%05d", i) }

// class returns the class that c describes.
func (c plannedClass) class() Class {
	pick := c.entity.picker()
	class := Class{Name: c.name, Weight: c.weight, Wait: c.wait, Start: c.start}
	for _, t := range c.tasks {
		class.Tasks = append(class.Tasks, Task{Name: t.name, Weight: t.weight, Run: t.runner(pick)})
	}
	return class
}

// start names the entity of a user, and creates it if it has a parent.
func (c plannedClass) start(ctx context.Context, u *User) error {
	// The setup has created the entities that users share.
	if c.entity.name != "" || c.entity.count > 0 {
		return nil
	}

	u.Entity = u.ID("user")
	if c.parent == "" {
		return nil
	}
	return createShared(ctx, u.Client, limiter.Entity{ID: u.Entity, Parent: c.parent, Cascade: c.cascade})
}

// picker returns a function that returns the entity of a task.
func (e entityChoice) picker() func(*User) string {
	switch {
	case e.name != "":
		return func(*User) string { return e.name }
	case e.count == 0:
		return func(u *User) string { return u.Entity }
	case e.zipf == 0:
		return func(u *User) string { return numberedEntity(u.Rand.IntN(e.count)) }
	}

	// The table of a large count takes memory, and only users of the class need
	// it.
	ranks := sync.OnceValue(func() *zipf { return newZipf(e.zipf, e.count) })
	return func(u *User) string { return numberedEntity(ranks().rank(u.Rand.Float64())) }
}

// runner returns the function of a task.
func (t plannedTask) runner(entity func(*User) string) func(context.Context, *User) error {
	total := 0
	for _, r := range t.resources {
		total += r.weight
	}

	return func(ctx context.Context, u *User) error {
		req := limiter.Request{
			Entity: entity(u), Resource: t.resource(u.Rand, total), Consume: pickAmounts(t.consume, u.Rand),
		}

		switch t.call {
		case callAvailable:
			_, err := u.Available(ctx, req.Entity, req.Resource)
			return err
		case callTimeUntil:
			_, err := u.TimeUntilAvailable(ctx, req)
			return err
		}

		return u.Do(ctx, req, func(lease *Lease) error { return t.finish(ctx, u.Rand, lease) })
	}
}

// finish holds a lease for the time of the work and corrects it.
func (t plannedTask) finish(ctx context.Context, r *rand.Rand, lease *Lease) error {
	if err := pause.For(ctx, t.work.pick(r)); err != nil {
		return err
	}

	for _, a := range t.used {
		if err := lease.Used(a.limit, a.pick(r)); err != nil {
			return err
		}
	}
	return nil
}

func (t plannedTask) resource(r *rand.Rand, total int) string {
	if len(t.resources) == 1 {
		return t.resources[0].resource
	}

	n := r.IntN(total)
	for _, w := range t.resources {
		if n -= w.weight; n < 0 {
			return w.resource
		}
	}
	return t.resources[0].resource
}

func pickAmounts(amounts []plannedAmount, r *rand.Rand) limiter.Amounts {
	var picked limiter.Amounts
	for _, a := range amounts {
		picked = picked.And(a.limit, a.pick(r))
	}
	return picked
}

func (a plannedAmount) pick(r *rand.Rand) int64 { return a.least + r.Int64N(a.most-a.least+1) }

// pick returns a random time between Min and Max.
func (w Wait) pick(r *rand.Rand) time.Duration {
	return w.Min + time.Duration(r.Int64N(int64(w.Max-w.Min)+1))
}
