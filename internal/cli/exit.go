package cli

import (
	"errors"
	"fmt"

	"github.com/zeroae/zae-limiter-go"
)

// Exit codes of the program.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2 // the command line is wrong; nothing was done
	exitExceeded = 3 // a limit was exceeded
	exitDrift    = 4 // what is there differs from what was declared
)

// errDrift is matched by an error that says that something differs from what
// was declared.
var errDrift = errors.New("drift")

// usageError says what is wrong with the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// exitCode is the one place that knows which error ends the program how.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitDone
	case is[*usageError](err):
		return exitUsage
	case is[*limiter.ExceededError](err):
		return exitExceeded
	case errors.Is(err, errDrift):
		return exitDrift
	}
	return exitFailed
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
