package memory

import (
	"context"
	"iter"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/rules"
)

// SetSwitch turns a level off, and stores the audit event.
func (r *Repository) SetSwitch(ctx context.Context, off limiter.Switch, ev limiter.AuditEvent) error {
	if err := r.requireActive(ctx); err != nil {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	r.switches.Set(off)
	// The fast path of charges does not look at switches. A new generation
	// makes it look.
	r.generation.Add(1)
	r.record(ev)
	return nil
}

// DeleteSwitch turns a level on. The error matches limiter.ErrNotFound if it is not
// off.
func (r *Repository) DeleteSwitch(ctx context.Context, of limiter.Scope, ev limiter.AuditEvent) error {
	if err := r.requireActive(ctx); err != nil {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if _, off := r.switches[of]; !off {
		return rules.NotOff(of)
	}

	delete(r.switches, of)
	r.generation.Add(1)
	r.record(ev)
	return nil
}

// Switches iterates over the levels that are off, by entity, then resource.
func (r *Repository) Switches(ctx context.Context) iter.Seq2[limiter.Switch, error] {
	return rules.Sequence(func() ([]limiter.Switch, error) {
		if err := r.requireActive(ctx); err != nil {
			return nil, err
		}

		r.mu.RLock()
		defer r.mu.RUnlock()
		return r.switches.Sorted(), nil
	})
}

// LastSwitch returns the switch that refuses the charges of an entity and a
// resource, or nil.
func (r *Repository) LastSwitch(entity, resource string) *limiter.Switch {
	r.mu.RLock()
	defer r.mu.RUnlock()
	// Switches precede the error about a chain that is too deep.
	levels, _ := r.chain(entity)
	return r.switches.Refusing(levels, resource)
}
