package webdemo

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// fail answers a request that failed. A client sees the text of an error only if it
// is about the client's own input.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	problem := newProblem(err)

	// A problem that the demo chose itself is no failure, and a client that
	// left causes errors of its own.
	if problem.Status >= http.StatusInternalServerError && !gone(r, err) && !errors.As(err, new(*httplimit.Problem)) {
		h.opts.OnError(err)
	}

	if problem.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="zae-limiter demo"`)
	}

	w.Header().Set("Cache-Control", "no-store")
	problem.ServeHTTP(w, r)
}

func newProblem(err error) *httplimit.Problem {
	if chosen, ok := errors.AsType[*httplimit.Problem](err); ok {
		return chosen
	}

	switch {
	case errors.Is(err, limiter.ErrNotFound):
		return &httplimit.Problem{Status: http.StatusNotFound, Detail: "there is no such entity"}
	case errors.Is(err, limiter.ErrExists):
		return &httplimit.Problem{Status: http.StatusConflict, Detail: "an entity with this ID exists"}
	case errors.Is(err, limiter.ErrNoLimits):
		return &httplimit.Problem{
			Status: http.StatusConflict,
			Detail: "no limits of requests or tokens are in force for this key and model; set limits rpm or tpm",
		}
	}

	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return &httplimit.Problem{Status: http.StatusBadRequest, Detail: bad.Error()}
	}

	return httplimit.NewProblem(err)
}

// invalidf returns the problem of a request with wrong input.
func invalidf(format string, args ...any) error {
	return &httplimit.Problem{Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, args...)}
}
