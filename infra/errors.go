package infra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/hint"
)

// RefusedError says why a stack, a bucket or a table is left as it is, and what
// to do. It matches [limiter.ErrConflict].
type RefusedError struct {
	Stack  string
	Table  string // where it is about a table by itself; Stack is "" then
	Status string // of the stack; "" where it does not matter
	Reason string
}

// Error names the stack and its state.
func (e *RefusedError) Error() string {
	if e.Table != "" {
		return fmt.Sprintf("table %q: %s", e.Table, e.Reason)
	}
	status := ""
	if e.Status != "" {
		status = " (" + e.Status + ")"
	}
	return fmt.Sprintf("stack %q%s: %s", e.Stack, status, e.Reason)
}

// Is matches limiter.ErrConflict.
func (e *RefusedError) Is(target error) bool { return target == limiter.ErrConflict }

// FailedError is work that CloudFormation began and could not do.
type FailedError struct {
	Stack  string
	Op     string  // what was to be done with it: "created", "updated" or "deleted"
	Status string  // how it ended
	Events []Event // the first failures, oldest first
	Advice string  // what to do now, if it is not plain
}

// Error has the first reasons.
func (e *FailedError) Error() string {
	text := fmt.Sprintf("stack %q could not be %s (%s)", e.Stack, e.Op, e.Status)
	for _, event := range e.Events {
		text += fmt.Sprintf("\n  %s %s: %s", event.Resource, event.Status, event.Reason)
	}
	if e.Advice != "" {
		text += "\n" + e.Advice
	}
	return text
}

// InterruptedError says that a call stopped waiting, because its context ended
// or the stack could not be watched, for work that goes on in the account.
type InterruptedError struct {
	Stack string
	Op    string // what is being done with it: "created", "updated" or "deleted"
	Err   error  // the context's, or why it could not be watched

	place hint.Place
}

// Error says how to go on.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("stack %q is still being %s; that goes on in the account, the same command waits for it again, and %s shows it: %v",
		e.Stack, e.Op, e.place.Command("status", "--name", e.Stack), e.Err)
}

// Unwrap is Err.
func (e *InterruptedError) Unwrap() error { return e.Err }

// failure is what a caller gets: errors in the terms of this package and of
// limiter as they are, a caller's own cancellation as it is, anything else as an
// outage.
func failure(ctx context.Context, op string, err error) error {
	if refused, ok := errors.AsType[*confirmError](err); ok {
		return refused.error
	}
	if none, ok := errors.AsType[*noStacksError](err); ok {
		return none // without what the SDK puts in front of it
	}
	if silent, ok := errors.AsType[*silentError](err); ok {
		return &limiter.UnavailableError{Op: op, Err: silent}
	}
	switch {
	case err == nil || isDomain(err):
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	}
	return &limiter.UnavailableError{Op: op, Err: explain(err)}
}

func isDomain(err error) bool {
	return is[*RefusedError](err) || is[*FailedError](err) || is[*InterruptedError](err) ||
		is[*limiter.InvalidError](err) || is[*limiter.VersionError](err) || is[*limiter.CorruptError](err) || is[*limiter.UnavailableError](err) ||
		errors.Is(err, limiter.ErrNotFound) || errors.Is(err, limiter.ErrConflict)
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// explain puts what to do in front of errors whose own text does not say.
func explain(err error) error {
	if none, ok := errors.AsType[*noStacksError](err); ok {
		return none
	}
	if silent, ok := errors.AsType[*silentError](err); ok {
		return silent
	}
	if broken, ok := errors.AsType[*url.Error](err); ok && httpStatus(err) == 0 {
		host := broken.URL
		if u, err := url.Parse(broken.URL); err == nil {
			host = u.Host
		}
		return fmt.Errorf("cannot connect to %s; check the network, the endpoint and the region: %w", host, broken.Err)
	}
	switch code := errorCode(err); {
	case isDenied(err):
		return fmt.Errorf("the caller may not do this; its policy has to allow %s: %w", operation(err), err)
	case strings.HasPrefix(code, "ExpiredToken"):
		return fmt.Errorf("the AWS credentials have expired; sign in again: %w", err)
	case code == "InvalidClientTokenId" || code == "UnrecognizedClientException" || code == "SignatureDoesNotMatch" || code == "InvalidSignatureException":
		return fmt.Errorf("AWS does not accept these credentials; check the profile or the keys: %w", err)
	case code == "" && strings.Contains(err.Error(), "get credentials"):
		return fmt.Errorf("no AWS credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run under a role: %w", err)
	}
	return err
}

// operation is the call that failed, as policies name it.
func operation(err error) string {
	o, ok := errors.AsType[*smithy.OperationError](err)
	if !ok {
		return "it"
	}
	return strings.ToLower(strings.ReplaceAll(o.ServiceID, " ", "")) + ":" + cmp.Or(otherActions[o.ServiceID+" "+o.OperationName], o.OperationName)
}

// otherActions are those that a policy calls other than the call.
var otherActions = map[string]string{
	"S3 HeadBucket":           "ListBucket",
	"S3 HeadObject":           "GetObject",
	"S3 ListObjectsV2":        "ListBucket",
	"S3 ListObjectVersions":   "ListBucketVersions",
	"S3 DeleteObjects":        "DeleteObject",
	"S3 PutPublicAccessBlock": "PutBucketPublicAccessBlock",
	"S3 PutBucketEncryption":  "PutEncryptionConfiguration",
}

func errorCode(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

func errorText(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorMessage()
	}
	return ""
}

// httpStatus is 0 where there was no answer.
func httpStatus(err error) int {
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return response.HTTPStatusCode()
	}
	return 0
}

// isDenied knows both ways to say so, and that of answers without a body.
func isDenied(err error) bool {
	return strings.HasPrefix(errorCode(err), "AccessDenied") || httpStatus(err) == 403 && (errorCode(err) == "Forbidden" || errorCode(err) == "")
}

// isPassing tells whether the same call may succeed later: throttling, a fault
// of the service, no connection.
func isPassing(err error) bool {
	return retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary
}
