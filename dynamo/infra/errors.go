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
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// RefusedError reports why a call does not change a stack, bucket or table, and what
// to do. It matches limiter.ErrConflict.
type RefusedError struct {
	Stack  string
	Table  string // of an error about a table without a stack; Stack is "" then
	Status string // of the stack; "" if it is irrelevant
	Reason string
}

// Error returns the stack, its status and the reason.
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

// Is reports whether target is limiter.ErrConflict.
func (e *RefusedError) Is(target error) bool { return target == limiter.ErrConflict }

// FailedError reports an operation that CloudFormation could not complete.
type FailedError struct {
	Stack  string
	Op     string  // "created", "updated" or "deleted"
	Status string  // of the stack after the failure
	Events []Event // the first failures, oldest first
	Advice string  // what to do, or ""
}

// Error returns the status and the first failures.
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

// InterruptedError reports that a call stopped waiting for an operation, because its
// context ended or polling failed. The operation continues in the account.
type InterruptedError struct {
	Stack string
	Op    string // "created", "updated" or "deleted"
	Err   error  // of the context or of polling

	remedy *dynamo.Remedy // how to go on
}

// Error returns the operation and how to continue.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("stack %q is still being %s: %v; CloudFormation continues; %v to see its status",
		e.Stack, e.Op, e.Err, e.remedy)
}

// Unwrap returns Err.
func (e *InterruptedError) Unwrap() error { return e.Err }

// translateError returns the error for the caller. It keeps the errors of this package
// and of limiter, and the cancellation of ctx, and wraps all others in a
// *limiter.UnavailableError.
func translateError(ctx context.Context, op string, err error) error {
	if refused, ok := errors.AsType[*confirmError](err); ok {
		return refused.error
	}

	if none, ok := errors.AsType[*noCloudFormationError](err); ok {
		// The prefix of the SDK around it would only hide the advice.
		return none
	}

	if silent, ok := errors.AsType[*unresponsiveError](err); ok {
		return &limiter.UnavailableError{Op: op, Err: silent}
	}

	switch {
	case err == nil || isTranslated(err):
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	}

	return &limiter.UnavailableError{Op: op, Err: explain(err)}
}

// isTranslated reports whether err is an error of this package or of limiter.
func isTranslated(err error) bool {
	return is[*RefusedError](err) || is[*FailedError](err) || is[*InterruptedError](err) ||
		is[*limiter.InvalidError](err) || is[*limiter.VersionError](err) || is[*limiter.CorruptError](err) ||
		is[*limiter.UnavailableError](err) ||
		errors.Is(err, limiter.ErrNotFound) || errors.Is(err, limiter.ErrConflict)
}

// is reports whether err wraps a T.
func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// explain adds advice to errors of AWS that have none.
func explain(err error) error {
	if none, ok := errors.AsType[*noCloudFormationError](err); ok {
		return none
	}

	if silent, ok := errors.AsType[*unresponsiveError](err); ok {
		return silent
	}

	// The store has explained its own errors.
	if is[*limiter.UnavailableError](err) {
		return err
	}

	if remedy.IsWithoutCredentials(err) {
		// The server of credentials may have answered 403, which would read as a
		// denied call below.
		return &remedy.CredentialsError{Err: err}
	}

	if broken, ok := errors.AsType[*url.Error](err); ok && httpStatus(err) == 0 {
		// The host alone shows a wrong endpoint or region.
		host := broken.URL
		if u, err := url.Parse(broken.URL); err == nil {
			host = u.Host
		}
		return fmt.Errorf("cannot connect to %s; check the network, the endpoint and the region: %w", host, broken.Err)
	}

	switch code := errorCode(err); {
	case isDenied(err):
		return fmt.Errorf("access denied; the caller's policy must allow %s: %w", iamAction(err), err)
	case strings.HasPrefix(code, "ExpiredToken"):
		return fmt.Errorf("the AWS credentials have expired; sign in again: %w", err)
	case code == "InvalidClientTokenId" || code == "UnrecognizedClientException" || code == "SignatureDoesNotMatch" ||
		code == "InvalidSignatureException":
		return fmt.Errorf("AWS does not accept these credentials; check the profile or the keys: %w", err)
	}

	return err
}

// iamAction returns the IAM action for the call that failed.
func iamAction(err error) string {
	o, ok := errors.AsType[*smithy.OperationError](err)
	if !ok {
		return "it"
	}
	return strings.ToLower(strings.ReplaceAll(o.ServiceID, " ", "")) + ":" + cmp.Or(
		iamActions[o.ServiceID+" "+o.OperationName], o.OperationName,
	)
}

// iamActions maps calls to their IAM action if that has another name.
var iamActions = map[string]string{
	"S3 HeadBucket":           "ListBucket",
	"S3 HeadObject":           "GetObject",
	"S3 ListObjectsV2":        "ListBucket",
	"S3 ListObjectVersions":   "ListBucketVersions",
	"S3 DeleteObjects":        "DeleteObject",
	"S3 PutPublicAccessBlock": "PutBucketPublicAccessBlock",
	"S3 PutBucketEncryption":  "PutEncryptionConfiguration",
}

// errorCode returns the code of an API error, or "".
func errorCode(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// errorText returns the message of an API error, or "".
func errorText(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorMessage()
	}
	return ""
}

// httpStatus returns the HTTP status of a failed call, or 0 without a response.
func httpStatus(err error) int {
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return response.HTTPStatusCode()
	}
	return 0
}

// isDenied reports whether AWS denied access. Responses without a body have no error
// code, or that of the status.
func isDenied(err error) bool {
	return strings.HasPrefix(errorCode(err), "AccessDenied") || httpStatus(err) == 403 &&
		(errorCode(err) == "Forbidden" || errorCode(err) == "")
}

// isTransient reports whether a retry may succeed: after throttling, a fault of the
// service or a failed connection.
func isTransient(err error) bool {
	return retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary
}
