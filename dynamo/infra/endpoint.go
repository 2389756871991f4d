package infra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// noCloudFormationError reports that an endpoint does not serve CloudFormation.
// DynamoDB Local, for example, responds to its calls with an internal failure,
// which the SDK would retry for two minutes.
type noCloudFormationError struct {
	at     string // the endpoint
	advice string // what to do instead
	remedy.List
}

// Error returns the endpoint and the advice.
func (e *noCloudFormationError) Error() string {
	return fmt.Sprintf("there is no CloudFormation at %s, so no stack; %s", e.at, e.advice)
}

// RetryableError returns false, so that the SDK does not retry.
func (e *noCloudFormationError) RetryableError() bool { return false }

// requireCloudFormation makes a client fail if another service responds.
func (s *session) requireCloudFormation(o *cloudformation.Options) {
	check := middleware.DeserializeMiddlewareFunc("RequireCloudFormation",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
			middleware.DeserializeOutput, middleware.Metadata, error,
		) {
			out, metadata, err := next.HandleDeserialize(ctx, in)

			response, ok := out.RawResponse.(*smithyhttp.Response)
			if err == nil && ok && s.isForeignResponse(response) {
				at := s.endpoint
				if request, ok := in.Request.(*smithyhttp.Request); ok && at == "" {
					at = request.URL.Host
				}
				advice, instead := s.tableAdvice()
				err = &noCloudFormationError{at, advice, remedy.List{instead}}
			}

			return out, metadata, err
		})
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		// The check is next to the wire, where the response is still that of
		// the server.
		return stack.Deserialize.Add(check, middleware.After)
	})
}

// isForeignResponse reports whether a response is not from CloudFormation, which
// sends XML. It accepts everything but JSON from AWS, whose load balancers send
// errors in other formats.
func (s *session) isForeignResponse(response *smithyhttp.Response) bool {
	kind := response.Header.Get("Content-Type")
	if s.endpoint == "" {
		return strings.Contains(kind, "json")
	}
	return !strings.Contains(kind, "xml")
}

// tableAdvice returns what works without CloudFormation, and how the advice names it.
func (s *session) tableAdvice() (advice string, instead *dynamo.Remedy) {
	if s.kind == typeLoad {
		instead = s.remedy(remedy.RunLoad, "")
		return instead.Error() + " runs a load test without one", instead
	}

	name := cmp.Or(s.name, "NAME")
	switch s.op {
	case "upgrade":
		instead = s.remedy(remedy.MigrateTable, name)
		return instead.Error() + " migrates a table without a stack", instead
	case "delete":
		instead = s.remedy(remedy.DeleteTable, name)
		return instead.Error() + " deletes a table without a stack", instead
	}

	instead = s.remedy(remedy.CreateTable, name)
	return instead.Error() + " makes a table without a stack", instead
}

// adviseExistingTable replaces the advice of a *noCloudFormationError if the table
// exists: it limits without a stack.
func (s *session) adviseExistingTable(ctx context.Context, err error) error {
	none, ok := errors.AsType[*noCloudFormationError](err)
	if !ok || !s.hasTable(ctx) {
		return err
	}
	use := s.remedy(remedy.UseTable, s.name)
	return &noCloudFormationError{
		none.at, fmt.Sprintf("table %s exists there and limits without one: %v", s.name, use), remedy.List{use},
	}
}

// hasTable reports whether the table exists and has a version record.
func (s *session) hasTable(ctx context.Context) bool {
	repo, err := s.table(ctx)
	if err != nil {
		return false
	}
	_, err = repo.Version(ctx)
	return errors.Join(err, repo.Close()) == nil
}

// firstResponseTimeout is the timeout for the first response of a service at a
// custom endpoint. An emulator responds at once; another program that listens
// there may never do so.
const firstResponseTimeout = 8 * time.Second

// unresponsiveError reports that a custom endpoint did not respond in time.
type unresponsiveError struct {
	at       string // the endpoint
	service  string
	accepted bool   // it accepted the connection
	advice   string // what to do instead, or ""
	remedy.List
}

// Error returns the endpoint and the advice.
func (e *unresponsiveError) Error() string {
	did := "accepted no connection"
	if e.accepted {
		did = "accepted the connection but did not answer"
	}
	text := fmt.Sprintf("%s %s within %v; check that %s is there", e.at, did, firstResponseTimeout, e.service)
	if e.advice != "" {
		text += ", or do without it: " + e.advice
	}
	return text
}

// RetryableError returns false, so that the SDK does not retry.
func (e *unresponsiveError) RetryableError() bool { return false }

// newUnresponsiveError returns the error for a service at an endpoint.
func (s *session) newUnresponsiveError(service, endpoint string, accepted bool) *unresponsiveError {
	e := &unresponsiveError{at: endpoint, service: service, accepted: accepted}
	if service == cloudformation.ServiceID {
		advice, instead := s.tableAdvice()
		e.advice, e.List = advice, remedy.List{instead}
	}
	return e
}

// limitFirstResponse adds firstResponseTimeout to the options of a client for a
// custom endpoint. Later responses may take longer: an emulator may create a whole
// stack before it responds.
func (s *session) limitFirstResponse(
	options []func(*middleware.Stack) error, endpoint *string,
) []func(*middleware.Stack) error {
	if endpoint == nil {
		return options
	}

	answered := new(atomic.Bool)
	limit := middleware.DeserializeMiddlewareFunc("LimitFirstResponse",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
			middleware.DeserializeOutput, middleware.Metadata, error,
		) {
			if answered.Load() {
				return next.HandleDeserialize(ctx, in)
			}
			service := awsmiddleware.GetServiceID(ctx)

			if s.isUnresponsive(*endpoint) {
				return middleware.DeserializeOutput{}, middleware.Metadata{},
					s.newUnresponsiveError(service, *endpoint, true)
			}

			var accepted atomic.Bool
			ctx, cancel := context.WithCancel(ctx)
			timer := time.AfterFunc(firstResponseTimeout, cancel)
			// An accepted connection is the mark of a program that listens
			// there but does not speak HTTP.
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
				accepted.Store(true)
			}})

			out, metadata, err := next.HandleDeserialize(ctx, in)
			switch late := !timer.Stop(); {
			// Canceling the context would end the read of the body, which is
			// still to come.
			case err == nil:
				answered.Store(true)
				s.answered.Store(*endpoint, true)
			case late:
				// A response to a concurrent call may have come meanwhile, and
				// it counts.
				s.answered.LoadOrStore(*endpoint, false)
				err = s.newUnresponsiveError(service, *endpoint, accepted.Load())
			default:
				cancel()
			}

			return out, metadata, err
		})

	return append(options, func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(limit, middleware.After)
	})
}

// isUnresponsive reports whether a call to an endpoint has timed out and none has
// succeeded. Another call would wait as long.
func (s *session) isUnresponsive(endpoint string) bool {
	answered, asked := s.answered.Load(endpoint)
	return asked && answered == false
}
