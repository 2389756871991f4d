package loadtest

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go"
)

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
