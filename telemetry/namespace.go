package telemetry

import (
	"context"
	"iter"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Namespaces iterates over the namespaces of the store.
func (r *Repository) Namespaces(ctx context.Context) iter.Seq2[limiter.Namespace, error] {
	return observeAll(ctx, r, opNamespaces, r.Repository.Namespaces)
}

// RegisterNamespace calls RegisterNamespace of the store.
func (r *Repository) RegisterNamespace(ctx context.Context, now time.Time, name string) (limiter.Namespace, error) {
	return observe(ctx, r, opRegisterNamespace, func(ctx context.Context) (limiter.Namespace, error) {
		return r.Repository.RegisterNamespace(ctx, now, name)
	})
}

// DeleteNamespace calls DeleteNamespace of the store.
func (r *Repository) DeleteNamespace(ctx context.Context, now time.Time, name string) error {
	return observeError(ctx, r, opDeleteNamespace, func(ctx context.Context) error {
		return r.Repository.DeleteNamespace(ctx, now, name)
	})
}

// RecoverNamespace calls RecoverNamespace of the store.
func (r *Repository) RecoverNamespace(ctx context.Context, now time.Time, id string) (limiter.Namespace, error) {
	return observe(ctx, r, opRecoverNamespace, func(ctx context.Context) (limiter.Namespace, error) {
		return r.Repository.RecoverNamespace(ctx, now, id)
	})
}

// PurgeNamespace calls PurgeNamespace of the store.
func (r *Repository) PurgeNamespace(ctx context.Context, id string) error {
	return observeError(ctx, r, opPurgeNamespace, func(ctx context.Context) error {
		return r.Repository.PurgeNamespace(ctx, id)
	})
}

// AuditEvents iterates over the audit events of the store.
func (r *Repository) AuditEvents(ctx context.Context, entity, after string) iter.Seq2[limiter.AuditEvent, error] {
	return observeAll(ctx, r, opAuditEvents, func(ctx context.Context) iter.Seq2[limiter.AuditEvent, error] {
		return r.Repository.AuditEvents(ctx, entity, after)
	}, entity, "")
}

// Usage iterates over the usage snapshots of the store.
func (r *Repository) Usage(ctx context.Context, q limiter.UsageQuery) iter.Seq2[limiter.UsageSnapshot, error] {
	return observeAll(ctx, r, opUsage, func(ctx context.Context) iter.Seq2[limiter.UsageSnapshot, error] {
		return r.Repository.Usage(ctx, q)
	}, q.Entity, q.Resource)
}

// Ping calls Ping of the store.
func (r *Repository) Ping(ctx context.Context) error {
	return observeError(ctx, r, opPing, r.Repository.Ping)
}
