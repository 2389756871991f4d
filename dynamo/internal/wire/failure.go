package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// operationError returns the error of a call.
func operationError(err error) error {
	return &smithy.OperationError{ServiceID: dynamodb.ServiceID, OperationName: "UpdateItem", Err: err}
}

// sendError returns the error of a request without a response. Whether the
// service received it is unknown, unless err says it. The SDK returns a response
// without a status where there was none.
func sendError(ctx context.Context, resp *http.Response, err error) error {
	if resp == nil {
		resp = &http.Response{Header: http.Header{}, Body: http.NoBody}
	}

	// The SDK reports the end of the caller's time before any other reason.
	if ctx.Err() != nil {
		return operationError(responseError(resp, &smithy.CanceledError{Err: ctx.Err()}))
	}

	return operationError(responseError(resp, &smithyhttp.RequestSendError{Err: err}))
}

// responseError adds a response to its error.
func responseError(resp *http.Response, err error) error {
	id := resp.Header.Get("X-Amzn-Requestid")
	if id == "" {
		id = resp.Header.Get("X-Amz-RequestId")
	}
	return &awshttp.ResponseError{
		ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: resp}, Err: err},
		RequestID:     id,
	}
}

// replay is the body of a response that was read already, and ended with an error
// or without one.
type replay struct {
	left []byte
	end  error
}

// Read reads what is left, and then returns the error.
func (r *replay) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		if r.end != nil {
			return 0, r.end
		}
		return 0, io.EOF
	}

	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// Close does nothing.
func (*replay) Close() error { return nil }

const (
	// maxSkew is the skew beyond which the service refuses a signature.
	maxSkew = 4 * time.Minute
	// maxRoundTrip is how long a request may take for its skew to mean something.
	maxRoundTrip = 15 * time.Minute
)

// skewOf returns how far the service's clock is ahead of ours, by the date of a
// response. It returns false if the date is missing or comes from a cache.
func skewOf(header http.Header, sent, received time.Time) (time.Duration, bool) {
	took := received.Sub(sent)
	if header.Get("Age") != "" || took > maxRoundTrip {
		return 0, false
	}

	date, err := smithyhttp.ParseTime(header.Get("Date"))
	// The service wrote the date at some moment of the round trip. The middle is
	// wrong by half of that at most.
	return date.Sub(sent.Add(took / 2)), err == nil
}

// isSkewed reports whether the service refused a signature because its time was
// wrong by off.
func isSkewed(err error, off time.Duration) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok || off.Abs() <= maxSkew {
		return false
	}

	switch api.ErrorCode() {
	case "InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure", "RequestTimeTooSkewed",
		"AccessDeniedException":
		return true
	}
	return false
}

// skewError marks an error that another try may not have, because the response
// has shown the skew.
type skewError struct{ err error }

// Error returns the text of the error.
func (e *skewError) Error() string { return "probable clock skew: " + e.err.Error() }

// Unwrap returns the error of the service.
func (e *skewError) Unwrap() error { return e.err }

// RetryableError reports that another try may succeed.
func (*skewError) RetryableError() bool { return true }
