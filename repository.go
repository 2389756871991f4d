package limiter

import (
	"context"
	"iter"
	"time"
)

// Repository is the interface of a store, seen from one namespace. Stores
// implement it and [New] takes it. Package repotest tests an implementation.
//
// Every method is safe for concurrent use, checks its context on entry, and
// returns ErrClosed after Close. Methods read no clock: callers pass now, which
// stores truncate to whole milliseconds. (A store on a single machine may read its
// clock to detect a bucket with an impossible time.) Sequences yield at most one
// error, at the end, follow all pages, and hold no lock while the loop body runs.
// Methods neither keep nor change their arguments.
//
// A store may implement these optional interfaces too:
//
//   - [NamespaceIdentifier], so that Wait serves callers in order even if they
//     reach one namespace through different views;
//   - [ManagedStore], so that package manifest can apply limits to it;
//   - [ConfigLister] and [ManagedChecker], if its lists can be incomplete or
//     limited in size;
//   - [StatisticsReporter], if it measures its own work;
//   - [BucketPager], so that a caller can read some of very many buckets;
//   - [ReadBudgeter], if its service bills reads.
//
// [Optional] finds them, also through a [Wrapper].
type Repository interface {
	BucketStore
	EntityStore
	ConfigStore
	NamespaceStore
	HistoryStore
	SwitchStore
	Ping(ctx context.Context) error // checks that the store is reachable
	Close() error                   // idempotent; does nothing on a view
}

// BucketStore charges buckets.
type BucketStore interface {
	// Consume takes every amount from the bucket of the entity and, if the entity
	// cascades, from the buckets of its ancestors, up to the first that does not
	// cascade. The record of an entity without a generation ends the chain at its
	// parent. From the grandparent up, an ancestor for which no limits are stored, for
	// the resource or for all, pays nothing. Consume takes all amounts or none; other
	// callers may briefly see a charge that is then undone. If a limit does
	// not cover its amount, Consume returns an Outcome with Admitted false and a
	// nil error.
	//
	// A missing bucket starts full. Consume first updates a bucket to changed
	// limits: new limits start full, and a lower capacity clamps the balance. A
	// removed limit leaves: the bucket remembers it until it is full, and it comes
	// back with what it has. A bucket whose limits were replaced does not expire,
	// and forgets no limit, until the replaced limits would have been full. Refill
	// and charge use the same now. A now before the bucket's own time counts as that
	// time.
	//
	// A quota gains its capacity, up to the capacity, for each boundary after the
	// window that its tokens belong to. It depends on now and that window alone,
	// not on the bucket's own time. The window never goes back: a now before it
	// counts as its start. A change of a quota's capacity alone moves its tokens by
	// the difference, below zero too. The first boundary after it adds the largest
	// capacity that was in force in the window, if that is more than the present
	// one.
	//
	// A new quota belongs to the window that contains now. A quota whose window or
	// zone changes keeps its tokens, up to its capacity, and also belongs to the
	// window that contains now. There is one exception: if a clock that is ahead has
	// begun the old window after now, the quota belongs to the new window that
	// contains the start of the old one. For example, such a clock has begun March,
	// and on 28 February the quota of a month becomes one of a day. It then belongs to
	// 1 March, whose boundary would otherwise fill it a second time.
	//
	// A shadow limit never refuses, unless the charge is strict. If it covers its
	// amount, Consume takes it. Otherwise an admitted charge spares it: the amount
	// counts as usage, the balance stays, and the count of such charges rises.
	//
	// After an error nothing was admitted. If the context ended, the store gives back
	// what it finds to be stored, soon or when it is closed. A debit may remain if its
	// outcome is unknown; a credit never does. The error is a *DisabledError, which
	// comes before every other answer about limits, an *InvalidError (no account has
	// the limit, or ErrNoLimits), a *CorruptError, ErrNotFound (the namespace is gone)
	// or ErrClosed. Any other error is an outage.
	Consume(ctx context.Context, now time.Time, charge Charge) (Outcome, error)
	// Peek returns the Outcome that Consume would return, including all ancestors,
	// and writes nothing. The amounts may be empty. It returns the same errors.
	Peek(ctx context.Context, now time.Time, charge Charge) (Outcome, error)
	// Credit applies each credit separately, unconditionally and at most once. It
	// never lifts a balance above the capacity, and skips buckets that were deleted.
	// It gives nothing back to a limit that the bucket has forgotten, or to an
	// expired bucket; what it takes, that limit or the bucket's replacement owes. If the
	// outcome of a write is unknown, the store drops a credit that gives back,
	// unless Undo is set and it can be resent safely, and may resend one that
	// takes. Callers do not retry after an error; safe retries are the store's job.
	Credit(ctx context.Context, now time.Time, credits ...Credit) error
	// Buckets iterates over the buckets of an entity, of a resource, of both, or
	// over all if of is the zero Scope, by resource, then entity, with the limits
	// in force at now.
	Buckets(ctx context.Context, now time.Time, of Scope) iter.Seq2[Bucket, error]
	// Fill resets the limits of a bucket, or adds tokens to them, and stores ev in
	// the same write. It first updates the bucket to changed limits, as Consume
	// does. A reset of all limits forgets what earlier limits left. A missing
	// bucket stays missing, since it starts full. If ev of a reset of all limits
	// has the detail "limits", Fill stores the names of the limits there. Fill
	// reports whether it was carried out; it does nothing and stores no event if
	// the ID of a top-up was used for the bucket within TopUpLife. It works on a
	// disabled scope too. The error is an *InvalidError (the bucket lacks a limit,
	// or ErrNoLimits), or the same as for Consume.
	Fill(ctx context.Context, now time.Time, f Fill, ev AuditEvent) (done bool, err error)
}

// TopUpLife is how long a store remembers the ID of a top-up.
const TopUpLife = 24 * time.Hour

// Fill describes a reset or a top-up of the bucket of Entity and Resource. It
// concerns neither the parent nor the usage.
type Fill struct {
	Entity, Resource string // valid
	// Limits names the limits to reset: each becomes full, and a quota belongs to
	// the window of now, or stays in a later one that begins within two minutes,
	// since clocks differ. Empty for all. A reset has neither Amounts nor ID.
	Limits []string
	// Amounts is added by a top-up, up to the capacity; each amount is positive.
	Amounts  Amounts
	ID       string  // identifies a top-up; "" for a reset
	Defaults []Limit // like Charge.Defaults
}

// SwitchStore keeps switches, which turn levels off. The next Consume through the
// same store applies a change. Through another one, it applies at the latest when
// the store's caches expire.
//
// A charge is refused with a *DisabledError if one of the levels of the entity and
// the resource is off, or one of an ancestor that the charge reaches and the resource.
// The error names the first in the order of Precedence, the entity's before those of
// its ancestors. Credit and Fill work as usual. A switch outlives its entity:
// only DeleteSwitch and PurgeNamespace remove it.
type SwitchStore interface {
	// SetSwitch turns s.Scope off. If it is off already, SetSwitch replaces the
	// reason and keeps the time. A *SwitchDelayedError says that the switch is
	// stored, although other processes may not apply it yet.
	SetSwitch(ctx context.Context, s Switch, ev AuditEvent) error
	// DeleteSwitch turns a scope on, or returns ErrNotFound if it is not off.
	DeleteSwitch(ctx context.Context, of Scope, ev AuditEvent) error
	// Switches iterates over the scopes that are off, by entity, then resource.
	Switches(ctx context.Context) iter.Seq2[Switch, error]
	// LastSwitch returns the switch that refused the charges of an entity and a
	// resource when the store last read it, or nil. It does no I/O, since the
	// limiter calls it in an outage.
	LastSwitch(entity, resource string) *Switch
}

// Switch describes a level that is off.
type Switch struct {
	Scope  Scope     // the level
	Reason string    // for people; "" if none was given
	Since  time.Time // in whole seconds
}

// Charge asks for Amounts from the bucket of Entity and Resource and, if the
// entity cascades, from those of its ancestors. An account pays the amounts for
// which it has a limit. Callers validate a charge first.
type Charge struct {
	Entity, Resource string  // valid
	Amounts          Amounts // none is negative; empty to be admitted with nothing taken
	// Limits, if not nil, replaces the stored limits of the entity and its parent for
	// this call. It is valid, in any order.
	Limits []Limit
	// Defaults applies to the entity and its parent where no level holds limits; valid, by
	// name. The bucket keeps its limits that are not in Defaults, because programs
	// with other defaults may share it.
	Defaults []Limit
	Strict   bool // shadow limits refuse as well
	Late     bool // the work is done: switches do not refuse
}

// Account identifies one charged bucket. The store creates it, leases keep it, and
// Credit takes it. It is immutable and may be shared.
type Account struct {
	Entity, Resource string  // the bucket
	Limits           []Limit // the limits in force, by name
	// Source is the level that stores Limits. It is undefined if Charge.Limits is
	// set or Default is true.
	Source Scope
	// Default reports that no level holds limits. Limits then comes from
	// Charge.Defaults. Methods without a charge, such as Buckets, return the limits
	// of the last charge.
	Default bool
	Ref     any // the store's private handle; comparable
}

// Bucket is the balance of an account, refilled up to the time of the call.
type Bucket struct {
	Account *Account // nil if there is no bucket
	Tokens  []int64  // thousandths, in the order of Account.Limits; negative is debt
	// Ahead is how far the bucket's own time is later than the time of the call,
	// because a caller whose clock is ahead charged it. The refill starts at the
	// bucket's own time.
	Ahead time.Duration
	// Updated is when the store last refilled the bucket, in Unix milliseconds. The
	// last charge may be later, by less than the time in which the fastest of its
	// limits fills. It is set by Buckets, BucketPage and BucketsAt only.
	Updated int64
	Detail  *Detail // nil if no limit is a quota and none was spared
}

// Detail holds the fields that few buckets have.
type Detail struct {
	At int64 // the time of the call, in Unix milliseconds
	// Starts holds for each quota the start of the window that its tokens belong
	// to, in Unix milliseconds, and 0 for a rate. It is in the order of
	// Account.Limits, and nil if no limit is a quota.
	Starts []int64
	// Peaks holds for each quota what its next boundary adds, in thousandths: the
	// largest capacity that was in force in the window. It is 0 if that is the present
	// capacity. It is in the order of Account.Limits, and nil if all are 0.
	Peaks []int64
	// Spared holds for each limit whether the charge spared it, in the order of
	// Account.Limits. It is nil if it spared none.
	Spared []bool
}

// Outcome is the result of a charge.
type Outcome struct {
	Admitted bool // every amount was taken; otherwise none was
	// Payers are the buckets after the call: the entity's first, then those of its
	// ancestors that pay, from the parent up. A refusal may leave out the last ones, if
	// the store has not read them.
	Payers []Bucket
	// Exempt names the ancestors that the charge reaches and that pay nothing, because
	// no limits are stored for them. Their switches refuse all the same.
	Exempt []string
}

// Credit changes the balance of one account after a charge.
type Credit struct {
	Account *Account // from an Outcome
	Amounts Amounts  // positive gives back, negative takes more
	// Undo marks the reversal of a charge. The store may use a more expensive
	// write that survives a lost response.
	Undo bool
	// Spared names limits whose amounts change the usage and not the balance,
	// because a charge spared them.
	Spared []string
	// Starts, unless nil, binds the give-backs of quotas to windows, in the order
	// of Account.Limits, as Detail.Starts does. The store gives an amount back
	// while the quota's tokens belong to that window, and drops it otherwise.
	Starts []int64
}

// EntityStore keeps entities. Except in DeleteEntity, the store writes the event
// ev and the change together or not at all. ev.At is the time of the change, which
// the store keeps in whole seconds. The store fills in the fields of ev that only it
// knows.
type EntityStore interface {
	// CreateEntity stores e, or returns ErrExists, or an *InvalidError if e would be its
	// own ancestor or make its chain longer than MaxLevels. The next Consume uses the new
	// record, even on an existing bucket.
	CreateEntity(ctx context.Context, e Entity, ev AuditEvent) error
	// Entity returns the record of an entity, or ErrNotFound.
	Entity(ctx context.Context, id string) (Entity, error)
	// Entities iterates over the entities with the given parent, or over all if
	// parent is "", in ID order.
	Entities(ctx context.Context, parent string) iter.Seq2[Entity, error]
	// DeleteEntity deletes the record, limits, buckets and usage of an entity. It
	// may fail halfway; a second call finishes the work and writes the event. It
	// returns ErrNotFound if there is nothing to delete; an expired bucket may
	// count as something.
	DeleteEntity(ctx context.Context, id string, ev AuditEvent) error
}

// ConfigStore keeps limits. The next Consume through the same store applies a
// change.
type ConfigStore interface {
	// SetConfig stores cfg, the registries of names and the event in one write.
	// Nil Limits and an empty mode leave the stored values.
	SetConfig(ctx context.Context, cfg Config, ev AuditEvent) error
	// Config returns the config of a scope, without Limits if none are stored.
	Config(ctx context.Context, s Scope) (Config, error)
	// DeleteConfig deletes the config of a scope, or returns ErrNotFound.
	DeleteConfig(ctx context.Context, s Scope, ev AuditEvent) error
	// ResourcesWithDefaults returns the resources with limits of their own,
	// sorted.
	ResourcesWithDefaults(ctx context.Context) ([]string, error)
	// ResourcesWithLimits returns the resources for which an entity has limits,
	// sorted. "" stands for limits of an entity for all resources.
	ResourcesWithLimits(ctx context.Context) ([]string, error)
	// EntitiesWithLimits iterates over the IDs of the entities with limits for a
	// resource, sorted. "" stands for limits for all resources.
	EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error]
	// OnUnavailable returns the last known stored mode, or "". It does no I/O,
	// since the limiter calls it in an outage.
	OnUnavailable() OnUnavailable
}

// Config is the configuration stored at one scope.
type Config struct {
	Scope         Scope         // the level
	Limits        []Limit       // by name
	OnUnavailable OnUnavailable // at system scope only
}

// Scope identifies a level of stored limits: Entity and Resource, Entity alone,
// Resource alone, or neither, which is the system.
type Scope struct {
	Entity, Resource string // "" for all
}

// Level returns "entity", "entity_default", "resource" or "system".
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

// Precedence returns the levels for an entity and a resource, most specific first.
// The first level that holds limits provides all of them.
func Precedence(entity, resource string) [4]Scope {
	return [4]Scope{{entity, resource}, {entity, ""}, {"", resource}, {}}
}

// NamespaceStore keeps namespaces. Each method but PurgeNamespace is one
// transaction.
type NamespaceStore interface {
	// Namespace returns a view of an active namespace, or ErrNotFound.
	Namespace(ctx context.Context, name string) (Repository, error)
	// Namespaces iterates over the namespaces in any state, by name, then ID.
	Namespaces(ctx context.Context) iter.Seq2[Namespace, error]
	// RegisterNamespace registers a name, or returns the active namespace of that
	// name.
	RegisterNamespace(ctx context.Context, now time.Time, name string) (Namespace, error)
	// DeleteNamespace deletes a name and keeps its data. It returns ErrNotFound if
	// no active namespace has the name.
	DeleteNamespace(ctx context.Context, now time.Time, name string) error
	// RecoverNamespace activates a deleted namespace again. It returns
	// ErrNotFound, ErrExists if the name is taken, or ErrConflict if the namespace
	// is active or being purged.
	RecoverNamespace(ctx context.Context, now time.Time, id string) (Namespace, error)
	// PurgeNamespace deletes the data of a deleted namespace. It may fail halfway;
	// a second call finishes the work. It returns ErrNotFound, or ErrConflict if
	// the namespace is active.
	PurgeNamespace(ctx context.Context, id string) error
}

// HistoryStore reads audit events and usage, newest first.
type HistoryStore interface {
	// AuditEvents iterates over the events of an entity, or over all events if
	// entity is "". If after is not "", it yields only events older than the event
	// with that ID.
	AuditEvents(ctx context.Context, entity, after string) iter.Seq2[AuditEvent, error]
	// Usage iterates over the snapshots that q selects. Snapshots with the same
	// start are ordered by resource, entity and window.
	Usage(ctx context.Context, q UsageQuery) iter.Seq2[UsageSnapshot, error]
}
