package limiter

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"
	"unicode/utf8"
)

// DisabledError reports that a level is switched off, so that nothing was taken.
// It is neither a refusal by a limit nor an outage, and [Allow] does not suppress
// it. The level may belong to the parent of the entity; show
// [DisabledError.Public] to clients.
type DisabledError struct {
	Entity, Resource string    // of the refused call
	Scope            Scope     // the level that is off
	Reason           string    // why; "" if no reason was given
	Since            time.Time // since when, in whole seconds
}

// Error names the level, the time and the reason.
func (e *DisabledError) Error() string {
	s := fmt.Sprintf("%s is disabled since %s", e.Scope, e.Since.UTC().Format(time.RFC3339))
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// Public returns a sentence for the refused client. It omits the level and the
// reason, which may be about another entity.
func (e *DisabledError) Public() string {
	return fmt.Sprintf("access of %s to %s is disabled", e.Entity, e.Resource)
}

// Refuse returns the error for a call that s refuses.
func (s Switch) Refuse(entity, resource string) *DisabledError {
	return &DisabledError{Entity: entity, Resource: resource, Scope: s.Scope, Reason: s.Reason, Since: s.Since}
}

// maxReason is the length of the longest reason, in characters.
const maxReason = 1000

// Disable switches a level off: an entity and a resource, an entity, a resource,
// or with the zero Scope everything in the namespace. Every Acquire that the level
// concerns returns a *[DisabledError] until Enable, and so do the calls of the
// children that cascade to the entity. Open leases can settle. The reason is for
// people; it replaces the reason of a level that is off already.
//
// Disable takes effect at once in this process and, for an entity, on its buckets
// in all processes. Other levels apply in other processes at the latest when their
// caches expire. If Disable stored the switch but could not mark all buckets of the
// entity, it returns a *[SwitchDelayedError]. On DynamoDB it also waits for buckets
// that calls on their way create, about a second. Services that use the Python
// library do not know switches.
func (l *RateLimiter) Disable(ctx context.Context, of Scope, reason string) error {
	if err := of.validate(); err != nil {
		return err
	}

	if utf8.RuneCountInString(reason) > maxReason || !utf8.ValidString(reason) {
		return invalid("reason", reason, "must be UTF-8 of at most "+strconv.Itoa(maxReason)+" characters")
	}

	ev, err := l.configEvent("disabled", of, map[string]any{"reason": reason})
	if err != nil {
		return err
	}

	s := Switch{Scope: of, Reason: reason, Since: ev.At.Truncate(time.Second)}
	err = callStore(ctx, "disable", of.Entity, of.Resource, func() error { return l.repo.SetSwitch(ctx, s, ev) })
	// The switch may be stored even after an error, so waiters ask the
	// store.
	l.queues.switched(namespaceID(l.repo, ""), of, time.Now())
	return err
}

// Enable switches a level on again. It returns ErrNotFound if it is not off.
// A level that is on does not override another one that is off.
func (l *RateLimiter) Enable(ctx context.Context, of Scope) error {
	if err := of.validate(); err != nil {
		return err
	}

	ev, err := l.configEvent("enabled", of, map[string]any{})
	if err != nil {
		return err
	}

	err = callStore(ctx, "enable", of.Entity, of.Resource, func() error { return l.repo.DeleteSwitch(ctx, of, ev) })
	l.queues.switched(namespaceID(l.repo, ""), of, time.Now())
	return err
}

// Switches iterates over the levels that are off, by entity, then resource.
func (l *RateLimiter) Switches(ctx context.Context) iter.Seq2[Switch, error] {
	return translateErrors(ctx, "switches", "", "", l.repo.Switches(ctx))
}

// String names the level, such as "entity key-1 and resource gpt-4" or
// "everything".
func (s Scope) String() string {
	switch s.Level() {
	case "entity":
		return "entity " + s.Entity + " and resource " + s.Resource
	case "entity_default":
		return "entity " + s.Entity
	case "resource":
		return "resource " + s.Resource
	}
	return "everything"
}

// validate checks the names of a scope.
func (s Scope) validate() error {
	if s.Entity != "" {
		if err := validEntity(s.Entity); err != nil {
			return err
		}
	}

	if s.Resource != "" {
		return validResource(s.Resource)
	}
	return nil
}
