package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go"
)

// Exit codes of the program.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2        // the command line is wrong; nothing was done
	exitExceeded = 3        // a limit was exceeded
	exitDrift    = 4        // what is there differs from what was declared
	exitLeft     = 128 + 13 // the reader of stdout has left, as a shell reports SIGPIPE
)

// errDrift is matched by an error that says that something differs from what
// was declared.
var errDrift = errors.New("drift")

// usageError says what is wrong with the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// sentence is what went wrong on one line, or "" if that has been said.
func sentence(err error) string {
	if failed, ok := errors.AsType[*commandError](err); ok && failed.err == nil {
		return "" // the command said it
	}
	if err = besideLeft(err); err == nil {
		return ""
	}
	text := strings.ReplaceAll(err.Error(), context.Canceled.Error(), "interrupted")
	if ex, ok := errors.AsType[*limiter.ExceededError](err); ok && len(ex.Decision.Violations()) > 0 {
		text = strings.Replace(text, ex.Error(), "limit exceeded: "+strings.Join(reasons(ex.Decision), "; "), 1)
	}
	return visible(shorten(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")))
}

// besideLeft is an error without that the reader of the output has left, nil if
// nothing else failed.
func besideLeft(err error) error {
	if !errors.Is(err, errLeft) {
		return err
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var rest []error
	for _, e := range joined.Unwrap() {
		rest = append(rest, besideLeft(e))
	}
	return errors.Join(rest...)
}

// shorten cuts what no sentence needs, such as an argument of 100 KB: words longer than a
// path can usefully be, and the end of a text that does not stop.
func shorten(text string) string {
	const longestWord, longest = 1000, 3_500
	if len(text) <= longestWord {
		return text
	}
	words := strings.Split(text, " ")
	for i, w := range words {
		if len(w) > longestWord {
			words[i] = clip(w)
		}
	}
	if text = strings.Join(words, " "); len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "..."
	}
	return text
}

// exitCode is the one place that knows which error ends the program how.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitDone
	case is[*commandError](err):
		failed, _ := errors.AsType[*commandError](err)
		return failed.code
	case is[*usageError](err):
		return exitUsage
	case is[*limiter.ExceededError](err):
		return exitExceeded
	case errors.Is(err, errDrift):
		return exitDrift
	case besideLeft(err) == nil:
		return exitLeft
	}
	return exitFailed
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
