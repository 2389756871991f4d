package telemetry

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go"
)

// errorType returns the value of error.type: one of a few words, since the text of
// an error may contain anything.
func errorType(err error) string {
	// What comes first here may be wrapped by the types further down: a charge
	// without limits is also an *InvalidError.
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline_exceeded"
	case errors.Is(err, limiter.ErrNoLimits):
		return "no_limits"
	case errors.Is(err, limiter.ErrNotFound):
		return "not_found"
	case errors.Is(err, limiter.ErrExists):
		return "exists"
	case errors.Is(err, limiter.ErrConflict):
		return "conflict"
	case errors.Is(err, limiter.ErrClosed):
		return "closed"
	case errors.Is(err, errors.ErrUnsupported):
		return "unsupported"
	case is[*limiter.InvalidError](err):
		return "invalid"
	case is[*limiter.CorruptError](err):
		return "corrupt"
	case is[*limiter.VersionError](err):
		return "version"
	}

	// Any other error of a store is an outage.
	return "unavailable"
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
