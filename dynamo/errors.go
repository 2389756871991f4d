package dynamo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// writeResult is the outcome of a failed write, as far as its error shows it.
type writeResult int

const (
	notExecuted writeResult = iota // surely not executed: it may be sent again
	refused                        // surely not executed: a condition failed
	unknown                        // may have been executed
)

// resultOf returns what an error says about a write.
func resultOf(err error) writeResult {
	if _, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return refused
	}

	if cancelled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		for _, reason := range cancelled.CancellationReasons {
			if aws.ToString(reason.Code) == codeConditionFailed {
				return refused
			}
		}
		return notExecuted
	}

	// The SDK returns a response without a status where there was none.
	if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && response.HTTPStatusCode() != 0 {
		status := response.HTTPStatusCode()

		// A timeout, and a transaction that is in progress, say nothing about
		// the outcome.
		if status >= 400 && status < 500 && status != 408 && errorCode(err) != "TransactionInProgressException" {
			return notExecuted
		}
		return unknown
	}

	if neverSent(err) {
		return notExecuted
	}
	return unknown
}

const (
	codeConditionFailed = "ConditionalCheckFailed"
	codeConflict        = "TransactionConflict"
)

// neverSent reports whether the request surely did not leave: there was no
// connection, or signing failed.
func neverSent(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}

	_, sent := errors.AsType[*smithyhttp.RequestSendError](err)
	_, cancelled := errors.AsType[*smithy.CanceledError](err)
	_, answered := errors.AsType[*smithy.DeserializationError](err)
	operation, ours := errors.AsType[*smithy.OperationError](err)

	// An error of the SDK that is none of these arose while it made the
	// request.
	return ours && !sent && !cancelled && !answered && !isContext(operation)
}

// isContext reports whether err is the error of a context.
func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// retryableError is an error that the SDK marks.
type retryableError interface {
	error
	RetryableError() bool
}

// retryable reports whether a request that was not executed may succeed later:
// after throttling, a conflict with a transaction, a failed connection, or a
// signature of a machine whose clock is wrong.
func retryable(err error) bool {
	switch errorCode(err) {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "Throttling", "RequestLimitExceeded",
		"TransactionConflictException", "ReplicatedWriteConflictException":
		return true
	case "InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure", "RequestTimeTooSkewed",
		"AccessDeniedException":
		// The SDK has learned the skew from the reply, so another try has a
		// valid signature.
		skew, ok := errors.AsType[retryableError](err)
		return ok && skew.RetryableError()
	case "TransactionCanceledException":
		cancelled, _ := errors.AsType[*types.TransactionCanceledException](err)
		return cancelled != nil && slices.ContainsFunc(cancelled.CancellationReasons,
			func(r types.CancellationReason) bool {
				return slices.Contains([]string{codeConflict, "ThrottlingError", "ProvisionedThroughputExceeded"},
					aws.ToString(r.Code))
			})
	case "":
		op, ok := errors.AsType[*net.OpError](err)
		return ok && op.Op == "dial"
	}
	return false
}

// errorCode returns the code of a service error, or "".
func errorCode(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// explain adds the table to an error, and what to do about it if the error does
// not say that.
func (s *store) explain(err error) error {
	if err == nil || isContext(err) {
		return err
	}
	if _, ok := errors.AsType[*noResponseError](err); ok {
		return s.timeoutError(err)
	}

	switch code := errorCode(err); {
	case code == "ResourceNotFoundException":
		return fmt.Errorf("table %q: not found in this account and region; check the region and the name: %w",
			s.table, err)
	case code == "AccessDeniedException":
		return fmt.Errorf("table %q: access denied; the caller's policy must allow this call: %w", s.table, err)
	case strings.HasPrefix(code, "ExpiredToken"):
		return fmt.Errorf("table %q: the AWS credentials have expired; sign in again: %w", s.table, err)
	case code == "UnrecognizedClientException" || code == "InvalidSignatureException" ||
		code == "InvalidClientTokenId" || strings.HasPrefix(code, "MissingAuthenticationToken"):
		return fmt.Errorf("table %q: AWS does not accept these credentials; check the profile or the keys: %w",
			s.table, err)
	case code == "" && neverSent(err) && strings.Contains(err.Error(), "credentials"):
		return fmt.Errorf("table %q: %w", s.table, &remedy.CredentialsError{Err: err})
	}

	return fmt.Errorf("table %q: %w", s.table, err)
}

// refusedItem returns the item that failed the condition of a write.
func refusedItem(err error) item {
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return failed.Item
	}
	return nil
}

// refusedAt reports whether a transaction was refused because of its item i, and
// returns the item that is stored there.
func refusedAt(err error, i int) (stored item, ok bool) {
	cancelled, is := errors.AsType[*types.TransactionCanceledException](err)
	if !is || i >= len(cancelled.CancellationReasons) {
		return nil, false
	}
	reason := cancelled.CancellationReasons[i]
	return reason.Item, aws.ToString(reason.Code) == codeConditionFailed
}
