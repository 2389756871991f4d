package grpclimit

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go"
)

// Error returns err with the gRPC status that a client may see. The result has the
// text of the status, and errors.As still finds err. An error that has a status
// already is returned unchanged, and nil is nil.
//
//   - An *[limiter.ExceededError] is ResourceExhausted with details, unless its
//     caller cancelled the call.
//   - A *[limiter.DisabledError] is PermissionDenied with details, without its
//     reason and level.
//   - An *[limiter.InvalidError] is InvalidArgument. If it says that something is
//     missing in the server's configuration, such as limits, it is Internal.
//   - An *[limiter.UnavailableError], a *[limiter.SwitchDelayedError] and a closed
//     store are Unavailable.
//   - The end of a context is Canceled or DeadlineExceeded.
//   - A namespace that is gone is FailedPrecondition.
//   - Anything else is Internal.
func Error(err error) error {
	if err == nil {
		return nil
	}
	var has interface{ GRPCStatus() *status.Status }
	if errors.As(err, &has) {
		return err
	}

	return &statusError{statusOf(err), err}
}

// statusError is an error with a gRPC status.
type statusError struct {
	status *status.Status
	err    error
}

// Error returns the text of the status, since gRPC sends it to clients if another
// interceptor wraps the error.
func (e *statusError) Error() string { return e.status.Err().Error() }

// GRPCStatus returns the status for the wire.
func (e *statusError) GRPCStatus() *status.Status { return e.status }

// Unwrap returns the error of the limiter.
func (e *statusError) Unwrap() error { return e.err }

func statusOf(err error) *status.Status {
	// A caller that waited may get its last refusal and the end of its context in
	// one error.
	if refusal, ok := errors.AsType[*limiter.ExceededError](err); ok && !errors.Is(err, context.Canceled) {
		return refusalStatus(refusal)
	}

	if _, ok := errors.AsType[*limiter.DisabledError](err); ok {
		return disabledStatus()
	}

	if bad, ok := errors.AsType[*limiter.InvalidError](err); ok {
		// Limits or a price are missing.
		if bad.Err != nil {
			return status.New(codes.Internal,
				"the server is not set up for this call; its operator finds the reason in the log")
		}
		return status.New(codes.InvalidArgument, describeInvalid(bad))
	}

	_, outage := errors.AsType[*limiter.UnavailableError](err)
	_, delayed := errors.AsType[*limiter.SwitchDelayedError](err)

	switch {
	case outage || delayed || errors.Is(err, limiter.ErrClosed):
		return status.New(codes.Unavailable, "the rate limits cannot be checked at the moment")
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "the call was cancelled before it was admitted")
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded, "the deadline passed before the call was admitted")
	case errors.Is(err, limiter.ErrNotFound):
		return status.New(codes.FailedPrecondition, "the namespace of the rate limits does not exist")
	}
	return status.New(codes.Internal, "the rate limits cannot be checked")
}

// describeInvalid returns a text for the client. A reason may name an entity,
// except where it describes the form of an ID.
func describeInvalid(err *limiter.InvalidError) string {
	if err.Field == "entity_id" || err.Field == "resource" {
		return "invalid " + err.Field + ": " + err.Reason
	}
	return "invalid " + err.Field
}
