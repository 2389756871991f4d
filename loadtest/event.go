package loadtest

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// Types of events.
const (
	Acquire                = "ACQUIRE"      // a lease was obtained, or the call failed
	RateLimited            = "RATE_LIMITED" // a limit was exceeded, which counts as success
	Commit                 = "COMMIT"       // a lease with adjustments was settled
	Available              = "AVAILABLE"
	TimeUntilAvailable     = "TIME_UNTIL_AVAILABLE"
	IsAvailable            = "IS_AVAILABLE"
	SetLimits              = "SET_LIMITS"
	GetLimits              = "GET_LIMITS"
	DeleteLimits           = "DELETE_LIMITS"
	SetResourceDefaults    = "SET_RESOURCE_DEFAULTS"
	GetResourceDefaults    = "GET_RESOURCE_DEFAULTS"
	DeleteResourceDefaults = "DELETE_RESOURCE_DEFAULTS"
	SetSystemDefaults      = "SET_SYSTEM_DEFAULTS"
	GetSystemDefaults      = "GET_SYSTEM_DEFAULTS"
	DeleteSystemDefaults   = "DELETE_SYSTEM_DEFAULTS"
	ListResources          = "LIST_RESOURCES_WITH_DEFAULTS"
	CreateEntity           = "CREATE_ENTITY"
	GetEntity              = "GET_ENTITY"
	DeleteEntity           = "DELETE_ENTITY"
	GetChildren            = "GET_CHILDREN"

	// TaskError reports an error of a task, or of the start of a user, that is not
	// the error of a call. There is no event for a task that succeeds.
	TaskError = "TASK"
)

// Names of events that concern no resource.
const (
	SystemName = "system"
	EntityName = "entity"
)

// Event is one measured call.
type Event struct {
	Type string    // such as Acquire
	Name string    // resource, "system" or "entity"; bounded in number
	At   time.Time // when the call ended
	// Latency is the time since the start of the call. The first call of a task
	// of the open model counts from the intended start.
	Latency time.Duration
	Err     error // why the call failed; nil for a refusal
}

// Kind returns the kind of a failure for statistics: "task", "timeout",
// "unavailable", "invalid", "corrupt", "not found", "exists", "conflict",
// "closed", "canceled" or "other".
func Kind(err error) string {
	switch {
	// The error of a task may wrap any other, so this case comes first.
	case is[*taskError](err):
		return "task"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case is[*limiter.UnavailableError](err):
		return "unavailable"
	case is[*limiter.InvalidError](err):
		return "invalid"
	case is[*limiter.CorruptError](err):
		return "corrupt"
	}

	for _, state := range []struct {
		error
		kind string
	}{
		{limiter.ErrNotFound, "not found"},
		{limiter.ErrExists, "exists"},
		{limiter.ErrConflict, "conflict"},
		{limiter.ErrClosed, "closed"},
	} {
		if errors.Is(err, state.error) {
			return state.kind
		}
	}
	return "other"
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
