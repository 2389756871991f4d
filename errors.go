package limiter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// States, wrapped with what they are about; match them with [errors.Is].
var (
	ErrNotFound  = errors.New("not found")
	ErrExists    = errors.New("exists already")
	ErrConflict  = errors.New("not possible in this state")
	ErrLeaseDone = errors.New("lease has ended")
	ErrClosed    = errors.New("repository is closed")
	// ErrNoLimits is inside the *InvalidError of a call for which no limits are
	// stored at any level.
	ErrNoLimits = errors.New("no limits")
	// ErrNeverFits is matched by an *ExceededError whose request is above a
	// capacity: waiting does not help.
	ErrNeverFits = errors.New("request is above the capacity")
)

// ExceededError is a refusal: some limit does not cover its amount, and nothing
// was taken from any. Its Decision has the status of every limit of the entity
// and of its parent. It matches [ErrNeverFits] when an amount is above a
// capacity. [ExceededError.Public] is what a client may see of it.
type ExceededError struct{ Decision }

// Error names the entity and resource of the longest wait, every limit that was
// exceeded, and when to retry, or why no retry helps.
func (e *ExceededError) Error() string {
	p := e.Primary()
	return refusalText(p.Entity, p.Resource, e.Violations(), e.Decision)
}

// refusalText is the text of a refusal that names violations, and the advice of
// the decision. The reason why it never fits is named only if it is among them.
func refusalText(entity, resource string, violations []Status, d Decision) string {
	text := fmt.Sprintf("Rate limit exceeded for %s/%s", entity, resource)
	if len(violations) > 0 {
		names := make([]string, len(violations))
		for i, s := range violations {
			names[i] = s.Limit.Name
		}
		text += ": [" + strings.Join(names, ", ") + "]"
	}
	if !d.NeverFits() {
		return fmt.Sprintf("%s. Retry after %.1fs", text, d.RetryAfter().Seconds())
	}
	for _, s := range violations {
		if s.NeverFits {
			return fmt.Sprintf("%s. Never fits: %d %s is above the capacity (burst) of %d", text, s.Requested, s.Limit.Name, s.Limit.Capacity)
		}
	}
	return text + ". Never fits: the request is above a capacity (burst)"
}

// Is matches ErrNeverFits when waiting would not help.
func (e *ExceededError) Is(target error) bool { return target == ErrNeverFits && e.NeverFits() }

// RetryAfterHeader is the value of an HTTP Retry-After header: whole seconds,
// rounded up, at least "1". It is "" when the request never fits: set the header
// only if the value is not empty.
func (e *ExceededError) RetryAfterHeader() string {
	if e.NeverFits() {
		return ""
	}
	wait := e.RetryAfter()
	seconds := wait / time.Second
	if wait%time.Second > 0 || seconds == 0 {
		seconds++
	}
	return strconv.FormatInt(int64(seconds), 10)
}

type statusJSON struct {
	Entity     string  `json:"entity_id"`
	Resource   string  `json:"resource"`
	Limit      string  `json:"limit_name"`
	Capacity   int64   `json:"capacity"`
	Refill     int64   `json:"refill_amount"`
	Seconds    int64   `json:"refill_period_seconds"`
	Available  int64   `json:"available"`
	Requested  int64   `json:"requested"`
	Exceeded   bool    `json:"exceeded"`
	RetryAfter float64 `json:"retry_after_seconds"`
}

// MarshalJSON gives the whole refusal: error, message, retry_after_seconds,
// retry_after_ms, and limits with every status; never_fits if waiting does not
// help. It shows the id, capacity and balance of the parent: a response body for
// clients is [ExceededError.Public].
func (e *ExceededError) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Error      string       `json:"error"`
		Message    string       `json:"message"`
		RetryAfter float64      `json:"retry_after_seconds"`
		Millis     int64        `json:"retry_after_ms"`
		NeverFits  bool         `json:"never_fits,omitempty"`
		Limits     []statusJSON `json:"limits"`
	}{refused, e.Error(), seconds(e.RetryAfter()), e.RetryAfter().Milliseconds(), e.NeverFits(), statusObjects(e.Statuses)})
}

// refused is the "error" of every refusal.
const refused = "rate_limit_exceeded"

func statusObjects(all []Status) []statusJSON {
	objects := make([]statusJSON, 0, len(all))
	for _, s := range all {
		objects = append(objects, statusJSON{
			s.Entity, s.Resource, s.Limit.Name, s.Limit.Capacity, s.Limit.Refill, int64(s.Limit.Period / time.Second),
			s.Available, s.Requested, s.Exceeded, seconds(s.RetryAfter),
		})
	}
	return objects
}

// seconds divides once, so that a whole millisecond prints as short as it is.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// UnavailableError is an outage: the store could not be reached, or did not
// answer in time, or not in a way that is understood. After a failed acquire a
// debit may remain; it heals by refill.
type UnavailableError struct {
	Op, Entity, Resource string // what was being done; empty where it is about none
	Err                  error  // what the store said
}

// Error says what could not be done, about what, and why.
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

// Unwrap is what the store said.
func (e *UnavailableError) Unwrap() error { return e.Err }

// InvalidError is bad input; nothing was written.
type InvalidError struct {
	Field, Value, Reason string // what is wrong, as given (cut to 50 characters), and what would be right
	Err                  error  // nil, or a sentinel such as [ErrNoLimits]
}

// Error is one sentence of Field, Value and Reason.
func (e *InvalidError) Error() string {
	if e.Value == "" {
		return "invalid " + e.Field + ": " + e.Reason
	}
	return fmt.Sprintf("invalid %s %q: %s", e.Field, clipTo(e.Value, maxPrinted), e.Reason)
}

// Unwrap is Err.
func (e *InvalidError) Unwrap() error { return e.Err }

// CorruptError is stored data that cannot be. It is no outage: it refuses in
// either mode.
type CorruptError struct {
	Item, Reason string // where it is, and what is wrong with it
}

// Error names the item.
func (e *CorruptError) Error() string { return "corrupt data in " + e.Item + ": " + e.Reason }

// VersionError says that this program must not use that store: the store is
// newer, or belongs to something else. Opening a store returns it.
type VersionError struct {
	Store, Schema, Client string // which one, its version, and the newest this program knows
	Reason                string // and what to do
}

// Error names both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s: schema %s, this program knows %s: %s", e.Store, e.Schema, e.Client, e.Reason)
}

// failure is what a caller gets for what the store returned: errors this
// package lists as they are, a caller's own cancellation as it is, anything
// else as an outage.
func failure(ctx context.Context, op, entity, resource string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	if bad, ok := errors.AsType[*InvalidError](err); ok {
		if short := clip(bad.Value); short != bad.Value {
			return &InvalidError{bad.Field, short, bad.Reason, bad.Err} // the store's own is not ours to write
		}
		return err
	}
	for _, state := range []error{ErrNotFound, ErrExists, ErrConflict, ErrClosed} {
		if errors.Is(err, state) {
			return err
		}
	}
	if isType[*CorruptError](err) || isType[*VersionError](err) || isType[*UnavailableError](err) {
		return err
	}
	return &UnavailableError{Op: op, Entity: entity, Resource: resource, Err: err}
}

// guarded makes one call of the store, unless ctx has ended before it.
func guarded(ctx context.Context, op, entity, resource string, call func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return failure(ctx, op, entity, resource, call())
}

func isType[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
