package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

var (
	errTooManyCalls = &httplimit.Problem{
		Status: http.StatusServiceUnavailable, Detail: "too many requests are under way; retry in a second",
		RetryAfter: time.Second,
	}
	errNamespace = &httplimit.Problem{
		Status: http.StatusForbidden, Detail: "the namespace of this session does not exist",
	}
	errClosed = &httplimit.Problem{
		Status: http.StatusServiceUnavailable, Detail: "the dashboard is shutting down",
		RetryAfter: time.Second,
	}
)

// badInput returns the problem of a request that is wrong.
func badInput(format string, args ...any) error {
	return &httplimit.Problem{Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, args...)}
}

// missing returns the problem of a request for something that does not exist.
func missing(format string, args ...any) error {
	return &httplimit.Problem{Status: http.StatusNotFound, Detail: fmt.Sprintf(format, args...)}
}

// fail answers a request that failed. It reports errors that are not about the
// viewer's input.
func (h *Handler) fail(w http.ResponseWriter, err error) {
	p := problem(err)
	// A problem document is a decision of this package, and a viewer who left
	// is no fault of the store.
	if p.Status >= http.StatusInternalServerError && !errors.As(err, new(*httplimit.Problem)) &&
		!errors.Is(err, context.Canceled) {
		h.opts.OnError(err)
	}

	p.ServeHTTP(noStore{w}, nil)
}

// noStore keeps an answer out of caches. A Problem removes Cache-Control from the
// header when it answers, so that the field has to be set again.
type noStore struct{ http.ResponseWriter }

// WriteHeader sends the header.
func (n noStore) WriteHeader(status int) {
	n.Header().Set("Cache-Control", "no-store")
	n.ResponseWriter.WriteHeader(status)
}

// problem returns the answer to a request that failed. Viewers see the text of an
// error only if it is about their input.
func problem(err error) *httplimit.Problem {
	status, detail := http.StatusInternalServerError, "the dashboard failed; its log has the reason"
	invalid, bad := errors.AsType[*limiter.InvalidError](err)
	_, outage := errors.AsType[*limiter.UnavailableError](err)
	late, delayed := errors.AsType[*limiter.SwitchDelayedError](err)
	var after time.Duration

	switch {
	case errors.As(err, new(*httplimit.Problem)):
		return httplimit.NewProblem(err)
	case errors.Is(err, limiter.ErrNoLimits):
		status, detail = http.StatusBadRequest, "no level stores limits for this entity and resource; set "+
			"some, such as defaults of the resource"
	case delayed:
		// The same request, sent again, marks the rest of the buckets.
		status, detail, after = http.StatusServiceUnavailable, late.Public(), time.Second
	case bad:
		status, detail = http.StatusBadRequest, invalid.Error()
	case errors.As(err, new(*limiter.CorruptError)):
		// The text of the error names files of the server.
		detail = "data that this needs are damaged; the log of the dashboard says which"
	case errors.Is(err, limiter.ErrNotFound):
		status, detail = http.StatusNotFound, "there is no such record in this namespace"
	case errors.Is(err, limiter.ErrExists):
		status, detail = http.StatusConflict, "there is such a record already"
	case errors.Is(err, limiter.ErrConflict):
		status, detail = http.StatusConflict, "this is not possible in the present state"
	case errors.Is(err, context.DeadlineExceeded):
		status, detail, after = http.StatusServiceUnavailable, "the store did not answer in time; the read "+
			"budget may be too small", 5*time.Second
	case outage, errors.Is(err, limiter.ErrClosed), errors.Is(err, context.Canceled):
		status, detail, after = http.StatusServiceUnavailable, "the store is unavailable at the moment", 5*time.Second
	}

	return &httplimit.Problem{Type: httplimit.TypeBlank, Status: status, Detail: detail, RetryAfter: after}
}

// outage marks an error of a store as an outage, unless it is a documented error.
func outage(err error) error {
	if err == nil || errors.Is(err, limiter.ErrNotFound) || errors.Is(err, limiter.ErrClosed) ||
		errors.Is(err, context.Canceled) ||
		errors.As(err, new(*httplimit.Problem)) || errors.As(err, new(*limiter.UnavailableError)) ||
		errors.As(err, new(*limiter.InvalidError)) || errors.As(err, new(*limiter.CorruptError)) ||
		errors.As(err, new(*limiter.DisabledError)) {
		return err
	}

	return &limiter.UnavailableError{Op: "read", Err: err}
}
