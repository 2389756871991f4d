package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/internal/hint"
	"github.com/zeroae/zae-limiter-go/cmd/internal/jsonview"
	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
	"github.com/zeroae/zae-limiter-go/httplimit"
)

// errGone answers a call for a lease that the caller does not have here: it has
// ended, its time is over, another token acquired it, or another instance holds
// it. The answer does not say which.
var errGone = &httplimit.Problem{
	Status: http.StatusGone,
	Detail: "there is no such open lease of this token here; it has ended, or its time is over",
}

// errUnsettled answers a commit or rollback that the store did not take.
var errUnsettled = &httplimit.Problem{
	Status: http.StatusServiceUnavailable,
	Detail: "the store is unavailable; the lease has ended, and its last corrections may be lost",
}

// errBusy answers an acquire that finds no place for its lease.
var errBusy = &httplimit.Problem{
	Status: http.StatusServiceUnavailable, Detail: "too many leases are open; retry in a second",
	RetryAfter: time.Second,
}

// errDraining answers an acquire while the server shuts down.
var errDraining = &httplimit.Problem{
	Status: http.StatusServiceUnavailable, Detail: "the server is shutting down; retry at another instance",
	RetryAfter: time.Second,
}

// fail returns the answer to a call that failed. A client sees the text of an
// error only if it is about the client's own input.
func (s *Server) fail(h http.Header, err error) *web.Answer {
	problem := s.problem(err)
	if web.Hides(problem, err) {
		s.opts.OnError(err)
	}

	var sent error = problem
	var fields *httplimit.Fields
	// A refusal by a limit has the fields RateLimit and RateLimit-Policy.
	if refused, ok := errors.AsType[*limiter.ExceededError](err); ok {
		sent, fields = refused, jsonview.Fields(refused.Decision)
	}

	return web.NewFailure(h, sent, fields)
}

// errNamespace answers the holder of a token whose namespace is gone.
var errNamespace = &httplimit.Problem{
	Status: http.StatusForbidden, Detail: "the namespace of this token does not exist",
}

func (s *Server) problem(err error) *httplimit.Problem {
	switch {
	case errors.As(err, new(*hint.NoLimitsError)):
		// The error wraps ErrNoLimits, so it comes first. Its text is for the operator.
		return httplimit.NewProblem(err)
	case errors.Is(err, limiter.ErrNoLimits):
		// The call asks about limits or fills a bucket, so that it is no fault of the
		// server, unlike an acquire.
		return &httplimit.Problem{
			Status: http.StatusNotFound,
			Detail: "no level stores limits for this entity and resource; set some, such as defaults of the resource",
		}
	case errors.Is(err, limiter.ErrLeaseDone):
		return errGone
	case errors.Is(err, limiter.ErrNotFound):
		return &httplimit.Problem{
			Status: http.StatusNotFound, Detail: "there is no such record in the namespace of this token",
		}
	case errors.Is(err, errKeyBusy):
		return &httplimit.Problem{Status: http.StatusConflict, Detail: errKeyBusy.Error(), RetryAfter: time.Second}
	case errors.Is(err, errKeyTaken):
		return &httplimit.Problem{Status: http.StatusUnprocessableEntity, Detail: errKeyTaken.Error()}
	}

	if off, ok := errors.AsType[*limiter.DisabledError](err); ok {
		return &httplimit.Problem{Status: http.StatusForbidden, Detail: off.Public()}
	}
	// The switch is stored, but does not reach every bucket yet. The same request, sent
	// again, reaches the rest.
	if late, ok := errors.AsType[*limiter.SwitchDelayedError](err); ok {
		return &httplimit.Problem{Status: http.StatusServiceUnavailable, Detail: late.Public(), RetryAfter: time.Second}
	}
	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		return &httplimit.Problem{Status: web.StatusOf(bad), Detail: bad.Error()}
	}
	return httplimit.NewProblem(err)
}
