package telemetry

import (
	"context"
	"iter"

	"github.com/zeroae/zae-limiter-go"
)

// SetSwitch calls SetSwitch of the store.
func (r *Repository) SetSwitch(ctx context.Context, s limiter.Switch, ev limiter.AuditEvent) error {
	return observeError(ctx, r, opSetSwitch, func(ctx context.Context) error {
		return r.Repository.SetSwitch(ctx, s, ev)
	}, s.Scope.Entity, s.Scope.Resource)
}

// DeleteSwitch calls DeleteSwitch of the store.
func (r *Repository) DeleteSwitch(ctx context.Context, of limiter.Scope, ev limiter.AuditEvent) error {
	return observeError(ctx, r, opDeleteSwitch, func(ctx context.Context) error {
		return r.Repository.DeleteSwitch(ctx, of, ev)
	}, of.Entity, of.Resource)
}

// Switches iterates over the switches of the store.
func (r *Repository) Switches(ctx context.Context) iter.Seq2[limiter.Switch, error] {
	return observeAll(ctx, r, opSwitches, r.Repository.Switches)
}
