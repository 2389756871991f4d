package kit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/tty"
	"github.com/zeroae/zae-limiter-go/cmd/internal/hint"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
)

// Exit codes of the program.
const (
	ExitDone       = 0
	ExitFailed     = 1
	ExitUsage      = 2        // the command line is wrong; nothing was done
	ExitExceeded   = 3        // a limit was exceeded
	ExitDrift      = 4        // stored limits differ from the manifest
	ExitDisabled   = 5        // a level is switched off
	ExitBrokenPipe = 128 + 13 // stdout was closed, as a shell reports SIGPIPE
)

// ErrDrift is wrapped by errors that report a difference between the stored
// limits and those of the manifest.
var ErrDrift = errors.New("drift")

// ErrBrokenPipe replaces EPIPE of stdout. It ends the program without a message,
// unlike the EPIPE of a store's connection.
var ErrBrokenPipe = errors.New("stdout was closed before all output was written")

// usageError reports a mistake in the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// Usagef returns the error of a mistake in the command line.
func Usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// commandError is an error of a command that ran another one, and ends with its
// exit code.
type commandError interface {
	error
	ExitCode() int
	// Reported reports whether the other command has reported its failure itself.
	Reported() bool
}

// Message returns the message for an error on one line, or "" if there is
// nothing to report.
func Message(err error) string {
	if failed, ok := errors.AsType[commandError](err); ok && failed.Reported() {
		// The command that ran has reported its failure.
		return ""
	}

	if err = dropBrokenPipe(err); err == nil {
		return ""
	}

	text := strings.ReplaceAll(hint.Text(err), context.Canceled.Error(), "interrupted")
	// A decision without violations has no sentence that could replace the text
	// of the library.
	if ex, ok := errors.AsType[*limiter.ExceededError](err); ok && len(ex.Decision.Violations()) > 0 {
		reasons := strings.Join(jsonview.Reasons(ex.Decision), "; ")
		text = strings.Replace(text, ex.Error(), "limit exceeded: "+reasons, 1)
	}

	return tty.Visible(Shorten(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "; ")))
}

// dropBrokenPipe removes ErrBrokenPipe from an error. It returns nil if nothing
// else failed.
func dropBrokenPipe(err error) error {
	if !errors.Is(err, ErrBrokenPipe) {
		return err
	}

	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	// Joined errors are failures of their own, and only that of the pipe needs no
	// message.
	var rest []error
	for _, e := range joined.Unwrap() {
		rest = append(rest, dropBrokenPipe(e))
	}
	return errors.Join(rest...)
}

// Shorten cuts long words of a message, such as an argument of 100 KB, and the end of
// a long message. A word that it cuts is longer than any useful path.
func Shorten(text string) string {
	const maxWord, maxText = 1000, 3_500

	if len(text) <= maxWord {
		return text
	}

	words := strings.Split(text, " ")
	for i, w := range words {
		if len(w) > maxWord {
			words[i] = Clip(w)
		}
	}

	if text = strings.Join(words, " "); len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return text
}

// ExitCode returns the exit code of the program for an error.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return ExitDone
	// The caller of acquire waits for the code of the command, whatever else
	// failed.
	case Is[commandError](err):
		failed, _ := errors.AsType[commandError](err)
		return failed.ExitCode()
	case Is[*usageError](err):
		return ExitUsage
	case Is[*limiter.ExceededError](err):
		return ExitExceeded
	case Is[*limiter.DisabledError](err):
		return ExitDisabled
	case errors.Is(err, ErrDrift):
		return ExitDrift
	case dropBrokenPipe(err) == nil:
		return ExitBrokenPipe
	}
	return ExitFailed
}

// Is reports whether err is, or wraps, an error of type T.
func Is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
