package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// Kind is the kind of a [Fault].
type Kind int

// The kinds of faults, with what Name, Want, Got and Err have.
const (
	OtherMethod       Kind = iota // Want: the methods of the path
	OtherType                     // of the body, which is not plain JSON
	CutOff                        // the body did not arrive whole; Err
	NotObject                     // the body is not one JSON object
	Trailing                      // something follows the object
	WrongType                     // the field Name is Got in place of Want
	WrongValue                    // the type of a field refuses its value; Err
	UnknownField                  // Name; Want: the fields
	RepeatedField                 // Name occurs twice in an object
	Unusual                       // a null, a field in another case, too many or too deep values
	BadQuery                      // some of the query cannot be parsed
	UnknownParameter              // Name; Want: the parameters
	RepeatedParameter             // Name
	EmptyParameter                // Name
	WrongParameter                // Name; Want: what its value must be
	MissingParameter              // Name
)

// Fault is a mistake of a request. It is an error that wraps its Problem, which
// is the answer in the usual words.
type Fault struct {
	Kind
	httplimit.Problem
	Name, Want, Got string
	Err             error
}

// Unwrap returns the problem.
func (f *Fault) Unwrap() error { return &f.Problem }

// fault returns a fault of status 400 with a text for the client.
func fault(kind Kind, name, format string, args ...any) *Fault {
	return &Fault{
		Kind: kind, Name: name,
		Problem: httplimit.Problem{Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, args...)},
	}
}

// ErrTooMany answers a call that finds no place among the calls under way.
var ErrTooMany = &httplimit.Problem{
	Status: http.StatusServiceUnavailable, Detail: "too many requests are under way; retry in a second",
	RetryAfter: time.Second,
}

// Bad returns the problem of a request that is wrong.
func Bad(format string, args ...any) error {
	return &httplimit.Problem{Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, args...)}
}

// BadBody returns the problem of a body with a value that err rejects.
func BadBody(err error) *httplimit.Problem {
	detail, status := err.Error(), http.StatusBadRequest
	if invalid, ok := errors.AsType[*limiter.InvalidError](err); ok {
		detail, status = invalid.Error(), StatusOf(invalid)
	}
	return &httplimit.Problem{Status: status, Detail: "body: " + detail}
}

// StatusOf returns 404 for a name that has the right form and does not exist, and
// 400 for other bad input.
func StatusOf(bad *limiter.InvalidError) int {
	if errors.Is(bad, limiter.ErrUnknown) {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// Hides reports whether a problem hides the error that it answers from the client,
// so that only the operator can learn it. An error that is a Problem itself was made
// for the client.
func Hides(p *httplimit.Problem, err error) bool {
	return p.Status >= http.StatusInternalServerError && !errors.As(err, new(*httplimit.Problem))
}

// Outage marks an error of a store as an outage, unless it is a documented error.
func Outage(op string, err error) error {
	if err == nil || errors.Is(err, limiter.ErrNotFound) || errors.Is(err, limiter.ErrClosed) ||
		errors.As(err, new(*httplimit.Problem)) || errors.As(err, new(*limiter.UnavailableError)) ||
		errors.As(err, new(*limiter.InvalidError)) || errors.As(err, new(*limiter.CorruptError)) ||
		errors.As(err, new(*limiter.DisabledError)) {
		return err
	}
	return &limiter.UnavailableError{Op: op, Err: err}
}

// Clip shortens a text of a client for a message.
func Clip(s string) string {
	const longest = 50
	if len(s) > longest {
		return strings.ToValidUTF8(s[:longest], "") + "..."
	}
	return s
}
