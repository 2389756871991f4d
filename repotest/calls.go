package repotest

import (
	"context"
	"iter"
	"slices"

	"github.com/zeroae/zae-limiter-go"
)

// populate stores something of every kind in a namespace. It returns an
// account with 50 of 60 tokens: key-1, which cascades to project-1.
func (f *fixture) populate() *limiter.Account {
	f.Helper()

	f.setLimits(limiter.Scope{}, perMinute60)
	f.setMode(limiter.Block)
	f.setDefaults(perMinute60)
	f.setLimits(limiter.Scope{Entity: "key-1"}, perMinute60)
	f.createCascading("key-1", "project-1")
	// The switch is of another entity, since one of key-1 would refuse the
	// charge below.
	f.disable(limiter.Scope{Entity: "leaked"}, reason)

	if store, ok := limiter.Optional[limiter.ManagedStore](f.repo); ok {
		f.ok("SetManaged", store.SetManaged(f.ctx, epoch, "", "hash", "", []limiter.Scope{{Resource: model}}))
	}

	return f.take(0, ask("key-1", rpm(10)), 50_000).Payers[0].Account
}

// call is a method call that succeeds on a populated store, if all calls are
// made in order.
type call struct {
	name   string
	scoped bool // fails if the namespace is not active
	do     func(ctx context.Context) error
}

// calls returns a call of every method that can fail. It prepares the
// namespaces that they need.
func (f *fixture) calls(account *limiter.Account) []call {
	f.Helper()

	// Recovering a namespace and purging one exclude each other, so each call
	// has a namespace of its own.
	lost, wrecked, spare := f.lostNamespace("lost"), f.lostNamespace("wrecked"), "spare"

	f.namespace(spare)

	return slices.Concat(f.namespaceCalls(spare, lost, wrecked), f.managedCalls(), f.pageCalls(),
		f.scopedCalls(account))
}

// lostNamespace returns the ID of a deleted namespace.
func (f *fixture) lostNamespace(name string) string {
	f.Helper()
	id, _ := f.namespace(name)
	f.deleteNamespace(name)
	return id
}

func (f *fixture) namespaceCalls(spare, lost, wrecked string) []call {
	r := f.repo
	return []call{
		{"Ping", false, r.Ping},
		{"Namespaces", false, func(ctx context.Context) error { return drain(f, r.Namespaces(ctx)) }},
		{"Namespace", false, func(ctx context.Context) error { _, err := r.Namespace(ctx, spare); return err }},
		{"RegisterNamespace", false, func(ctx context.Context) error {
			_, err := r.RegisterNamespace(ctx, epoch, "new")
			return err
		}},
		{"DeleteNamespace", false, func(ctx context.Context) error { return r.DeleteNamespace(ctx, epoch, spare) }},
		{"RecoverNamespace", false, func(ctx context.Context) error {
			_, err := r.RecoverNamespace(ctx, epoch, lost)
			return err
		}},
		{"PurgeNamespace", false, func(ctx context.Context) error { return r.PurgeNamespace(ctx, wrecked) }},
	}
}

func (f *fixture) scopedCalls(account *limiter.Account) []call {
	r := f.repo
	charge, of := ask("key-1", rpm(1)), limiter.Scope{Resource: model}
	created := limiter.Entity{ID: "key-2", Name: "key-2", CreatedAt: epoch}
	cfg := limiter.Config{Scope: of, Limits: []limiter.Limit{limiter.PerMinute("rpm", 30)}}

	return []call{
		{"Consume", true, func(ctx context.Context) error { _, err := r.Consume(ctx, epoch, charge); return err }},
		{"Peek", true, func(ctx context.Context) error { _, err := r.Peek(ctx, epoch, charge); return err }},
		{"Credit", true, func(ctx context.Context) error {
			return r.Credit(ctx, epoch, limiter.Credit{Account: account, Amounts: rpm(-1)})
		}},
		{"Buckets", true, func(ctx context.Context) error { return drain(f, r.Buckets(ctx, epoch, of)) }},
		{"Usage", true, func(ctx context.Context) error {
			return drain(f, r.Usage(ctx, limiter.UsageQuery{Resource: model}))
		}},
		{"AuditEvents", true, func(ctx context.Context) error { return drain(f, r.AuditEvents(ctx, "$SYSTEM", "")) }},
		{"CreateEntity", true, func(ctx context.Context) error {
			return r.CreateEntity(ctx, created, f.event("entity_created", "key-2"))
		}},
		{"Entity", true, func(ctx context.Context) error { _, err := r.Entity(ctx, "key-1"); return err }},
		{"Entities", true, func(ctx context.Context) error { return drain(f, r.Entities(ctx, "")) }},
		{"SetConfig", true, func(ctx context.Context) error {
			return r.SetConfig(ctx, cfg, f.event("limits_set", auditEntity(of)))
		}},
		{"Config", true, func(ctx context.Context) error { _, err := r.Config(ctx, of); return err }},
		{"ResourcesWithDefaults", true, func(ctx context.Context) error {
			_, err := r.ResourcesWithDefaults(ctx)
			return err
		}},
		{"ResourcesWithLimits", true, func(ctx context.Context) error {
			_, err := r.ResourcesWithLimits(ctx)
			return err
		}},
		{"EntitiesWithLimits", true, func(ctx context.Context) error {
			return drain(f, r.EntitiesWithLimits(ctx, ""))
		}},
		{"Fill", true, func(ctx context.Context) error {
			_, err := r.Fill(ctx, epoch, limiter.Fill{Entity: "key-1", Resource: model},
				f.event("bucket_reset", "key-1"))
			return err
		}},
		{"SetSwitch", true, func(ctx context.Context) error {
			return r.SetSwitch(ctx, limiter.Switch{Scope: of, Since: epoch}, f.event("disabled", auditEntity(of)))
		}},
		{"Switches", true, func(ctx context.Context) error { return drain(f, r.Switches(ctx)) }},
		// Deletions come last: they fail if what they delete is not there.
		{"DeleteSwitch", true, func(ctx context.Context) error {
			return r.DeleteSwitch(ctx, of, f.event("enabled", auditEntity(of)))
		}},
		{"DeleteConfig", true, func(ctx context.Context) error {
			return r.DeleteConfig(ctx, of, f.event("limits_deleted", auditEntity(of)))
		}},
		{"DeleteEntity", true, func(ctx context.Context) error {
			return r.DeleteEntity(ctx, "key-1", f.event("entity_deleted", "key-1"))
		}},
	}
}

// pageCalls returns the calls of a limiter.BucketPager, if the store is one.
func (f *fixture) pageCalls() []call {
	pager, ok := limiter.Optional[limiter.BucketPager](f.repo)
	if !ok {
		return nil
	}

	return []call{
		{"BucketPage", true, func(ctx context.Context) error {
			_, err := pager.BucketPage(ctx, epoch, limiter.BucketQuery{})
			return err
		}},
		{"BucketsAt", true, func(ctx context.Context) error {
			_, err := pager.BucketsAt(ctx, epoch, []limiter.Scope{{Entity: "key-1", Resource: model}})
			return err
		}},
	}
}

// drain returns the error of a sequence.
func drain[T any](f *fixture, seq iter.Seq2[T, error]) error {
	_, err := gather(f, "sequence", seq)
	return err
}
