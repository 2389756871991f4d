package grpclimit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/figure"
)

// refusalStatus returns the status of a refused call. Of the parent, it names the
// exceeded limits and nothing else.
func refusalStatus(err *limiter.ExceededError) *status.Status {
	public := err.Public()
	failure := &errdetails.QuotaFailure{}

	var names []string
	for _, s := range err.Decision.Statuses {
		if !s.Exceeded {
			continue
		}

		// The limits of the entity itself come first.
		own := s.Entity == err.Decision.Statuses[0].Entity
		failure.Violations = append(failure.Violations, violation(s, own))
		// The entity and its parent may both have the limit.
		if !slices.Contains(names, s.Limit.Name) {
			names = append(names, s.Limit.Name)
		}
	}

	text, details := "rate limit exceeded: "+strings.Join(names, ", "), []protoadapt.MessageV1{failure}
	if public.NeverFits {
		text += "; the call is above a capacity, so no retry helps"
	} else {
		wait := max(public.RetryAfter, time.Millisecond)
		text += "; retry after " + figure.Wait(wait)
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	}

	plain := status.New(codes.ResourceExhausted, text)

	// Without its details the status is still true.
	if st, err := plain.WithDetails(details...); err == nil {
		return st
	}
	return plain
}

// disabledStatus returns the status of a call that a switch refuses. The detail
// distinguishes it from a token without the right.
func disabledStatus() *status.Status {
	plain := status.New(codes.PermissionDenied, "access is disabled")
	if st, err := plain.WithDetails(&errdetails.ErrorInfo{
		Reason: "ACCESS_DISABLED", Domain: "github.com/zeroae/zae-limiter-go",
	}); err == nil {
		return st
	}
	return plain
}

// violation describes an exceeded limit, without the numbers of a limit that
// belongs to the parent.
func violation(s limiter.Status, own bool) *errdetails.QuotaFailure_Violation {
	amount := func(n int64) string { return figure.Amount(s.Limit.Name, n) }
	v := &errdetails.QuotaFailure_Violation{Subject: "limit:" + s.Limit.Name, QuotaId: s.Limit.Name}

	switch {
	case own && s.NeverFits:
		v.Description = fmt.Sprintf("the call needs %s, above the capacity of %s", amount(s.Requested),
			amount(s.Limit.Capacity))
	case own:
		v.Description = fmt.Sprintf("the call needs %s, and %s are available", amount(s.Requested),
			amount(max(s.Available, 0)))
	case s.NeverFits:
		v.Description = "the call is above a capacity that others share"
	default:
		v.Description = "a limit that others share is exceeded"
	}

	return v
}
