package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

var (
	errGreedy = &httplimit.Problem{
		Status:     http.StatusTooManyRequests,
		Detail:     "too many requests with this token are under way; close other tabs, or retry in a second",
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

// rules are lenient where the page never was strict: a field may be null, in
// another case, and part of a large value.
var rules = &web.Rules{Refuse: refuse, MaxParameter: 2048, NoHead: true}

// refuse returns the answer to a fault of a request, in the words of the page.
func refuse(f *web.Fault) error {
	switch f.Kind {
	case web.Unusual, web.EmptyParameter:
		return nil
	case web.OtherType:
		return &httplimit.Problem{
			Status: http.StatusUnsupportedMediaType,
			Detail: "Content-Type: must be application/json, without a Content-Encoding",
		}
	case web.WrongValue:
		return web.Bad("body: must be one JSON object")
	case web.Trailing:
		return web.Bad("body: must be one JSON object, and nothing after it")
	case web.WrongType:
		return web.Bad("body: field %s: must be %s, not a JSON %s", f.Name, f.Want, f.Got)
	case web.UnknownField:
		return web.Bad("body: field %s: is unknown", web.Clip(strconv.Quote(f.Name)))
	case web.RepeatedField:
		return web.Bad("body: field %q: occurs twice", web.Clip(f.Name))
	}
	return f
}

// missing returns the problem of a request for something that does not exist.
func missing(format string, args ...any) error {
	return &httplimit.Problem{Status: http.StatusNotFound, Detail: fmt.Sprintf(format, args...)}
}

// fail answers a request that failed. It reports errors that are not about the
// viewer's input.
func (h *Handler) fail(w http.ResponseWriter, err error) {
	p := problem(err)
	// A viewer who left is no fault of the store.
	if web.Hides(p, err) && !errors.Is(err, context.Canceled) {
		h.opts.OnError(err)
	}

	// A viewer that has gone needs no answer.
	_ = web.NewFailure(w.Header(), p, nil).Write(w)
}

// problem returns the answer to a request that failed. Viewers see the text of an
// error only if it is about their input.
func problem(err error) *httplimit.Problem {
	status, detail := http.StatusInternalServerError, "the dashboard failed; its log has the reason"
	invalid, bad := errors.AsType[*limiter.InvalidError](err)
	_, outage := errors.AsType[*limiter.UnavailableError](err)
	late, delayed := errors.AsType[*limiter.SwitchDelayedError](err)
	large, tooLarge := errors.AsType[*http.MaxBytesError](err)
	var after time.Duration

	switch {
	case errors.As(err, new(*httplimit.Problem)):
		return httplimit.NewProblem(err)
	case tooLarge:
		status = http.StatusRequestEntityTooLarge
		detail = fmt.Sprintf("the body must have at most %d bytes", large.Limit)
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

// outage marks an error of a store as an outage, unless it is a documented error or
// the viewer has left.
func outage(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return web.Outage("read", err)
}
