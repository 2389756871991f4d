package limiter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// Errors that name a state. Returned errors wrap them with the subject; match
// them with [errors.Is].
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already exists")
	// ErrConflict is wrapped by the error of a call that would be right in another
	// state of its subject. For example, a namespace cannot be recovered or purged
	// while it is active, and a manifest cannot be applied if another client has
	// applied one since the caller read the store.
	ErrConflict  = errors.New("not possible in this state")
	ErrLeaseDone = errors.New("lease has ended")
	ErrClosed    = errors.New("repository is closed")
	// ErrNoLimits is wrapped by the *InvalidError of a call for which no level
	// stores limits.
	ErrNoLimits = errors.New("no limits")
	// ErrUnknown is wrapped by the *InvalidError of a name that has the right form
	// and that the store or the system does not know: a limit that no level has, or
	// the zone of a quota.
	ErrUnknown = errors.New("unknown name")
	// ErrNeverFits matches an *ExceededError whose request is above a capacity,
	// so that waiting does not help.
	ErrNeverFits = errors.New("request is above the capacity")
)

// UnavailableError reports an outage: the store was not reachable, did not answer
// in time, or gave an unexpected answer. After a failed acquire the charge may be
// stored; the refill makes up for it.
type UnavailableError struct {
	Op, Entity, Resource string // the operation and its target; "" if there is none
	Err                  error  // the store's error
}

// Error names the operation, its target and the store's error.
func (e *UnavailableError) Error() string {
	var about []string
	for _, part := range [][2]string{{"entity", e.Entity}, {"resource", e.Resource}} {
		if part[1] != "" {
			about = append(about, part[0]+"="+part[1])
		}
	}

	s := e.Op + ": store unavailable"
	if len(about) > 0 {
		s += " [" + strings.Join(about, ", ") + "]"
	}
	if e.Err == nil {
		return s
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the store's error.
func (e *UnavailableError) Unwrap() error { return e.Err }

// InvalidError reports bad input. Nothing was written.
type InvalidError struct {
	// Field names the field. Value is its value, at most 50 characters. Reason says
	// what would be right.
	Field, Value, Reason string
	Err                  error // nil, or a sentinel such as [ErrNoLimits]
}

// Error names the field, the value and the reason.
func (e *InvalidError) Error() string {
	if e.Value == "" {
		return "invalid " + e.Field + ": " + e.Reason
	}
	return fmt.Sprintf("invalid %s %q: %s", e.Field, truncateTo(e.Value, maxPrinted), e.Reason)
}

// Unwrap returns e.Err.
func (e *InvalidError) Unwrap() error { return e.Err }

// CorruptError reports damaged data in the store. It is not an outage, so it
// refuses under [Allow] too.
type CorruptError struct {
	Item, Reason string // the location and the damage
}

// Error names the item and the reason.
func (e *CorruptError) Error() string { return "corrupt data in " + e.Item + ": " + e.Reason }

// VersionError reports that this program must not use a store, because the store
// is newer or is not a store of this program. Opening a store returns it.
type VersionError struct {
	Store, Schema, Client string // the store, its version, and the newest version this program knows
	Reason                string // why the versions do not fit, and what to do
}

// Error names both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s: schema %s, this program knows %s: %s", e.Store, e.Schema, e.Client, e.Reason)
}

// SwitchDelayedError reports that Disable stored a switch, so that the level is off,
// but could not mark every bucket of its entity in time. Processes that still have
// the old state cached may admit charges of the buckets without a mark until their
// caches expire. Calling Disable again marks the rest.
type SwitchDelayedError struct {
	Scope Scope // the level that is off
	// Resources names the buckets without a mark, sorted. It is empty if the store
	// could not list them.
	Resources []string
	Within    time.Duration // when every process refuses at the latest
	Err       error         // why buckets have no mark
}

// Error names the level, the buckets, and the store's error.
func (e *SwitchDelayedError) Error() string {
	s := e.Public()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Public returns a sentence without the store's error, for clients.
func (e *SwitchDelayedError) Public() string {
	const shown = 5
	buckets := "some of its buckets"
	if n := len(e.Resources); n > 0 {
		buckets = "its buckets of " + strings.Join(e.Resources[:min(n, shown)], ", ")
		if n > shown {
			buckets += fmt.Sprintf(" and %d more", n-shown)
		}
	}

	return fmt.Sprintf(
		"%s is disabled, but %s may admit calls of other processes for %v; disable it again to shorten that",
		e.Scope, buckets, e.Within,
	)
}

// Unwrap returns the store's error.
func (e *SwitchDelayedError) Unwrap() error { return e.Err }

// callStore makes one call to the store and translates its error. It makes none
// if ctx has ended.
func callStore(ctx context.Context, op, entity, resource string, call func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return translateError(ctx, op, entity, resource, call())
}

// translateErrors returns seq with its error translated. The sequence yields only
// the error of ctx if ctx has ended before it starts.
func translateErrors[T any](
	ctx context.Context, op, entity, resource string, seq iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := ctx.Err(); err != nil {
			var zero T
			yield(zero, err)
			return
		}

		for v, err := range seq {
			if !yield(v, translateError(ctx, op, entity, resource, err)) {
				return
			}
		}
	}
}

// errorSeq returns a sequence that yields only err.
func errorSeq[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		yield(zero, err)
	}
}

// translateError converts an error of the store for the caller. Errors that this
// package documents pass unchanged, another cancellation by the caller becomes the
// error of ctx, and any other error becomes an *UnavailableError.
func translateError(ctx context.Context, op, entity, resource string, err error) error {
	if err == nil {
		return nil
	}
	// Something is stored, even if the caller has left.
	if isType[*SwitchDelayedError](err) {
		return err
	}
	// The store may return any error if the caller cancels. A deadline that
	// passes in the store counts as an outage.
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}

	if bad, ok := errors.AsType[*InvalidError](err); ok {
		// The store may share the error, so a shorter value needs a copy.
		if short := truncate(bad.Value); short != bad.Value {
			return &InvalidError{bad.Field, short, bad.Reason, bad.Err}
		}
		return err
	}

	for _, state := range []error{ErrNotFound, ErrExists, ErrConflict, ErrClosed} {
		if errors.Is(err, state) {
			return err
		}
	}

	if isType[*CorruptError](err) || isType[*VersionError](err) || isType[*UnavailableError](err) ||
		isType[*DisabledError](err) {
		return err
	}
	return &UnavailableError{Op: op, Entity: entity, Resource: resource, Err: err}
}

func isType[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
