package limiter

import (
	"context"
	"iter"
	"time"
)

// Wrapper is a [Repository] around another one. It has the methods of all optional
// interfaces, since it cannot know which of them its store has. [Optional] looks
// inside.
type Wrapper interface {
	// Unwrap returns the repository inside.
	Unwrap() Repository
}

// Optional returns repo as T, an optional interface of a [Repository], and reports
// whether repo has it. A [Wrapper] has it only if every repository inside has it
// too.
func Optional[T any](repo Repository) (T, bool) {
	found, ok := repo.(T)
	// A wrapper has the methods of all optional interfaces, so only its
	// store can say no.
	for ok {
		w, wraps := repo.(Wrapper)
		if !wraps {
			return found, true
		}
		repo = w.Unwrap()
		_, ok = repo.(T)
	}

	var none T
	return none, false
}

// NamespaceIdentifier is an optional interface of a [Repository] that identifies
// its namespace. Views with the same ID share the queues of Wait.
type NamespaceIdentifier interface {
	// NamespaceID returns the ID of the namespace of this view.
	NamespaceID() string
}

// ManagedStore is an optional interface of a [Repository] to which package manifest
// can apply limits. For its namespace, the store keeps a list of managed scopes, a
// hash and an owner.
type ManagedStore interface {
	// Managed returns the values stored by the last SetManaged, with scopes ordered
	// by entity, then resource. All are empty at first. If the scopes are damaged,
	// it returns the hash and the owner with a *CorruptError. Other errors are
	// ErrNotFound (the namespace is gone) and ErrClosed; any other is an outage.
	Managed(ctx context.Context) (scopes []Scope, hash, owner string, err error)
	// SetManaged replaces scopes, hash and owner in one write, even if the stored
	// scopes are damaged. It returns ErrConflict if the stored hash is not
	// previous, which is "" at first, and an *InvalidError if there are more
	// scopes than the store can list. Other errors are the same as for Managed.
	SetManaged(ctx context.Context, now time.Time, previous, hash, owner string, scopes []Scope) error
	// ReplaceConfig stores cfg in one write, like SetConfig, except that nil Limits
	// and an empty mode delete the stored values. A cfg with neither is a case for
	// DeleteConfig.
	ReplaceConfig(ctx context.Context, cfg Config, ev AuditEvent) error
}

// ConfigLister is an optional interface of a [ManagedStore] that may hold limits
// missing from its lists, because another program stored them. Applying a
// manifest writes such limits again.
type ConfigLister interface {
	// ConfigListed returns the config of a scope and reports whether the lists
	// include it.
	ConfigListed(ctx context.Context, s Scope) (cfg Config, listed bool, err error)
}

// ManagedChecker is an optional interface of a [ManagedStore] that limits the size
// of its list of scopes.
type ManagedChecker interface {
	// CheckManaged returns an *InvalidError if SetManaged would refuse so many
	// scopes.
	CheckManaged(scopes []Scope) error
}

// StatisticsReporter is an optional interface of a [Repository] that measures its
// own work. Package telemetry exports the values.
type StatisticsReporter interface {
	// Statistics iterates over the current values, summed over all views. The names
	// differ from each other and never change. A wrapper yields its own values even
	// if its store reports none, so that a type assertion finds the interface.
	// Statistics does no I/O, and works after Close.
	Statistics() iter.Seq[Statistic]
}

// Statistic is one value that a repository measures. The names store.billed_reads
// and store.billed_writes are reserved for the units that a service bills.
type Statistic struct {
	Name        string  // dotted, such as "store.requests"
	Unit        string  // a unit of UCUM: "s", or the counted thing in braces, such as "{request}"
	Description string  // one sentence without its full stop
	Total       bool    // the value counts from 0 and only grows; otherwise it goes up and down
	Value       float64 // NaN while unknown
}
