package limiter

import (
	"context"
	"iter"
	"time"
)

// Repository is the port to a store, seen from one namespace: what an adapter
// implements and [New] takes. Package repotest is its meaning, as tests.
//
// Every method is safe for concurrent use, checks its context on entry, reads
// no clock (now is passed in, and kept in whole milliseconds, truncated), and
// returns ErrClosed after Close. (Where all callers share one machine, a store
// may look at its clock to recognize a bucket whose time was never true.) Sequences end with at most one error, follow
// pages to the end and hold no lock while the loop body runs. Arguments are
// neither kept nor changed after return.
//
// A store may also have NamespaceID() string: then all who wait for a bucket
// stand in one line, whichever view they came by. With Managed, SetManaged
// and ReplaceConfig, as package manifest describes them, manifests can be applied
// to it.
type Repository interface {
	BucketStore
	EntityStore
	ConfigStore
	NamespaceStore
	HistoryStore
	Ping(ctx context.Context) error // nil when the store answers
	Close() error                   // idempotent; does nothing on a view
}

// Charge asks for Amounts from the bucket of Entity and Resource and, if the
// entity cascades, from its parent's. An account pays those amounts it has a
// limit for. Limits, when not nil, are the per-call override. A charge has been
// validated.
type Charge struct {
	Entity, Resource string  // valid
	Amounts          Amounts // none is negative
	Limits           []Limit // valid, in any order
	// Defaults rule an account for which no level holds limits; valid, by name. A
	// limit that its bucket has and Defaults lack stays in the bucket: programs
	// with other defaults may share it, and a limit that rejoins starts full.
	Defaults []Limit
}

// Account is one bucket that was charged: made by the store, kept by leases,
// brought back by Credit. It is immutable and may be shared.
type Account struct {
	Entity, Resource string  // whose bucket it is
	Limits           []Limit // those in force, by name
	Source           Scope   // where they are stored; means nothing under an override or Default
	Default          bool    // they are stored nowhere, but the Defaults of the charge; means nothing in Buckets
	Ref              any     // the store's own handle: comparable, and no one else looks at it
}

// Bucket is what an account holds, refilled to the now of the call.
type Bucket struct {
	Account *Account // nil: there is none
	Tokens  []int64  // thousandths in the order of Account.Limits; negative is debt
	// Ahead is by how much the bucket's own time is later than the now of the
	// call, because a caller with a later clock charged it: it refills from then
	// on. Zero when it is not.
	Ahead time.Duration
}

// Outcome is a charge decided.
type Outcome struct {
	Admitted bool // every amount was taken; else none
	// Self and Parent are as the call left them. Parent.Account is nil when
	// nothing cascades, or when the store refused before it looked there.
	Self, Parent Bucket
}

// Credit changes one account after the fact.
type Credit struct {
	Account *Account // as the store gave it
	Amounts Amounts  // positive gives back, negative takes more
	// Undo says that this undoes a charge: the store may take a dearer way that
	// survives a lost answer.
	Undo bool
}

// Scope is a level of stored limits: Entity and Resource, Entity alone, Resource
// alone, or neither, which is the system.
type Scope struct {
	Entity, Resource string // "" for all
}

// Level is "entity", "entity_default", "resource" or "system".
func (s Scope) Level() string {
	switch {
	case s.Entity != "" && s.Resource != "":
		return "entity"
	case s.Entity != "":
		return "entity_default"
	case s.Resource != "":
		return "resource"
	}
	return "system"
}

// Precedence is the order in which levels are asked; the first that holds
// limits gives all of them.
func Precedence(entity, resource string) [4]Scope {
	return [4]Scope{{entity, resource}, {entity, ""}, {"", resource}, {}}
}

// Config is what one scope holds.
type Config struct {
	Scope         Scope         // the level
	Limits        []Limit       // by name
	OnUnavailable OnUnavailable // at system scope only
}

// BucketStore charges buckets.
type BucketStore interface {
	// Consume takes every amount from the entity's bucket and, if it cascades,
	// from its parent's, or nothing. A missing bucket starts full; changed
	// limits are repaired on the way (new ones full, removed ones gone, lower
	// capacity clamps). Refill and charge share now; a now behind the bucket's
	// own time counts as that time. The net effect is all or none; others may
	// glimpse a charge that is then undone. Refused: Admitted false, nil error.
	// Error: not admitted, though a debit may remain, never a credit.
	// *InvalidError (no account has the limit; ErrNoLimits), *CorruptError,
	// ErrNotFound (namespace gone), ErrClosed; anything else is an outage.
	Consume(ctx context.Context, now time.Time, charge Charge) (Outcome, error)
	// Peek is the Outcome that Consume would have, parent included, and writes
	// nothing. Amounts may be empty. Same errors.
	Peek(ctx context.Context, now time.Time, charge Charge) (Outcome, error)
	// Credit applies each credit by itself, unconditionally, at most once, never
	// above capacity; what is gone is skipped. Unknown outcome: a give-back is
	// dropped, a take may be sent again. After an error the caller does not try
	// again: retrying safely is the store's work.
	Credit(ctx context.Context, now time.Time, credits ...Credit) error
	// Buckets are those of an entity, a resource or both, by resource, then
	// entity, with the limits that are in force now.
	Buckets(ctx context.Context, now time.Time, of Scope) iter.Seq2[Bucket, error]
}

// EntityStore keeps entities. The event ev is stored with the change, both or
// neither; ev.At is the change's time, which the store keeps in whole seconds,
// and the store adds what only it knows.
type EntityStore interface {
	// CreateEntity is known to the next Consume, also on a bucket that was there
	// before. ErrExists.
	CreateEntity(ctx context.Context, e Entity, ev AuditEvent) error
	Entity(ctx context.Context, id string) (Entity, error)                // ErrNotFound
	Entities(ctx context.Context, parent string) iter.Seq2[Entity, error] // by ID; "" is all
	// DeleteEntity may stop half-way; a second call finishes. ErrNotFound, unless
	// there are remains of an expired bucket that the store deletes too.
	DeleteEntity(ctx context.Context, id string, ev AuditEvent) error
}

// ConfigStore keeps limits. A change rules this store's next Consume.
type ConfigStore interface {
	// SetConfig leaves nil Limits and an empty mode as stored. It is atomic with
	// registries and audit.
	SetConfig(ctx context.Context, cfg Config, ev AuditEvent) error
	Config(ctx context.Context, s Scope) (Config, error)                              // no Limits when nothing is stored
	DeleteConfig(ctx context.Context, s Scope, ev AuditEvent) error                   // ErrNotFound
	ResourcesWithDefaults(ctx context.Context) ([]string, error)                      // sorted
	ResourcesWithLimits(ctx context.Context) ([]string, error)                        // at entity level; sorted, "" for limits of all resources
	EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] // by ID; "" as above
	// OnUnavailable is the stored mode as last seen, "" if none. It does no I/O:
	// it is asked when the store is failing.
	OnUnavailable() OnUnavailable
}

// NamespaceStore keeps namespaces. Each step but purge is one transaction.
type NamespaceStore interface {
	Namespace(ctx context.Context, name string) (Repository, error)                       // a view; ErrNotFound unless active
	Namespaces(ctx context.Context) iter.Seq2[Namespace, error]                           // by name, then ID
	RegisterNamespace(ctx context.Context, now time.Time, name string) (Namespace, error) // or the active one of that name
	DeleteNamespace(ctx context.Context, now time.Time, name string) error                // ErrNotFound
	RecoverNamespace(ctx context.Context, now time.Time, id string) (Namespace, error)    // ErrNotFound, ErrExists, ErrConflict
	PurgeNamespace(ctx context.Context, id string) error                                  // ErrNotFound, ErrConflict; a second call finishes
}

// HistoryStore tells what happened, newest first.
type HistoryStore interface {
	// AuditEvents yields the events of an entity, "" for all, older than the
	// event with ID after, "" for all.
	AuditEvents(ctx context.Context, entity, after string) iter.Seq2[AuditEvent, error]
	// Usage are the snapshots that match, equal starts by resource, entity, window.
	Usage(ctx context.Context, q UsageQuery) iter.Seq2[UsageSnapshot, error]
}
